"""The interface of faults: inject, undo, the undo's journal entry, and a receipt.

`undo_entry` describes the undo before the injection; `inject` injects the fault and returns the
interval in which it took effect; `receipt` recognises a confirming report of an observer other than
the injector; `undo` reverts the fault, is safe to call twice and without `inject`, and returns only
when verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.bench.bench import Bench
from testbed.bench.host import BenchHost
from testbed.clock import Deadline
from testbed.errors import HostError
from testbed.fabric.circuits import Circuit, Matching


@dataclass(frozen=True, slots=True)
class Victim:
    """The target of a fault: a rank, its host, and the circuits of its job at that moment."""

    rank: int
    host: str
    slot: int
    """The rank's place on its host."""
    circuits: Matching
    port: str = ""
    """The port of the host that is hit, where the fault hits one."""
    to_next: str = ""
    """The port of the host to the next rank; if empty, its last one."""

    @property
    def own_circuits(self) -> frozenset[Circuit]:
        """Return the circuits that end at the victim's host."""
        return frozenset(c for c in self.circuits if self.host in {end.host for end in c.ends})

    @property
    def neighbours(self) -> frozenset[str]:
        """Return the hosts at the other ends of these circuits."""
        return frozenset(end.host for c in self.own_circuits for end in c.ends) - {self.host}


@dataclass(frozen=True, slots=True)
class Injected:
    """The interval of one clock in which a fault took effect.

    `clock` is the host whose monotonic clock stamped them, or empty for this machine's.
    """

    sent: float
    done: float
    clock: str = ""
    note: str = ""
    witness: str = ""
    """An observer that has seen it already, as an instrument or a process; not the injector."""
    seen: float | None = None
    """When the witness saw it, on the clock of `clock`; None where it does not say."""


@dataclass(frozen=True, slots=True)
class Undo:
    """A journal entry that says how to revert a fault, and where.

    `testbed recover` carries out an entry with a `host`, since the agent there undoes every change
    on that host; it reports any other entry as left for the user.
    """

    kind: str
    arguments: Mapping[str, Any]


class Fault(Protocol):
    """A kind of fault, made from its options."""

    def undo_entry(self, bench: Bench, victim: Victim) -> Undo | None:
        """Return the journal entry that says how to revert the fault.

        None where nothing needs to be reverted, or where the bench writes the entry to the journal
        itself.
        """
        return None

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Inject the fault. Raise LabError when that failed."""

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Return the observer's name if this report of an agent proves the fault, or "".

        Where it is on a step or sample, `arrived` in it is when its rank entered the collective, in
        seconds on the orchestrator's clock.
        """

    def find_witness(self, bench: Bench, victim: Victim, deadline: Deadline) -> str:
        """Return an observer that sees the fault, which lasts and no agent has reported, or "".

        Blocks until the deadline at most.
        """
        return ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Revert the fault and verify; raise UnsafeError when that failed."""


class OptionlessFault(Fault):
    """A fault without options."""

    def __init__(self, options: Any) -> None:
        """Take no options."""


class CarrierLossFault(OptionlessFault):
    """A fault that makes hosts at the other ends of the victim's circuits lose carrier."""

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Return the port of another host that lost the victim's light, as `h1.p1 carrier`."""
        if message.get("event") != "carrier" or message["up"] or host == victim.host:
            return ""
        port = f"{host}.{message['port']}"
        seen = {str(end) for circuit in victim.own_circuits for end in circuit.ends}
        return f"{port} carrier" if port in seen else ""


def undo_on_rank(bench: Bench, victim: Victim, undo: Callable[[BenchHost], object]) -> None:
    """Undo a fault on the victim's host, unless the rank there, or its agent, has ended."""
    host = bench.hosts.get(victim.host)
    if host is None:
        return  # the agent has ended its ranks as it was given up
    try:
        undo(host)
    except HostError as error:
        if "no rank runs" not in str(error):
            raise
