"""What the model reads: bytes of one text, at places that depend on seed, step and rank alone.

There is no reader whose position could be lost: the position in the data is the step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .prose import PROSE

Tokens = npt.NDArray[np.int64]

VOCABULARY = 256


def batch(seed: int, step: int, rank: int, sequences: int, length: int) -> tuple[Tokens, Tokens]:
    """Return tokens and, one place further on, targets; each `sequences` × `length`."""
    # A counter-based generator: any step's numbers without drawing those before it.
    bits = np.random.Philox(key=[seed, rank], counter=[0, 0, 0, step])
    corpus = np.frombuffer(PROSE.encode(), np.uint8)
    starts = bits.random_raw(sequences) % np.uint64(corpus.size - length)
    places = starts.astype(np.int64)[:, None] + np.arange(length + 1)
    tokens = corpus[places].astype(np.int64)
    return tokens[:, :-1], tokens[:, 1:]
