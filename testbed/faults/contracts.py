"""What a fault is: two verbs, a promise, and a receipt.

`promise` names the undo before anything happens; `inject` does it and returns the interval in
which it took effect; `receipt` recognises the word of an observer other than the injector;
`undo` takes it back, is safe to call twice and without `inject`, and returns only when verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.fabric.circuits import Circuit, Matching


@dataclass(frozen=True, slots=True)
class Victim:
    """Who is hit: a rank, the host it is on, and the circuits of its job at that moment."""

    rank: int
    host: str
    slot: int
    """The rank's place on its host."""
    circuits: Matching
    port: str = ""
    """The port of the host that is hit, where the fault hits one."""

    @property
    def own_circuits(self) -> frozenset[Circuit]:
        """Return the circuits that end on the victim's host."""
        return frozenset(c for c in self.circuits if self.host in {end.host for end in c.ends})

    @property
    def neighbours(self) -> frozenset[str]:
        """Return the hosts at the other ends of these circuits."""
        return frozenset(end.host for c in self.own_circuits for end in c.ends) - {self.host}


@dataclass(frozen=True, slots=True)
class Injected:
    """When a fault took effect: somewhere between two instants of one clock.

    `clock` is the host whose monotonic clock stamped them, or empty for this machine's.
    """

    sent: float
    done: float
    clock: str = ""
    note: str = ""
    witness: str = ""
    """Somebody other than the injector who has seen it already, as an instrument or a process."""
    seen: float | None = None
    """When, by the clock of `clock`, where the witness says so."""


@dataclass(frozen=True, slots=True)
class Undo:
    """An entry of the journal: what takes the fault back, on what.

    `testbed recover` keeps one that names its `host`, for the agent there takes back all that
    happened on it; of any other it says that a person must.
    """

    kind: str
    arguments: Mapping[str, Any]


class Fault(Protocol):
    """A kind of fault, made from its options."""

    def promise(self, bench: Bench, victim: Victim) -> Undo | None:
        """Return what will take the fault back; None when nothing needs to be."""

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Break it. Raise LabError when it could not be done."""

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Return the name of the observer when this report of an agent proves the fault.

        Where the report is on a step, `arrived` in it is when its rank entered the collective, in
        seconds on the orchestrator's clock.
        """

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Take it back and verify; raise UnsafeError when it could not be."""


def carrier_witness(victim: Victim, host: str, message: Mapping[str, Any]) -> str:
    """Return the port of another host that lost the victim's light, as `h1.p1 carrier`."""
    if message.get("event") != "carrier" or message["up"] or host == victim.host:
        return ""
    port = f"{host}.{message['port']}"
    seen = {str(end) for circuit in victim.own_circuits for end in circuit.ends}
    return f"{port} carrier" if port in seen else ""
