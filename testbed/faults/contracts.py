"""The contract of faults: inject, undo, the journal's entry of the undo, and a receipt.

`undo_entry` names the undo before anything happens; `inject` does it and returns the interval in
which it took effect; `receipt` recognises the report of an observer other than the injector;
`undo` takes it back, is safe to call twice and without `inject`, and returns only when verified.
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
    """An observer that has seen it already, as an instrument or a process; not the injector."""
    seen: float | None = None
    """When the witness saw it, on the clock of `clock`; None where it does not say."""


@dataclass(frozen=True, slots=True)
class Undo:
    """An entry of the journal: what takes the fault back, on what.

    `testbed recover` takes back one that names its `host`, for the agent there undoes all that
    happened on it; any other it reports as left to be done by hand.
    """

    kind: str
    arguments: Mapping[str, Any]


class Fault(Protocol):
    """A kind of fault, made from its options."""

    def undo_entry(self, bench: Bench, victim: Victim) -> Undo | None:
        """Return what will take the fault back.

        None where nothing needs to be, or where the part of the bench that it uses writes that into
        the journal itself.
        """
        return None

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Break it. Raise LabError when it could not be done."""

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Return the name of the observer when this report of an agent proves the fault.

        Where the report is on a step, `arrived` in it is when its rank entered the collective, in
        seconds on the orchestrator's clock.
        """

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Take it back and verify; raise UnsafeError when it could not be."""


class OptionlessFault(Fault):
    """A fault without options."""

    def __init__(self, options: Any) -> None:
        """Take no options."""


class CarrierLossFault(OptionlessFault):
    """A fault by which the other ends of the victim's circuits lose its light."""

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Return the port of another host that lost the victim's light, as `h1.p1 carrier`."""
        if message.get("event") != "carrier" or message["up"] or host == victim.host:
            return ""
        port = f"{host}.{message['port']}"
        seen = {str(end) for circuit in victim.own_circuits for end in circuit.ends}
        return f"{port} carrier" if port in seen else ""


def undo_on_rank(bench: Bench, victim: Victim, undo: Callable[[BenchHost], object]) -> None:
    """Undo something on the victim's host, unless the rank there, or its agent, has ended."""
    host = bench.hosts.get(victim.host)
    if host is None:
        return  # the agent has ended its ranks as it was given up
    try:
        undo(host)
    except HostError as error:
        if "no rank runs" not in str(error):
            raise
