"""The base of switch drivers: checks before any command, time limits, read-back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from testbed.bench.contracts import Applied, Identity, Tracer
from testbed.clock import Deadline, now
from testbed.concealed import excerpt
from testbed.errors import LinkLost, UsageError
from testbed.fabric.change import Change
from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import NOT_MEASURED, Readings
from testbed_drivers.dialects.session import LONGEST_ANSWER, Dialect
from testbed_drivers.transports.base import Dial, Endpoint
from testbed_drivers.transports.options import Timeouts

MOST_PORTS = 4096
"""Inputs, or outputs; the largest switches that are sold have a few hundred of each."""

AnyOptions = TypeVar("AnyOptions", bound=Timeouts)
AnyDialect = TypeVar("AnyDialect", bound=Dialect[Any])
Row = TypeVar("Row")


class ChangeResult(NamedTuple):
    """The send time and answer time of a change, and the parts that the device refused."""

    commanded: float
    answered: float
    refused: Mapping[int, str] = {}
    state: State | None = None
    """What was read back in the same exchange, where the driver did that."""
    unsteady: Mapping[int, str] | None = None
    """Of the new circuits, those that were not steady then; None where that was not asked."""


class SwitchOptions(Protocol):
    """Options about the moves of a switch, which all switch drivers have."""

    @property
    def settle(self) -> float:
        """Return the seconds until light is steady after a change."""

    @property
    def settle_max(self) -> float:
        """Return the seconds after which light that is not yet steady counts as failed."""


class Switch(ABC, Generic[AnyOptions, AnyDialect]):
    """The base of switch drivers; subclasses add the queries and commands of their family.

    `ports` are those that the lab file permits it to use, `identity` is the serial number that must
    answer, None accepts any. `dial` replaces the way its line is opened; `beside` is another driver
    behind the same controller, for a driver that can share its line.
    """

    def __init__(
        self,
        name: str,
        resource: str,
        ports: frozenset[int],
        identity: str | None,
        options: AnyOptions,
        tracer: Tracer,
        *,
        dial: Dial | None = None,
        beside: Self | None = None,
    ) -> None:
        self._name = name
        self._ports = ports
        self._options = options
        self._beside = beside
        self._capabilities: Capabilities | None = None
        endpoint = Endpoint(name, resource, identity, options, tracer, dial)
        self._dialect = self._new_dialect(endpoint)

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of the switch, which are known once it was opened."""
        if self._capabilities is None:
            raise LinkLost(self._name, "has not been opened yet")
        return self._capabilities

    def open(self, deadline: Deadline) -> Identity:
        """Open the line, check the identity and read the ports."""
        identity = self.identify(deadline)
        self._capabilities = self._read_capabilities(identity, deadline)
        return identity

    def apply(self, change: Change, deadline: Deadline) -> Applied:
        """Carry out the removes, then the adds, and read back."""
        self._check(change)
        with self._dialect.held(deadline):
            budget = deadline.within(self._seconds(change))
            stamp = now()
            done = self._carry_out(change, budget) if change else ChangeResult(stamp, stamp)
            state = self.state(deadline) if done.state is None else done.state
            refused = {i: excerpt(words, LONGEST_ANSWER) for i, words in done.refused.items()}
            return Applied(done.commanded, done.answered, now(), state, refused, done.unsteady)

    def presume(self, state: State) -> None:
        """Do nothing, as switches of this family have a read-back."""

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return nothing, as this family does not report unsteady circuits."""
        return {}

    def power(self, ports: Iterable[int], deadline: Deadline) -> Readings:
        """Return for every port that it is not measured, as this family has no monitors."""
        return dict.fromkeys(ports, NOT_MEASURED)

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""
        return self._dialect.identify(deadline)

    @abstractmethod
    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, including those of other clients."""

    def close(self) -> None:
        """Close the line without a change to circuits; safe to call twice."""
        self._dialect.close()

    @abstractmethod
    def _new_dialect(self, endpoint: Endpoint) -> AnyDialect:
        """Return what the switch speaks at its endpoint; called once, when the driver is made."""

    @abstractmethod
    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        """Return what the switch that has just been opened can do."""

    @abstractmethod
    def _carry_out(self, change: Change, deadline: Deadline) -> ChangeResult:
        """Send a change, which is not empty, and return when the switch has answered."""

    def _seconds(self, change: Change) -> float:
        """Return the longest that a change may take once the line is open.

        The caller's deadline may be shorter.
        """
        return 3 * self.capabilities.settle_max + self._options.answer_timeout

    def _check(self, change: Change) -> None:
        """Refuse, before the first byte, what the lab file or the switch does not allow."""
        can = self.capabilities
        for pairs in (change.removes, change.adds):
            if not (pairs.keys() <= can.ingress and can.egress.issuperset(pairs.values())):
                raise self._no_path(pairs)
            if foreign := {*pairs, *pairs.values()} - self._ports:
                raise UsageError(
                    f"{self._name}: port {min(foreign)} is not among its ports in the lab file"
                )
        if len(set(change.adds.values())) != len(change.adds):
            raise UsageError(f"{self._name}: two inputs are to be connected to one output")
        if change.adds.keys() & set(change.adds.values()):
            raise UsageError(f"{self._name}: a port is to be used in two cross-connects")

    def _no_path(self, pairs: State) -> UsageError:
        can = self.capabilities
        ingress, egress = next(
            (i, e) for i, e in pairs.items() if i not in can.ingress or e not in can.egress
        )
        return UsageError(
            f"{self._name} has no path {ingress}→{egress}",
            hint=f"its inputs are {_range(can.ingress)}, its outputs {_range(can.egress)}",
        )


def capabilities_of(
    options: SwitchOptions, ports: tuple[frozenset[int], frozenset[int]], **more: Any
) -> Capabilities:
    """Return the capabilities of a switch with these ingress and egress ports.

    Monitors average as the options of such a switch say.
    """
    if "monitored" in more:
        more.setdefault("averaging", getattr(options, "averaging", 0.0))
    return Capabilities(*ports, options.settle, options.settle_max, **more)


def portions(rows: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    """Yield rows in their order, in portions of at most `most`."""
    return (rows[start : start + most] for start in range(0, len(rows), most))


def size(inputs: int, outputs: int) -> tuple[int, int]:
    """Return the numbers of inputs and outputs; raise ValueError for more than any switch has."""
    if not (0 < inputs <= MOST_PORTS and 0 < outputs <= MOST_PORTS):
        raise ValueError(f"{inputs}×{outputs} is not the size of a switch")
    return inputs, outputs


def sides(inputs: int, outputs: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return the ingress and egress ports of a switch: 1…N, and N+1…N+M."""
    return frozenset(range(1, inputs + 1)), frozenset(range(inputs + 1, inputs + outputs + 1))


def all_ports(inputs: int, outputs: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return ingress and egress ports as `sides`; without outputs, all ports are on one side."""
    if outputs:
        return sides(inputs, outputs)
    ports = frozenset(range(1, inputs + 1))
    return ports, ports


def checked_state(
    pairs: Iterable[tuple[int, int]], can: Capabilities, reply: str, ours: frozenset[int]
) -> State:
    """Return the pairs as a state; raise ValueError for pairs that the switch cannot have.

    A pair of two foreign ports (not in `ours`) in a form that is not modelled, such as two inputs,
    belongs to another client and is left out.
    """
    rows = [(i, e) for i, e in pairs if {i, e} & ours or (i in can.ingress and e in can.egress)]
    state = dict(rows)
    if len({*state, *state.values()}) != 2 * len(rows):
        raise ValueError(f"{reply!r} has a port in two cross-connects")
    if not (state.keys() <= can.ingress and set(state.values()) <= can.egress):
        raise ValueError(f"{reply!r} has a cross-connect that is not from an input to an output")
    return state


def _range(ports: frozenset[int]) -> str:
    return f"{min(ports)}-{max(ports)}"
