"""Checksums of blocks of a vector, which are summed over the ranks along with its values.

The checksum of a block is two numbers: a weighted sum of its values, and the same sum of their
absolute values (checksums of this kind: Huang and Abraham 1984). The weighted sum of the summed
block must be the sum of the ranks' weighted sums, up to rounding errors: adding n numbers of
float32 in any order errs by at most (n - 1) · 2⁻²⁴ of the sum of their absolute values. So a
correct sum never fails, and a wrong value is detected as soon as its error exceeds the possible
rounding error of the block.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Optional

import numpy as np
import numpy.typing as npt

from .state import Numbers

BLOCK = 4096
"""Values that one checksum is about."""

EVERY = 16
"""Steps within which every block of a sum is looked at."""

Sums = npt.NDArray[np.float64]

_UNIT = 2.0**-24
_TINY = 1e-30
_scatter = np.arange(BLOCK) * 40503 % 65536
WEIGHTS: Sums = (1 + _scatter / 65536) * np.where(_scatter & 1, 1.0, -1.0)
"""No two alike, so that values which have changed places show."""

_ABSOLUTE = np.abs(WEIGHTS)


def block_count(width: int) -> int:
    """Return the number of blocks in a row of `width` values."""
    return -(-width // BLOCK)


def blocks_verified_in(step: int, chunk: int, count: int) -> list[int]:
    """Return the blocks of a chunk that are verified in a step, the same on all ranks.

    They are a sixteenth of the blocks in turn, so that each is verified every 16 steps, and one at
    random.
    """
    return sorted(
        {*range(step % EVERY, count, EVERY), zlib.crc32(f"{step} {chunk}".encode()) % count}
    )


def checksums_of(values: Numbers, blocks: Sequence[int]) -> Sums:
    """Return the checksums of the given blocks of a row, in shape (blocks, 2)."""
    return np.array([(_weighted(values, b), _magnitude(values, b)) for b in blocks])


def _weighted(values: Numbers, block: int) -> float:
    part = values[block * BLOCK : (block + 1) * BLOCK]
    return float(part.astype(np.float64) @ WEIGHTS[: len(part)])


def _magnitude(values: Numbers, block: int) -> float:
    part = np.abs(values[block * BLOCK : (block + 1) * BLOCK])
    return float(part.astype(np.float64) @ _ABSOLUTE[: len(part)])


def first_mismatch(
    values: Numbers, checksums: Numbers, ranks: int, blocks: Sequence[int]
) -> Optional[tuple[int, float, float]]:
    """Return the first block whose sum disagrees with the summed checksums, or None.

    The result also has its actual and its expected weighted sum. NaN never agrees.
    """
    for place, block in enumerate(blocks):
        expected, magnitude = map(float, checksums[place])
        found = _weighted(values, block)
        if not abs(found - expected) <= (2 * ranks + 2) * _UNIT * magnitude + _TINY:
            return block, found, expected
    return None
