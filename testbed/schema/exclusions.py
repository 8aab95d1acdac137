"""The hosts that a lab's quarantine excludes, and the entries of it that have expired."""

from __future__ import annotations

from datetime import date

from testbed.fabric.circuits import FibrePair
from testbed.schema.lab import Lab
from testbed.schema.quarantine import Quarantine
from testbed.schema.validation import Problem, schema_error


def avoided(lab: Lab) -> dict[str, Quarantine]:
    """Return the hosts that no plan may use, each with the quarantine entry that excludes it.

    A host is excluded too if one of its ports, or a switch port wired to it, is in quarantine.
    """
    entries = {entry.what: entry for entry in lab.quarantine}
    if not entries:
        return {}
    parts = {host: [host, *(f"{host}.{p}" for p in spec.ports)] for host, spec in lab.hosts.items()}
    for port, fibres in lab.wiring().items():
        parts[port.host] += [str(fibres.tx), str(fibres.rx)]
    return {host: entries[part] for host in parts for part in parts[host] if part in entries}


def usable_fibres(lab: Lab) -> tuple[FibrePair, ...]:
    """Return the fibres between switches that a plan may use: no end of theirs is in quarantine."""
    set_aside = {entry.what for entry in lab.quarantine}
    pairs = lab.fibre_pairs().values()
    return tuple(pair for pair in pairs if set_aside.isdisjoint(map(str, pair.ends)))


def check_quarantine(lab: Lab, today: date) -> None:
    """Raise SchemaError where an entry of a lab file has expired."""
    expired = [
        Problem(
            ("quarantine", index, "until"),
            f"the quarantine of {entry.what} ended on {entry.until}",
            "test it: if it works, remove the entry, else write a later day in `until`",
        )
        for index, entry in enumerate(lab.quarantine)
        if entry.until < today
    ]
    if expired:
        raise schema_error(lab.source, expired)
