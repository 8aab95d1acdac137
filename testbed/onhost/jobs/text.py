"""The training data: bytes of one text, at positions given by seed, step and rank.

There is no reader state to restore after a failure: the step determines the position.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .prose import PROSE

Tokens = npt.NDArray[np.int64]

VOCABULARY = 256


def batch(seed: int, step: int, rank: int, sequences: int, length: int) -> tuple[Tokens, Tokens]:
    """Return tokens and the targets one position further; each `sequences` × `length`."""
    # A counter-based generator: any step's numbers without drawing those before it.
    bits = np.random.Philox(key=[seed, rank], counter=[0, 0, 0, step])
    corpus = np.frombuffer(PROSE.encode(), np.uint8)
    starts = bits.random_raw(sequences) % np.uint64(corpus.size - length)
    places = starts.astype(np.int64)[:, None] + np.arange(length + 1)
    tokens = corpus[places].astype(np.int64)
    return tokens[:, :-1], tokens[:, 1:]
