"""Read the reports of steps without parsing all of their JSON, which takes most of the time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from testbed.events.origin import NOWHERE, Origin

_WHOLE = r"(?:0|[1-9]\d{0,17})"
_SECONDS = r"(?:0|[1-9]\d{0,17})\.\d+"
_STRING = r'"[ !#-\[\]-~]*"'
_TEXT = r'"([ !#-\[\]-~]*)"'
_NAME = r'"[a-z0-9_-]*"'
_WAIT = rf'"\d+":{_SECONDS}(?:e-\d+)?'

_LINE = re.compile(
    r'\{"seq":(?:0|[1-9]\d{0,8}),"t":((?:0|[1-9]\d{0,8})\.\d+),"kind":"step",'
    rf'"subject":{_STRING},"trial":(0|[1-9]\d{{0,8}}),(?:"job":{_TEXT},)?'
    rf'"data":\{{"host":{_TEXT},"rank":({_WHOLE}),"mono":{_SECONDS},'
    rf'"generation":({_WHOLE}),"step":({_WHOLE}),"begin":({_SECONDS}),"end":({_SECONDS}),'
    rf'"collective":\[({_SECONDS}),({_SECONDS})\],"algorithm":{_NAME},"choice":({_WHOLE}),'
    rf'"loss":({_SECONDS}),"digest":{_TEXT},"verified":(true|false),"bytes":({_WHOLE}),'
    rf'"delayed":{_SECONDS},"waits":\{{(?:{_WAIT}(?:,{_WAIT})*)?\}},'
    rf'"wire":({_WHOLE})\}}\}}'.encode()
)
"""A report as nearly all jobs that train make it, and `EventLog` writes it; all of it is JSON."""


class ReportLine(NamedTuple):
    """A report of a step as it stands in the log; `columns_of_lines` reads many at once."""

    trial: int
    origin: Origin
    values: tuple[bytes, ...]


@lru_cache(64)
def _where(trial: bytes, job: bytes | None) -> tuple[int, Origin]:
    return int(trial), NOWHERE if job is None else Origin(job.decode())


def report_of(line: bytes) -> ReportLine | None:
    """Return the report in a line of the log, as far as `columns_of` reads one.

    None for a line that is no report of a step, or another one than most: `Event.from_json` reads
    them all.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    t, trial, job, *values = found.groups()
    return ReportLine(*_where(trial, job), (t, *values))


def columns_of_lines(reports: Sequence[ReportLine]) -> dict[str, list[Any]]:
    """Return what `columns_of` returns of the events in the same lines."""
    columns = zip(*[report.values for report in reports], strict=True)
    t, host, rank, generation, step, begin, end, entered, left, choice, loss, *last = columns
    digest, verified, sent, wire = last
    zeros = [0] * len(reports)
    return {
        "t": [*map(float, t)],
        "begin": [*map(float, begin)],
        "end": [*map(float, end)],
        "entered": [*map(float, entered)],
        "left": [*map(float, left)],
        "loss": [*map(float, loss)],
        "step": [*map(int, step)],
        "bytes": [*map(int, sent)],
        "skipped": zeros,
        "wire": [*map(int, wire)],
        "digest": [*map(hash, map(bytes.decode, digest))],
        "generation": [*map(int, generation)],
        "rank": [*map(int, rank)],
        "choice": [*map(int, choice)],
        "part": zeros,
        "verified": [word == b"true" for word in verified],
        "host": [*map(bytes.decode, host)],
        "work": [""] * len(reports),
    }
