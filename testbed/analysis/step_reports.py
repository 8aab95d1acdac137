"""What ranks report of steps, kept in columns, and the steps that all of them finished.

A job may run for days before its fault comes, with a thousand ranks: a report takes a hundred bytes
here, and the stamps of all reports are moved to the log's seconds at once.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from testbed.analysis.clocks import Clocks, Instants
from testbed.analysis.steps import KINDS, Step
from testbed.events import Event

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Rows = npt.NDArray[np.intp]
    """Numbers of reports; of steps, a row for each and in it a column for each rank."""

_T, _BEGIN, _END, _ENTERED, _LEFT, _LOSS = range(6)
"""Columns of floats: when a report came, the rank's stamps, and its loss."""

_STEP, _BYTES, _SKIPPED, _WIRE, _DIGEST = range(5)
"""Columns of whole numbers of 64 bits."""

_GENERATION, _RANK, _CHOICE, _HOST, _WORK, _VERIFIED, _PART = range(7)
"""Columns of whole numbers of 32 bits."""

_NOT_COUNTED = -(1 << 63)
"""In place of what a port has sent, where ports do not count."""


class StepReports:
    """The reports of steps and timed collectives of one trial, in the order of the log."""

    def __init__(self, reports: Iterable[Event] = ()) -> None:
        self.ranks = 0
        """One more than the highest rank that reported."""
        self._in_generation: dict[int, int] = {}
        """How many ranks a generation has that was formed meanwhile."""
        self._floats = array("d")
        self._counts = array("q")
        self._codes = array("i")
        self._hosts: dict[str, int] = {}
        self._works: dict[str, int] = {}
        for report in reports:
            self.add(report)

    def add(self, report: Event) -> None:
        """Take one more report; that of a host which has lost its rank belongs to no step."""
        data = report.data
        rank, loss, is_sample = data["rank"], data.get("loss"), report.kind == "sample"
        if rank is None:
            return
        self.ranks = max(self.ranks, rank + 1)
        wire = None if is_sample else data.get("wire")
        # What enters a timed collective is what begins.
        entered, left = (data["begin"], data["end"]) if is_sample else data["collective"]
        what = data.get("dimension") or data.get("algorithm", "ring")
        work = f"{what} {data['size']}" if is_sample else ""
        self._floats.extend(
            (
                report.t,
                data["begin"],
                data["end"],
                entered,
                left,
                math.nan if loss is None else loss,
            )
        )
        self._counts.extend(
            (
                data["step"],
                data.get("bytes") or 0,
                data.get("skipped_bytes", 0),
                _NOT_COUNTED if wire is None else wire,
                hash(data.get("digest", "")),  # to compare the ranks of one step
            )
        )
        self._codes.extend(
            (
                data["generation"],
                rank,
                data.get("choice", 0),
                self._hosts.setdefault(data["host"], len(self._hosts)),
                self._works.setdefault(work, len(self._works)),
                bool(data.get("verified", is_sample)),
                data.get("part", 0),
            )
        )

    def add_generation(self, membership: Event) -> None:
        """Take the event of an order to form a generation: so many ranks report its steps."""
        data = membership.data
        self._in_generation[data["generation"]] = len(data["hosts"])

    def finished(self, clocks: Clocks, ranks: int) -> list[Step]:
        """Return the steps that all ranks reported, in the order of their ends.

        Generations of which nothing was told have so many `ranks`. A step with a report from a host
        whose clock was never measured is left out.
        """
        sizes = sorted({ranks, *self._in_generation.values()})
        found = [self._finished(clocks, self._complete(size, ranks)) for size in sizes]
        if len(found) == 1:
            return found[0]
        return sorted(chain.from_iterable(found), key=lambda step: step.end.late)

    def _finished(self, clocks: Clocks, rows: Rows) -> list[Step]:
        """Return steps, of which each row has the reports, in the order of their ends."""
        import numpy as np

        if not len(rows):
            return []
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            begin, end = self._instants(clocks, _BEGIN), self._instants(clocks, _END)
            rows = rows[~np.isnan(begin.early[rows]).any(axis=1)]
            last = _of_each(rows, end.late[rows].argmax(axis=1))
            order = end.late[last].argsort(kind="stable")
            rows, last = rows[order], last[order]
            first = _of_each(rows, begin.early[rows].argmin(axis=1))
            begin, end = begin.part(first), end.part(last)  # all are as large as what is left
            values = [*self._collectives(rows, clocks), *self._values(rows)]
        values = [*values[3:], *values[:3]]
        table = zip(begin.each(), end.each(), *values, strict=True)
        return [
            Step(generation, number, at[0], at[1], good, loss, took, skew, sent, choice, work)
            for *at, generation, number, good, loss, choice, work, took, skew, sent in table
        ]

    def _complete(self, size: int, ranks: int) -> Rows:
        """Return the reports of each step of all ranks in generations of a size, as logged.

        Generations of which nothing was told have so many `ranks`.
        """
        import numpy as np

        if not size or not self._codes:
            return np.empty((0, size), np.intp)
        _, counts, codes = self._columns()
        order = np.lexsort((counts[:, _STEP], codes[:, _GENERATION]))
        generation, step = codes[order, _GENERATION], counts[order, _STEP]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (generation[1:] != generation[:-1]) | (step[1:] != step[:-1])
        first = np.flatnonzero(is_first)
        sizes = np.diff(np.append(first, len(order)))
        of_size = np.full(len(first), ranks == size)
        for formed, members in self._in_generation.items():
            of_size[generation[first] == formed] = members == size
        found: Rows = order[first[of_size & (sizes == size)][:, None] + np.arange(size)]
        return found[found[:, 0].argsort()]

    def _values(self, rows: Rows) -> Iterator[list[Any]]:
        """Yield generations, numbers, whether verified, losses, choices and works of steps."""
        import numpy as np

        floats, counts, codes = self._columns()
        first = rows[:, 0]
        yield codes[first, _GENERATION].tolist()
        yield counts[first, _STEP].tolist()
        digests, parts = counts[rows, _DIGEST], codes[rows, _PART]
        is_verified = codes[rows, _VERIFIED].all(axis=1)
        for part in np.unique(parts):  # ranks with one part of the parameters have the same
            is_of = parts == part
            one = _of_each(digests, is_of.argmax(axis=1))
            is_verified &= ((digests == one[:, None]) | ~is_of).all(axis=1)
        yield is_verified.tolist()
        # Of a split model, only some ranks know the loss.
        losses = floats[rows, _LOSS]
        losses = _of_each(losses, (~np.isnan(losses)).argmax(axis=1)).tolist()
        yield [None if math.isnan(loss) else loss for loss in losses]
        yield codes[first, _CHOICE].tolist()
        works = list(self._works)
        yield [works[code] for code in codes[first, _WORK].tolist()]

    def _collectives(self, rows: Rows, clocks: Clocks) -> Iterator[list[Any]]:
        """Yield how long the collectives of steps took, by how much the last rank was late, bytes.

        Seconds from the last rank's entry to the last one's exit, and since the entry before it.
        """
        import numpy as np

        _, counts, _ = self._columns()
        entered = self._instants(clocks, _ENTERED).guess[rows]
        entered.sort(axis=1)
        yield (self._instants(clocks, _LEFT).guess[rows].max(axis=1) - entered[:, -1]).tolist()
        before = entered[:, -2] if entered.shape[1] > 1 else entered[:, -1]
        yield np.subtract(entered[:, -1], before).tolist()
        yield counts[rows, _BYTES].max(axis=1).tolist()

    def wire_overhead(self, generation: int, last: int) -> float | None:
        """Return the share of bytes that a rank's ports sent beyond the data of its AllReduces.

        The median over the ranks, from the end of the first to the end of the last step of a
        generation, up to step `last`. None where ports have no counters.
        """
        import numpy as np

        if not self._codes:
            return None
        _, counts, codes = self._columns()
        is_of = (codes[:, _GENERATION] == generation) & (counts[:, _STEP] <= last)
        rows = np.flatnonzero(is_of & (counts[:, _WIRE] != _NOT_COUNTED))
        rows = rows[codes[rows, _RANK].argsort(kind="stable")]
        cuts = np.flatnonzero(np.diff(codes[rows, _RANK])) + 1
        shares = []
        for mine in np.split(rows, cuts):
            asked = int(counts[mine[1:], _BYTES].sum() + counts[mine[1:], _SKIPPED].sum())
            if asked:
                sent = int(counts[mine[-1], _WIRE] - counts[mine[0], _WIRE])
                shares.append(sent / asked - 1)
        return statistics.median(shares) if shares else None

    def _instants(self, clocks: Clocks, column: int) -> Instants:
        """Return the stamps of a column in the log's seconds; NaN on an unmeasured clock."""
        import numpy as np

        floats, _, codes = self._columns()
        found = Instants(*(np.full(len(floats), np.nan) for _ in range(3)))
        order = codes[:, _HOST].argsort(kind="stable")
        bounds = np.searchsorted(codes[order, _HOST], np.arange(len(self._hosts) + 1))
        for host, code in self._hosts.items():
            mine = order[bounds[code] : bounds[code + 1]]
            known = clocks.instants(host, floats[mine, _T], floats[mine, column])
            if known is not None:
                for whole, part in zip(found, known, strict=True):
                    whole[mine] = part
        return found

    def _columns(self) -> tuple[Any, Any, Any]:
        """Return the reports as three tables, a row each, without copying."""
        import numpy as np

        tables = ((self._floats, 6), (self._counts, 5), (self._codes, 7))
        found = (np.frombuffer(of, of.typecode).reshape(-1, width) for of, width in tables)
        floats, counts, codes = found
        return floats, counts, codes


def _of_each(rows: Any, columns: Rows) -> Any:
    """Return one entry of each row, by its column."""
    import numpy as np

    return rows[np.arange(len(rows)), columns]


def finished_steps(events: Iterable[Event], clocks: Clocks, ranks: int) -> list[Step]:
    """Return the steps among some events that all ranks finished, in the order of their ends."""
    return StepReports(event for event in events if event.kind in KINDS).finished(clocks, ranks)
