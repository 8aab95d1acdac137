"""Quarantine in a lab file: a host, a host port or a switch port, until a date."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Annotated

from testbed.schema.hosts import Host
from testbed.schema.instruments import Switch
from testbed.schema.text_types import Sentence, Text, spelling
from testbed.schema.validation import Problem, StrictModel

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


def _day(text: str) -> date:
    try:
        if not re.fullmatch(_DAY, text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a date; write it as '2026-12-24'") from None


class Quarantine(StrictModel):
    """One entry: no plan uses the named resource until the date has passed."""

    what: Annotated[str, spelling(r"[\w-]+(\.[\w-]+)?", "a host 'h3', its port 'h3.p1' or 'ocs.7'")]
    until: Annotated[date, Text(_day, f"^{_DAY}$")]
    """The last day; afterwards the file is no longer valid, so that nothing is set aside for ever.
    """
    reason: Sentence

    def __str__(self) -> str:
        return f"{self.what} is in quarantine until {self.until}: {self.reason}"


def quarantine_problems(
    entries: Iterable[Quarantine], hosts: Mapping[str, Host], switches: Mapping[str, Switch]
) -> Iterator[Problem]:
    """Yield entries that name nothing in the lab, or name a resource twice."""
    known = {f"{name}.{port}" for name, host in hosts.items() for port in host.ports}
    known |= {f"{name}.{n}" for name, switch in switches.items() for n in switch.ports}
    known |= set(hosts)
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        steps = ("quarantine", index, "what")
        if entry.what not in known:
            around, dot, _ = entry.what.partition(".")
            beside = {k for k in known if k.startswith(around + dot)} if dot else set(hosts)
            message = f"{entry.what} is neither a host nor a port of this lab"
            yield Problem.unknown(steps, message, entry.what, sorted(beside or hosts))
        elif entry.what in seen:
            yield Problem(steps, f"{entry.what} is in quarantine twice")
        seen.add(entry.what)
