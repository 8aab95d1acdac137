"""Read JSON and CSV of rccl-tests (`-Z json` or `-Z csv`, with `-x`): one entry per half row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.analysis import nccl
from testbed.analysis.nccl_json import (
    NOT_THEIRS,
    describe_error,
    load_json,
    load_whole,
    printed,
    whole_number,
    whole_objects,
)

_CSV_KEYS = ("size", "type", "redop", "inPlace", "time", "algBw", "busBw", "wrong")
_CSV_WITH_MPI = ("nodes", "ranks", "ranksPerNode", "gpusPerRank")


def read_rccl_json(text: str) -> nccl.Output:
    """Parse JSON of rccl-tests, which has one object for each half of a row."""
    begin = len(text) - len(text.lstrip().removeprefix("["))
    try:
        found = list(whole_objects(text, begin))
        is_complete = not text.lstrip().startswith("[") or load_whole(text)[1]
        return _of_rccl(found, is_complete)
    except NOT_THEIRS as error:
        message = f"its JSON is not that of rccl-tests: {describe_error(error)}"
        raise nccl.UnreadableOutput(0, message) from None


def read_rccl_csv(text: str) -> nccl.Output:
    """Parse CSV of rccl-tests.

    rccl-tests built with MPI prints one value more than the header has columns, so values are
    counted from the right.
    """
    head, *lines = text.split("\n")
    with_mpi = "rankspernode" in head
    front = (("numCycle",) if head.startswith("numCycle") else ()) + ("name",)
    keys = (*front, *(_CSV_WITH_MPI if with_mpi else ("gpus",)), *_CSV_KEYS)
    found: list[dict[str, Any]] = []
    try:
        for line in lines[:-1]:  # what has no end may be cut anywhere
            values = [load_json(value) for value in line.split(",")]
            found.append(dict(zip(keys, values, strict=True)))
            _of_rccl(found[-1:], is_complete=False)
        return _of_rccl(found, is_complete=text.endswith("\n"))
    except NOT_THEIRS as error:
        raise nccl.UnreadableOutput(1 + len(found), describe_error(error)) from None


def _of_rccl(found: Sequence[Mapping[str, Any]], is_complete: bool) -> nccl.Output:
    if not found:
        raise ValueError("it has no complete row")
    collective, ranks = nccl.collective_of(_word(found[0]["name"])), _rccl_ranks(found[0])
    rows: list[nccl.Row] = []
    for one in found:
        if (nccl.collective_of(_word(one["name"])), _rccl_ranks(one)) != (collective, ranks):
            raise ValueError("its rows belong to different collectives")
        judge, size = nccl.RowChecker(collective, ranks), whole_number(one["size"])
        figures = _rccl_figures(one)
        judge.check(size, figures)
        name = nccl.HALVES[whole_number(one["inPlace"])]
        earlier = rows[-1] if rows else None
        type_, redop = one["type"], nccl.known_redop(one["redop"])
        if size % nccl.type_bytes(type_):
            raise ValueError(f"{size} bytes are not a whole number of elements of type {type_}")
        head = (size, None, type_, redop, None)
        if name == "in_place" and earlier and _is_first_half(earlier, head):
            rows[-1] = nccl.Row(*head, earlier.out_of_place, figures.half())
        else:
            pair = (figures.half(), None) if name == "out_of_place" else (None, figures.half())
            rows.append(nccl.Row(*head, *pair))
    return nccl.Output(collective, ranks, tuple(rows), is_complete)


def _is_first_half(row: nccl.Row, head: tuple[Any, ...]) -> bool:
    return row.in_place is None and (row.size, None, row.type, row.redop, None) == head


def _rccl_ranks(one: Mapping[str, Any]) -> int:
    """Return the ranks; 0 where it was built without MPI, and does not say how many threads."""
    ranks = whole_number(one["ranks"]) if "ranks" in one else 0
    if ranks != one.get("nodes", 0) * one.get("ranksPerNode", 0):
        raise ValueError(
            "its number of ranks contradicts its numbers of nodes and of ranks per node"
        )
    return ranks


def _rccl_figures(one: Mapping[str, Any]) -> nccl.Figures:
    wrong = one["wrong"]
    count = None if wrong == "N/A" else int(nccl.Printed.parse(wrong).value)
    return nccl.Figures(printed(one["time"]), printed(one["algBw"]), printed(one["busBw"]), count)


def _word(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.40} is not a word")
    return text.strip()
