"""Quarantine in a lab file: a host, a port of one, or a port of a switch, until a day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Annotated

from testbed.plugins import nearest
from testbed.schema.text_types import Sentence, Text, spelling
from testbed.schema.validation import Problem, StrictModel, schema_error

if TYPE_CHECKING:
    from testbed.schema.lab import Lab

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


def _day(text: str) -> date:
    try:
        if not re.fullmatch(_DAY, text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a date; write it as '2026-12-24'") from None


class Quarantine(StrictModel):
    """One entry: no plan uses what it names, until its day is over."""

    what: Annotated[str, spelling(r"[\w-]+(\.[\w-]+)?", "a host 'h3', its port 'h3.p1' or 'ocs.7'")]
    until: Annotated[date, Text(_day, f"^{_DAY}$")]
    """The last day; afterwards the file is no longer valid, so that nothing is set aside for ever.
    """
    reason: Sentence

    def __str__(self) -> str:
        return f"{self.what} is in quarantine until {self.until}: {self.reason}"


def avoided(lab: Lab) -> dict[str, Quarantine]:
    """Return the hosts that no plan may use, each with an entry that says why.

    One is avoided with any of its ports, and with any switch port that they lead to.
    """
    entries = {entry.what: entry for entry in lab.quarantine}
    parts = {host: [host, *(f"{host}.{p}" for p in spec.ports)] for host, spec in lab.hosts.items()}
    for port, fibres in lab.wiring().items():
        parts[port.host] += [str(fibres.tx), str(fibres.rx)]
    return {host: entries[part] for host in parts for part in parts[host] if part in entries}


def quarantine_problems(lab: Lab) -> Iterator[Problem]:
    """Find entries that name nothing of the lab, or the same thing twice."""
    known = {f"{name}.{port}" for name, host in lab.hosts.items() for port in host.ports}
    known |= {f"{name}.{n}" for name, switch in lab.switches.items() for n in switch.ports}
    known |= set(lab.hosts)
    seen: set[str] = set()
    for index, entry in enumerate(lab.quarantine):
        steps = ("quarantine", index, "what")
        if entry.what not in known:
            around, dot, _ = entry.what.partition(".")
            beside = {k for k in known if k.startswith(around + dot)} if dot else set(lab.hosts)
            hint = nearest(entry.what, sorted(beside or lab.hosts))
            yield Problem(steps, f"{entry.what} is neither a host nor a port of this lab", hint)
        elif entry.what in seen:
            yield Problem(steps, f"{entry.what} is in quarantine twice")
        seen.add(entry.what)


def check_quarantine(lab: Lab, today: date) -> None:
    """Raise SchemaError where an entry of a lab file has expired."""
    expired = [
        Problem(
            ("quarantine", index, "until"),
            f"the quarantine of {entry.what} ended on {entry.until}",
            "look whether it is well; remove the entry, or give a later day",
        )
        for index, entry in enumerate(lab.quarantine)
        if entry.until < today
    ]
    if expired:
        raise schema_error(lab.source, expired)
