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
from testbed.analysis.report_columns import NOT_COUNTED, TEXTS, TYPES, columns_of
from testbed.analysis.steps import KINDS, Step
from testbed.events import Event

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Rows = npt.NDArray[np.intp]
    """Numbers of reports; of steps, a row for each and in it a column for each rank."""

_TOGETHER = 1 << 12
"""Steps that are made at once."""


class StepReports:
    """The reports of steps and timed collectives of one trial, in the order of the log."""

    def __init__(self, reports: Iterable[Event] = ()) -> None:
        self.ranks = 0
        """One more than the highest rank that reported."""
        self._in_generation: dict[int, int] = {}
        """How many ranks a generation has that was formed meanwhile."""
        self._columns = {name: array(code) for name, code in TYPES.items()}
        self._texts: dict[str, dict[str, int]] = {name: {} for name in TEXTS}
        """Of each column of text, what its numbers mean."""
        self._sent: dict[int, int] = {}
        self.extend(reports)

    def extend(self, reports: Iterable[Event]) -> None:
        """Take more reports; that of a host which has lost its rank belongs to no step."""
        columns = columns_of([one for one in reports if one.data["rank"] is not None])
        self.ranks = max(self.ranks, 1 + max(columns["rank"], default=-1))
        for name, texts in self._texts.items():
            columns[name] = [texts.setdefault(text, len(texts)) for text in columns[name]]
        for name, column in self._columns.items():
            column.extend(columns[name])

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
        steps: list[Step] = []
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            # NaN, where a clock was not measured, is the largest of all.
            late = np.concatenate(
                [self._instants(clocks, "end", some).late.max(axis=1) for some in _parts(rows)]
            )
            rows = rows[late.argsort(kind="stable")[: np.count_nonzero(~np.isnan(late))]]
            for some in _parts(rows):
                steps += self._steps(clocks, some)
        return steps

    def _steps(self, clocks: Clocks, rows: Rows) -> Iterator[Step]:
        """Yield some steps, all of whose reports are from hosts whose clock was measured."""
        begin, end = self._instants(clocks, "begin", rows), self._instants(clocks, "end", rows)
        begins = begin.part(begin.early.argmin(axis=1)).each()
        ends = end.part(end.late.argmax(axis=1)).each()
        table = zip(
            begins, ends, *self._values(rows), *self._collectives(rows, clocks), strict=True
        )
        for began, ended, generation, number, good, loss, *more, took, skew, sent in table:
            yield Step(generation, number, began, ended, good, loss, took, skew, sent, *more)

    def _complete(self, size: int, ranks: int) -> Rows:
        """Return the reports of each step of all ranks in generations of a size, as logged.

        Generations of which nothing was told have so many `ranks`.
        """
        import numpy as np

        if not size or not self._columns["t"]:
            return np.empty((0, size), np.intp)
        generation, step = self._column("generation"), self._column("step")
        order = np.lexsort((step, generation))
        generation, step = generation[order], step[order]
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
        """Yield generations, numbers, whether verified, losses, choices, works, timed changes."""
        import numpy as np

        first = rows[:, 0]
        yield self._column("generation")[first].tolist()
        yield self._column("step")[first].tolist()
        digests, parts = self._column("digest")[rows], self._column("part")[rows]
        is_verified = self._column("verified")[rows].all(axis=1)
        for part in np.unique(parts):  # ranks with one part of the parameters have the same
            is_of = parts == part
            one = _of_each(digests, is_of.argmax(axis=1))
            is_verified &= ((digests == one[:, None]) | ~is_of).all(axis=1)
        yield is_verified.tolist()
        # Of a split model, only some ranks know the loss.
        losses = self._column("loss")[rows]
        losses = _of_each(losses, (~np.isnan(losses)).argmax(axis=1)).tolist()
        yield [None if math.isnan(loss) else loss for loss in losses]
        yield self._column("choice")[first].tolist()
        works = list(self._texts["work"])
        yield [works[code] for code in self._column("work")[first].tolist()]
        yield self._column("timed_changes")[rows].max(axis=1).tolist()

    def _collectives(self, rows: Rows, clocks: Clocks) -> Iterator[list[Any]]:
        """Yield how long the collectives of steps took, by how much the last rank was late, bytes.

        Seconds from the last rank's entry to the last one's exit, and since the entry before it.
        """
        import numpy as np

        entered = self._instants(clocks, "entered", rows).guess
        entered.sort(axis=1)
        yield (self._instants(clocks, "left", rows).guess.max(axis=1) - entered[:, -1]).tolist()
        before = entered[:, -2] if entered.shape[1] > 1 else entered[:, -1]
        yield np.subtract(entered[:, -1], before).tolist()
        sent = self._column("bytes")[rows].max(axis=1).tolist()
        yield [self._sent.setdefault(number, number) for number in sent]  # most are alike

    def wire_overhead(self, generation: int, last: int) -> float | None:
        """Return the share of bytes that a rank's ports sent beyond the data of its AllReduces.

        The median over the ranks, from the end of the first to the end of the last step of a
        generation, up to step `last`. None where ports have no counters.
        """
        import numpy as np

        if not self._columns["t"]:
            return None
        wire, asked = self._column("wire"), self._column("bytes") + self._column("skipped")
        is_of = self._column("generation") == generation
        is_of &= (self._column("step") <= last) & (wire != NOT_COUNTED)
        rows = np.flatnonzero(is_of)
        ranks = self._column("rank")[rows]
        rows = rows[ranks.argsort(kind="stable")]
        cuts = np.flatnonzero(np.diff(np.sort(ranks))) + 1
        shares = []
        for mine in np.split(rows, cuts):
            if data := int(asked[mine[1:]].sum()):
                shares.append(int(wire[mine[-1]] - wire[mine[0]]) / data - 1)
        return statistics.median(shares) if shares else None

    def _instants(self, clocks: Clocks, column: str, rows: Rows) -> Instants:
        """Return stamps of some reports in the log's seconds; NaN on an unmeasured clock."""
        import numpy as np

        reports = rows.ravel()
        reported, stamps, hosts = (self._column(name)[reports] for name in ("t", column, "host"))
        found = Instants(*(np.full(len(stamps), np.nan) for _ in range(3)))
        order = hosts.argsort(kind="stable")
        bounds = np.searchsorted(hosts[order], np.arange(len(self._texts["host"]) + 1))
        for host, code in self._texts["host"].items():
            mine = order[bounds[code] : bounds[code + 1]]
            known = clocks.instants(host, reported[mine], stamps[mine])
            if known is not None:
                for whole, part in zip(found, known, strict=True):
                    whole[mine] = part
        return Instants(*(of.reshape(rows.shape) for of in found))

    def _column(self, name: str) -> Any:
        """Return a value of every report, without copying."""
        import numpy as np

        held = self._columns[name]
        return np.frombuffer(held, held.typecode)


def _parts(rows: Rows) -> Iterator[Rows]:
    """Yield the rows a few thousand at a time, which bounds the memory that is taken meanwhile."""
    for first in range(0, len(rows), _TOGETHER):
        yield rows[first : first + _TOGETHER]


def _of_each(rows: Any, columns: Rows) -> Any:
    """Return one entry of each row, by its column."""
    import numpy as np

    return rows[np.arange(len(rows)), columns]


def finished_steps(events: Iterable[Event], clocks: Clocks, ranks: int) -> list[Step]:
    """Return the steps among some events that all ranks finished, in the order of their ends."""
    return StepReports(event for event in events if event.kind in KINDS).finished(clocks, ranks)
