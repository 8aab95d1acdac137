"""What ranks report of steps and timed collectives, in columns: a list for each value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.events import Event

TEXTS = ("host", "work")
"""The columns of text; a table keeps the number of each, as many reports have the same."""

TYPES = {
    **dict.fromkeys(("t", "begin", "end", "entered", "left", "loss", "timed_changes"), "d"),
    **dict.fromkeys(("step", "bytes", "skipped", "wire", "digest"), "q"),
    **dict.fromkeys(("generation", "choice"), "i"),
    **dict.fromkeys(("rank", "part", *TEXTS), "h"),
    "verified": "b",
}
"""The columns and their types in an `array`: when a report came, the rank's stamps and its loss;
whole numbers of 64, of 32 and of 16 bits. `timed_changes` are the seconds before a timed collective
in which circuits were changed only to be timed."""

NOT_COUNTED = -(1 << 63)
"""In place of what a port has sent, where ports do not count."""


def columns_of(reports: Sequence[Event]) -> dict[str, list[Any]]:
    """Return the values of the reports of ranks, by the name of the column."""
    data = [report.data for report in reports]
    is_sample = [report.kind == "sample" for report in reports]
    both = list(zip(data, is_sample, strict=True))
    # What enters a timed collective is what begins.
    inside = [(of["begin"], of["end"]) if timed else of["collective"] for of, timed in both]
    losses = [of.get("loss") for of in data]
    wires = [None if timed else of.get("wire") for of, timed in both]
    return {
        "t": [report.t for report in reports],
        "begin": [of["begin"] for of in data],
        "end": [of["end"] for of in data],
        "entered": [entered for entered, _ in inside],
        "left": [left for _, left in inside],
        "loss": [math.nan if loss is None else loss for loss in losses],
        "timed_changes": [timed_changes(of) for of in data],
        "step": [of["step"] for of in data],
        "bytes": [of.get("bytes") or 0 for of in data],
        "skipped": [of.get("skipped_bytes", 0) for of in data],
        "wire": [NOT_COUNTED if wire is None else wire for wire in wires],
        "digest": [hash(of.get("digest", "")) for of in data],  # to compare the ranks of one step
        "generation": [of["generation"] for of in data],
        "rank": [of["rank"] for of in data],
        "choice": [of.get("choice", 0) for of in data],
        "part": [of.get("part", 0) for of in data],
        "verified": [bool(of.get("verified", timed)) for of, timed in both],
        "host": [of["host"] for of in data],
        "work": [_work(of) if timed else "" for of, timed in both],
    }


def timed_changes(report: Mapping[str, Any]) -> float:
    """Return the seconds before a timed collective in which changes were timed by themselves.

    Those between the time slots of an all-to-all are its own.
    """
    return 0.0 if "slots" in report else math.fsum(report.get("changes", ()))


def _work(sample: Mapping[str, Any]) -> str:
    return f"{sample.get('dimension') or sample.get('algorithm', 'ring')} {sample['size']}"
