"""What one client did, in numbers that outlive its process where its row is shared memory."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from testbed.clock import now

Row = npt.NDArray[np.float64]


class Field(IntEnum):
    """The place of each number in a row."""

    SINCE = 0
    """When the round began that it takes part in, on the monotonic clock; 0: in none."""
    WORKED = 1
    """Seconds in rounds, those that it did not end included."""
    TASKS = 2
    """Rounds whose update it pushed."""
    OVERRAN = 3
    """Of these, where its own computation took longer than the trace says."""
    VANISHED = 4
    """Rounds in the middle of which it was ended."""
    WASTED = 5
    """Acceptances that were not bound."""
    CODES = 6
    """Pushes that were answered with code 0; those of the other codes follow."""
    OUTCOMES = 13
    """Updates of which a client heard later that code 0 has become of them, and so on."""


WIDTH = Field.OUTCOMES + 7
"""Numbers of a row: codes are 0 to 6."""


class TaskCounts:
    """The counts of a client, in a row of `WIDTH` numbers."""

    def __init__(self, row: Row | None = None) -> None:
        """Count in a row, or in one of its own."""
        self.row: Row = np.zeros(WIDTH) if row is None else row

    def begin(self) -> None:
        """Note that it takes part in a round from now on."""
        self.row[Field.SINCE] = now()

    def push(self, code: int, overran: bool) -> None:
        """Note how a push was answered, and whether its computation took too long."""
        self.row[Field.TASKS] += 1
        self.row[Field.OVERRAN] += overran
        self.row[Field.CODES + code] += 1

    def hear(self, code: int) -> None:
        """Note what has become of an update."""
        self.row[Field.OUTCOMES + code] += 1

    def waste(self, acceptances: int) -> None:
        """Note acceptances that were not bound."""
        self.row[Field.WASTED] += acceptances

    def end(self) -> None:
        """Note that it takes part in no round any more."""
        if self.row[Field.SINCE]:
            self.row[Field.WORKED] += now() - self.row[Field.SINCE]
        self.row[Field.SINCE] = 0

    def vanish(self) -> None:
        """Note that it was ended; in the middle of a round, that counts."""
        self.row[Field.VANISHED] += bool(self.row[Field.SINCE])
        self.end()
