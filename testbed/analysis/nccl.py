"""Rows of results that nccl-tests and rccl-tests printed, checked for consistency.

Their output is text without a checksum, often of a program that was killed. A row counts when it is
complete and consistent: its count and type give its size, size over time gives `algbw`, `algbw` and
the number of ranks give `busbw`, all to the last digit that was printed. `nccl_table` and
`nccl_files` read the forms; formulas are those of the programs' own sources (nccl-tests 2.19.6 and
rccl-tests of 2025).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from testbed.errors import LabError

HALVES = ("out_of_place", "in_place")

_TYPE_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}

_REDOPS = ("none", "sum", "prod", "min", "max", "avg", "mulsum")

_OF_ALL = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")
"""Collectives whose size is the whole array's, of which each rank's count is one part in n."""

_WHOLE = ("broadcast", "reduce", "sendrecv", "hypercube")
"""Collectives whose `busbw` is their `algbw`."""

_UNCHECKED = ("alltoallv", "unknown")
"""Collectives whose `algbw` is not size over time, or that are not known."""


class UnreadableOutput(LabError):
    """Output that nccl-tests did not print, or that contradicts itself.

    `line` is counted from 1, and 0 for a problem of the whole output.
    """

    def __init__(self, line: int, message: str) -> None:
        where = f"line {line} of the output of nccl-tests" if line else "the output of nccl-tests"
        super().__init__(f"{where}: {message}", hint="the whole output is under logs/")
        self.line = line


@dataclass(frozen=True, slots=True)
class Printed:
    """A number with its rounding error: the exact value is within `slack` of `value`."""

    value: float
    slack: float

    @classmethod
    def parse(cls, text: str) -> Printed:
        """Parse a number; raise ValueError when the text is not a finite number."""
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"{text[:40]!r} is not a number")
        return cls.of(Decimal(text))

    @classmethod
    def of(cls, number: Decimal) -> Printed:
        """Return a number whose rounding error is half of its last printed digit."""
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        return cls(float(number), float(Decimal(5).scaleb(exponent - 1)))

    @property
    def ends(self) -> tuple[float, float]:
        """Return the smallest and the largest value that rounds to the printed number."""
        return max(0.0, self.value - self.slack), self.value + self.slack

    def is_product(self, one: Printed, factor: float) -> bool:
        """Return whether the exact values can satisfy self = factor × one."""
        low, high = (factor * end for end in one.ends)
        least, most = self.ends
        return least <= high * _ROUNDED_UP and low <= most * _ROUNDED_UP


_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?(e[+-][0-9]{2})?")
_ROUNDED_UP = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Half:
    """The result of one half of a row: out-of-place or in-place.

    `wrong` is the number of wrong values; None where the program did not check them.
    """

    time: float
    """Seconds of one collective; of the CPU where the program says so."""
    algbw: float
    """In bit/s, as all bandwidths here; the programs print decimal GB/s."""
    busbw: float
    wrong: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """The results for one message size; a half (out-of-place or in-place) not run is None."""

    size: int
    """In bytes: of the whole array where the ranks hold parts of one."""
    count: int | None
    """Elements of one rank, where the form says so."""
    type: str
    redop: str
    root: int | None
    out_of_place: Half | None
    in_place: Half | None

    @property
    def halves(self) -> tuple[Half, ...]:
        """Return the halves of the row that were run."""
        return tuple(half for half in (self.out_of_place, self.in_place) if half is not None)


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one program. `ranks` is 0 where it is not stated."""

    collective: str
    """As in the program's name, `all_reduce`; or `unknown`."""
    ranks: int
    rows: tuple[Row, ...]
    is_complete: bool
    """The program came to its end; else rows may be missing after the last."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of one half of a row as they were printed: µs, GB/s, GB/s."""

    time: Printed
    algbw: Printed
    busbw: Printed
    wrong: int | None

    def half(self) -> Half:
        """Return the numbers in seconds and bit/s, the units of this project."""
        algbw, busbw = self.algbw.value * 8e9, self.busbw.value * 8e9
        return Half(self.time.value * 1e-6, algbw, busbw, self.wrong)


def type_bytes(type_: str) -> int:
    """Return the bytes of one element; raise ValueError for a type not of nccl-tests."""
    if type_ not in _TYPE_BYTES:
        raise ValueError(f"{type_!r:.20} is not a type of nccl-tests")
    return _TYPE_BYTES[type_]


def known_redop(word: str) -> str:
    """Return the name of a reduction; raise ValueError for one that nccl-tests does not have."""
    if word not in _REDOPS:
        raise ValueError(f"{word!r:.20} is not a reduction of nccl-tests")
    return word


@dataclass(frozen=True, slots=True)
class RowChecker:
    """Checks that the numbers of a row agree, for one collective and number of ranks."""

    collective: str
    ranks: int
    is_cpu_time: bool = False

    def check_size(self, size: int, count: int, type_: str) -> None:
        """Raise ValueError when `count` elements of this type do not make `size` bytes."""
        width = type_bytes(type_)
        shares = self.ranks if self.collective in (*_OF_ALL, "hypercube") else 1
        known = self.collective not in _UNCHECKED and shares
        if known and size != count * width * shares:
            raise ValueError(f"{count} elements of {type_} are not {size} bytes")
        if not known and (size % (count * width) if count else size):
            raise ValueError(f"{count} elements of {type_} do not divide {size} bytes evenly")

    def check(self, size: int, figures: Figures) -> None:
        """Raise ValueError when time, `algbw` and `busbw` contradict each other or the size."""
        share, factor = self._share(), self._factor()
        if share is not None and not self.is_cpu_time and not _carried(size * share, figures):
            raise ValueError(
                f"{size} bytes in {figures.time.value:g} µs are not {figures.algbw.value:g} GB/s"
            )
        if factor is not None and not figures.busbw.is_product(figures.algbw, factor):
            raise ValueError(
                f"busbw {figures.busbw.value:g} is not {factor:.4g} times "
                f"algbw {figures.algbw.value:g}"
            )
        if figures.busbw.ends[0] > 2 * figures.algbw.ends[1]:
            raise ValueError(
                "busbw is more than twice algbw, which is impossible for any collective"
            )

    def _share(self) -> float | None:
        """Return the share of the size that counts for `algbw`."""
        if self.collective == "hypercube":
            return (self.ranks - 1) / self.ranks if self.ranks else None
        return None if self.collective in _UNCHECKED else 1.0

    def _factor(self) -> float | None:
        is_known = self.ranks or self.collective in _WHOLE
        if not is_known or self.collective not in COLLECTIVES:
            return None
        return bus_factor(self.ranks, self.collective)


def _carried(size: float, figures: Figures) -> bool:
    """Return whether a size, a time and a bandwidth may belong together, as far as printed."""
    (shortest, longest), (least, most) = figures.time.ends, figures.algbw.ends
    kilo = size / 1e3  # GB/s times µs
    return shortest * least <= kilo * _ROUNDED_UP and kilo <= longest * most * _ROUNDED_UP


def check_average(busbw: Sequence[Printed], stated: float, line: int = 0) -> None:
    """Raise UnreadableOutput when the mean of all `busbw` differs from the printed average.

    The average is printed in GB/s with six digits; the rounding of the rows is allowed for.
    """
    count = len(busbw) or 1
    mean = sum(one.value for one in busbw) / count
    slack = sum(one.slack for one in busbw) / count
    if abs(mean - stated) > (slack + 5e-6 * abs(stated)) * _ROUNDED_UP + 1e-12:
        raise UnreadableOutput(
            line,
            f"the rows average {mean:.6g} GB/s busbw, but the output states {stated:g}: "
            "a row is missing or wrong",
        )


def check_wrong(rows: Sequence[Row], is_fine: bool) -> None:
    """Raise ValueError when a program reports no wrong values although its rows count some."""
    if is_fine and any(half.wrong for row in rows for half in row.halves):
        raise ValueError("it reports no wrong values in total, but its rows count some")


def check_order(least: Printed, p99: Printed, most: Printed) -> None:
    """Raise ValueError when the minimum, 99th percentile and maximum time are not in order."""
    if not least.ends[0] <= p99.ends[1] or not p99.ends[0] <= most.ends[1]:
        raise ValueError("its minimum, 99th percentile and maximum time are not in ascending order")


def group_size(groups: Collection[Collection[int]]) -> int:
    """Return the number of ranks in each group; 0 when groups are incomplete or differ in size."""
    sizes = {len(ranks) for ranks in groups}
    listed = sorted(rank for ranks in groups for rank in ranks)
    return sizes.pop() if len(sizes) == 1 and listed == list(range(len(listed))) else 0


COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall"),
    *("alltoallv", "sendrecv", "gather", "scatter", "hypercube"),
)
"""What the programs `…_perf` run."""


def bus_factor(ranks: int, collective: str = "all_reduce") -> float:
    """Return `busbw` over `algbw` of one of `COLLECTIVES`, as doc/PERFORMANCE.md defines it."""
    if collective in _WHOLE:
        return 1.0
    share = (ranks - 1) / ranks
    return 2 * share if collective == "all_reduce" else share


def collective_of(program: str) -> str:
    """Return the collective that a program of nccl-tests runs, by the program's name.

    `program` is a path such as `build/all_reduce_perf_mpi`, or a name of rccl-tests such as
    `AllReduce`. The result is `unknown` for any other program.
    """
    word = program.rpartition("/")[2].partition("_perf")[0].removesuffix("_bias")
    plain = word.lower().replace("_", "").removesuffix("withbias")
    return next((name for name in COLLECTIVES if name.replace("_", "") == plain), "unknown")
