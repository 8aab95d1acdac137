"""Parse the table that nccl-tests and rccl-tests print, also if truncated or mixed with text.

A row is believed when printing its numbers again gives the very same line: any lost or inserted
character shifts the columns to its right. Columns are those of `writeBenchmarkLine…` in nccl-tests
(src/util.cu) and of `BenchTime` in rccl-tests (src/common.cu).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from testbed.analysis import nccl

_LIKE_A_ROW = re.compile(r" *[0-9]+ +[0-9]")
_ROW = re.compile(r" *[0-9]+ +[0-9]+ +[a-z0-9_]+ +[a-z]+ +-?[0-9]+( |$)")
_RANK = re.compile(r"# +Rank +([0-9]+)(?: Group +([0-9]+))? Pid +[0-9]+ on ")
_STARTING = re.compile(r"# Collective test starting: (\S+)$")
_AVERAGE = re.compile(r"# Avg bus bandwidth +: (\S+)")
_WRONG = re.compile(r"# Out of bounds values +: ([0-9]+) (OK|FAILED)")
_STAMP = re.compile(r"  [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$")
_COUNT = re.compile(r"[0-9]+|[0-9.]+e\+[0-9]{2}")

_BLANK_HALF = " " * 32
"""What stands in the place of the half that a replayed trace does not have."""


@dataclass(slots=True)
class _Reader:
    """What is known of a table after some of its lines."""

    collective: str
    ranks: dict[str, set[int]] = field(default_factory=dict)
    """By group, the ranks that were listed."""
    halves: tuple[str, ...] = nccl.HALVES
    has_spread: bool = False
    is_cpu_time: bool = False
    has_header: bool = False
    rows: list[nccl.Row] = field(default_factory=list)
    busbw: list[nccl.Printed] = field(default_factory=list)
    is_complete: bool = False

    @property
    def rank_count(self) -> int:
        """Return the number of ranks in each group; 0 when that is not known."""
        return nccl.group_size(self.ranks.values())


def read_table(text: str, program: str = "") -> nccl.Output:
    """Parse a printed table; `is_complete` is false where it was truncated.

    `program` helps where the output does not name it, as that of rccl-tests does not. Raise
    UnreadableOutput for a row that no such program prints, or for one that contradicts itself.
    """
    reader = _Reader(nccl.collective_of(program))
    *lines, _ = text.split("\n")  # what has no end may be cut anywhere
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        try:
            _read_line(reader, line, number)
        except ValueError as error:
            raise nccl.UnreadableOutput(number, str(error)) from None
    if not reader.has_header:
        raise nccl.UnreadableOutput(0, "it has no table")
    rows = tuple(reader.rows)
    return nccl.Output(reader.collective, reader.rank_count, rows, reader.is_complete)


def _read_line(reader: _Reader, line: str, number: int) -> None:
    if _LIKE_A_ROW.match(line):
        if not reader.has_header:
            raise ValueError("a row comes before the header of the table")
        if not _ROW.match(line):
            raise ValueError(
                "the line begins like a row of the table, but the rest is not part of one"
            )
        _add_row(reader, line)
    elif match := _AVERAGE.match(line):
        stated = nccl.Printed.parse(match[1])
        nccl.check_average(reader.busbw, stated.value, number)
        reader.is_complete = True
    elif match := _WRONG.match(line):
        nccl.check_wrong(reader.rows, match[2] == "OK")
    elif line.startswith("#"):
        _read_remark(reader, line)


def _read_remark(reader: _Reader, line: str) -> None:
    """Take in a line of the preamble or of the table's head."""
    if match := _RANK.match(line):
        reader.ranks.setdefault(match[2] or "0", set()).add(int(match[1]))
    elif match := _STARTING.match(line):
        if (named := nccl.collective_of(match[1])) != "unknown":
            reader.collective = named
    elif "out-of-place" in line or re.fullmatch(r"# +in-place *", line):
        names = {"out-of-place": "out_of_place", "in-place": "in_place"}
        reader.halves = tuple(names[word] for word in re.findall(r"out-of-place|in-place", line))
    elif re.match(r"# +size +count +type ", line):
        reader.has_header = True
        reader.has_spread = "i_min" in line
        reader.is_cpu_time = "cputime" in line


# --- rows ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NumberFormat:
    """How programs print the numbers of a half."""

    time: re.Pattern[str]
    bandwidth: re.Pattern[str]
    wrong_width: int

    def body(self, piece: Sequence[str]) -> str:
        """Format the numbers of one half of a row as the program prints them."""
        time, algbw, busbw, wrong, *spread = piece
        columns = (f"{time:>7}", f"{algbw:>6}", f"{busbw:>6}", f"{wrong:>{self.wrong_width}}")
        return "".join(f"  {column}" for column in (*columns, *(f"{one:>7}" for one in spread)))

    def figures(self, piece: Sequence[str]) -> nccl.Figures:
        """Parse the numbers of one half of a row; raise ValueError for another number format."""
        time = _number(piece[0], self.time)
        algbw, busbw = (_number(text, self.bandwidth) for text in piece[1:3])
        if piece[3] != "N/A" and not _COUNT.fullmatch(piece[3]):
            raise ValueError(f"{piece[3][:20]!r} is not a number of wrong values")
        return nccl.Figures(time, algbw, busbw, None if piece[3] == "N/A" else int(float(piece[3])))


_ADAPTIVE = r"([0-9]+(\.[0-9]{1,2})?|[0-9](\.[0-9]{1,2})?e[+-][0-9]{2})"
_NOW = _NumberFormat(
    re.compile(r"(?=.{1,7}\Z)" + _ADAPTIVE), re.compile(r"(?=.{1,6}\Z)" + _ADAPTIVE), 6
)
"""nccl-tests since October 2025: as many decimals as still fit (`getFloatStr`)."""

_BEFORE = _NumberFormat(
    re.compile(r"[0-9]{1,3}\.[0-9]{2}|[0-9]{3,5}\.[0-9]|[0-9]{5,9}"),
    re.compile(r"[0-9]{1,4}\.[0-9]{2}"),
    5,
)
"""Earlier ones, and rccl-tests."""


def _add_row(reader: _Reader, line: str) -> None:
    """Read one row, hold its numbers against each other, and keep it."""
    line = _STAMP.sub("", line)
    size, count, type_, redop, root, *rest = line.split()
    judge = nccl.RowChecker(reader.collective, reader.rank_count, reader.is_cpu_time)
    judge.check_size(int(size), int(count), type_)
    head = f"{size:>12}  {count:>12}  {type_:>8}  {redop:>6}  {root:>6}"
    is_halved = len(reader.halves) == 2 and line.startswith(head + _BLANK_HALF)
    names = reader.halves[1:] if is_halved else reader.halves
    width = 8 if reader.has_spread else 4
    if len(rest) != width * len(names):
        raise ValueError(f"a row has {len(rest)} numbers where there are {width * len(names)}")
    pieces = [rest[start : start + width] for start in range(0, len(rest), width)]
    manner = _manner(line, head + _BLANK_HALF * is_halved, pieces)
    figures = [manner.figures(piece) for piece in pieces]
    for one, piece in zip(figures, pieces, strict=True):
        judge.check(int(size), one)
        _check_spread(piece[4:])
    halves = {name: one.half() for name, one in zip(names, figures, strict=True)}
    row = (int(size), int(count), type_, nccl.known_redop(redop), int(root))
    reader.rows.append(nccl.Row(*row, halves.get("out_of_place"), halves.get("in_place")))
    reader.busbw += [one.busbw for one in figures]


def _manner(line: str, head: str, pieces: Sequence[Sequence[str]]) -> _NumberFormat:
    """Return the manner in which these numbers, printed again, give this very line."""
    for manner in (_NOW, _BEFORE):
        if line == head + "".join(map(manner.body, pieces)):
            return manner
    raise ValueError("the numbers of a row are not in the columns where nccl-tests prints them")


def _number(text: str, form: re.Pattern[str]) -> nccl.Printed:
    if not form.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is not a number as nccl-tests prints it")
    return nccl.Printed.parse(text)


def _check_spread(texts: Sequence[str]) -> None:
    """Check what a half says of single iterations, where it does: least, most, p99, deviation."""
    numbers = [_number(text, _NOW.time) for text in texts]
    if numbers:
        least, most, p99, _ = numbers
        nccl.check_order(least, p99, most)
