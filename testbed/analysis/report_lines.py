"""Read the reports of steps without parsing all of their JSON, which takes most of the time."""

from __future__ import annotations

import re
from functools import lru_cache

from testbed.events import Event
from testbed.events.origin import NOWHERE, Origin

_WHOLE = r"(?:0|[1-9]\d{0,17})"
_SECONDS = r"(?:0|[1-9]\d{0,17})\.\d+"
_TEXT = r'"([ !#-\[\]-~]*)"'
_NAME = r'"[a-z0-9_-]*"'
_WAIT = rf'"\d+": {_SECONDS}(?:e-\d+)?'

_LINE = re.compile(
    r'\{"seq": (0|[1-9]\d{0,8}), "t": ((?:0|[1-9]\d{0,8})\.\d+), "kind": "step", '
    rf'"subject": {_TEXT}, "trial": (0|[1-9]\d{{0,8}}), (?:"job": {_TEXT}, )?'
    rf'"data": \{{"host": {_TEXT}, "rank": ({_WHOLE}), "mono": {_SECONDS}, '
    rf'"generation": ({_WHOLE}), "step": ({_WHOLE}), "begin": ({_SECONDS}), "end": ({_SECONDS}), '
    rf'"collective": \[({_SECONDS}), ({_SECONDS})\], "algorithm": {_NAME}, "choice": ({_WHOLE}), '
    rf'"loss": ({_SECONDS}), "digest": {_TEXT}, "verified": (true|false), "bytes": ({_WHOLE}), '
    rf'"delayed": {_SECONDS}, "waits": \{{(?:{_WAIT}(?:, {_WAIT})*)?\}}, '
    rf'"wire": ({_WHOLE})\}}\}}'.encode()
)
"""A report as nearly all jobs that train make it, and `EventLog` writes it; all of it is JSON."""


@lru_cache(64)
def _origin(job: bytes | None) -> Origin:
    return NOWHERE if job is None else Origin(job.decode())


def report_of(line: bytes) -> Event | None:
    """Return the event in a line of the log, with the data that `columns_of` reads, and no other.

    None for a line that is no report of a step, or another one than most: `Event.from_json` reads
    them all.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    seq, t, subject, trial, job, *rest = found.groups()
    host, rank, generation, step, begin, end, entered, left, choice, loss, *last = rest
    digest, verified, sent, wire = last
    data = {
        "host": host.decode(),
        "rank": int(rank),
        "generation": int(generation),
        "step": int(step),
        "begin": float(begin),
        "end": float(end),
        "collective": (float(entered), float(left)),
        "choice": int(choice),
        "loss": float(loss),
        "digest": digest.decode(),
        "verified": verified == b"true",
        "bytes": int(sent),
        "wire": int(wire),
    }
    return Event(int(seq), float(t), "step", subject.decode(), int(trial), data, _origin(job))
