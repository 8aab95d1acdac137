"""Driver for Polatis (HUBER+SUHNER) piezo switches with their SCPI interface.

Inputs are ports 1..N, outputs N+1..N+M; a model with one side has ports 1..N only, of which any two
can be joined. Commands used and their evidence: drivers/README.md. The effect of ADD on a used port
is not documented, so a change always removes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.fabric.change import Change, Difference, after
from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import NOT_MEASURED, Reading, Readings, above
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.dialects.scpi_syntax import error_reply, port_list, port_lists
from testbed_drivers.switches.descriptors.polatis import Monitors, PolatisOptions
from testbed_drivers.switches.power_monitors import monitored_ports
from testbed_drivers.switches.switch import (
    ChangeResult,
    Switch,
    all_ports,
    capabilities_of,
    checked_state,
    portions,
    size,
)
from testbed_drivers.transports.base import Endpoint, is_serial

PORTS_PER_QUERY = 256
"""The most ports that one query of power levels names."""
NO_LIGHT = -50.0
"""dBm at and below which a power monitor sees no light."""
WITHOUT_MONITORS = "I-OST"
"""What begins the product codes of models that have no power monitors."""
PAIRS_PER_COMMAND = 64
"""The longest list that is sent; the switch's own limit is not public."""
_STATE_QUERY = ":OXC:SWIT:CONN:STAT?"
DENIED = ("*RST", "OXC:SWITch:DISConnect:ALL", "OXC:SWITch:CONNect:ONLY")
"""Commands that end circuits of others."""


class Polatis(Switch[PolatisOptions, Scpi]):
    """Driver of a Polatis switch with SCPI."""

    def _new_dialect(self, endpoint: Endpoint) -> Scpi:
        ends = self._options.ends(serial=is_serial(endpoint.resource))
        return Scpi(endpoint, ends=ends, denied=DENIED)

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, including those of other clients."""
        parse = partial(_state, self.capabilities, self._ports)
        return self._dialect.query(_STATE_QUERY, parse, deadline)

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return the cross-connects with a port that is disabled or failed."""
        state = self.state(deadline)
        if not state:
            return {}
        ports = _ends(state)
        flags = self._dialect.query(_flags_query(ports), partial(_flags, ports), deadline)
        return _unsteady(state, flags)

    def power(self, ports: Iterable[int], deadline: Deadline) -> Readings:
        """Measure the optical power at ports; only ports with a monitor are queried."""
        levels = dict.fromkeys(ports, NOT_MEASURED)
        asked = sorted(self.capabilities.monitored & levels.keys())
        for some in portions(asked, PORTS_PER_QUERY):
            query = f":PMON:POW? {port_list(some)}"
            levels |= self._dialect.query(query, partial(_levels, some), deadline)
        return levels

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        counts = self._options.size or self._dialect.query(":OXC:SWIT:SIZE?", _size, deadline)
        ingress, egress = ports = all_ports(*counts)
        if ingress == egress:  # which way a monitor looks that has light both ways is not known
            return capabilities_of(self._options, ports, steadiness=True, motion_unseen=True)
        declared = declared_monitors(self._options.monitors, identity)
        reads = partial(self._reads, deadline)
        monitored = monitored_ports(declared, ingress, egress, reads, PORTS_PER_QUERY)
        can = {"steadiness": True, "motion_unseen": True, "monitored": monitored}
        return capabilities_of(self._options, ports, **can)

    def _reads(self, deadline: Deadline, ports: Sequence[int]) -> bool:
        """Ask for the light of ports; tell whether the switch reads all of them.

        The error is asked for on the same line: a query that is refused has no answer of its own.
        """
        query = f":PMON:POW? {port_list(ports)};:SYST:ERR?"
        return self._dialect.query(query, partial(_is_read, ports), deadline)

    def _carry_out(self, change: Change, deadline: Deadline) -> ChangeResult:
        """Remove, add, check for errors and read back in one line."""
        ports = _ends(dict(sorted(change.adds.items())))
        queries = [_STATE_QUERY, _flags_query(ports)] if ports else [_STATE_QUERY]

        def parse(answers: Sequence[str]) -> tuple[State, Mapping[int, str]]:
            if len(answers) != len(queries):
                raise ValueError(f"{';'.join(answers)!r} instead of {len(queries)} answers")
            flags = _flags(ports, answers[1]) if ports else {}
            state = _state(self.capabilities, self._ports, answers[0])
            return state, _unsteady(change.adds, flags)

        def is_done(shown: tuple[State, Mapping[int, str]]) -> bool:
            return not Difference.between(after(shown[0], change), shown[0])

        commanded, answered, shown = self._dialect.execute_and_read(
            list(_orders(change)), queries, parse, is_done, deadline
        )
        return ChangeResult(commanded, answered, {}, *shown)


def _ends(state: State) -> list[int]:
    return [port for pair in state.items() for port in pair]


def _flags_query(ports: Iterable[int]) -> str:
    return f":OXC:SWIT:PORT:STAT? {port_list(ports)}"


def _unsteady(state: State, flags: Mapping[int, str]) -> dict[int, str]:
    """Return the cross-connects with a port that is disabled or failed, in words."""
    words = {"D": "disabled", "F": "failed"}
    return {
        ingress: words[flag]
        for ingress, egress in state.items()
        for flag in (flags[ingress], flags[egress])
        if flag != "E"
    }


def _orders(change: Change) -> Iterator[str]:
    for verb, pairs in (("SUB", change.removes), ("ADD", change.adds)):
        for some in portions(sorted(pairs), PAIRS_PER_COMMAND):
            others = (pairs[port] for port in some)
            yield f":OXC:SWIT:CONN:{verb} {port_list(some)},{port_list(others)}"


def _size(reply: str) -> tuple[int, int]:
    inputs, outputs = (int(count) for count in reply.split(","))
    size(inputs, outputs or inputs)
    return inputs, outputs


def _state(can: Capabilities, ours: frozenset[int], reply: str) -> State:
    """Return the cross-connects of `(@1,2),(@17,18)`; either end of a pair may come first."""
    lists = port_lists(reply)
    if len(lists) != 2 or len(lists[0]) != len(lists[1]):
        raise ValueError(f"{reply!r}, expected two port lists of equal length")
    return checked_state(zip(map(min, *lists), map(max, *lists), strict=True), can, reply, ours)


def _flags(ports: list[int], reply: str) -> dict[int, str]:
    """Return the flags of `(E,D,F)`, by port."""
    letters = reply.removeprefix("(").removesuffix(")").split(",")
    if len(letters) != len(ports) or not set(letters) <= set("DEF"):
        raise ValueError(f"{reply!r} is not {len(ports)} flags D, E or F")
    return dict(zip(ports, letters, strict=True))


def declared_monitors(given: Monitors | None, identity: Identity) -> Monitors:
    """Return where a switch may have power monitors, by the lab file or its product code."""
    return not identity.model.startswith(WITHOUT_MONITORS) if given is None else given


def _is_read(ports: Sequence[int], reply: str) -> bool:
    """Tell whether `(-3.1,-40.2);0,"No error"` has levels; they are missing where it refused."""
    if not reply.startswith("("):
        number, words = error_reply(reply.lstrip(";"))
        if number == 0:
            raise ValueError(f"{words!r} instead of power levels")
        return False
    levels, _, error = reply.partition(";")
    error_reply(error)  # one that others have left says nothing of these ports
    return bool(_levels(ports, levels))


def _levels(ports: Sequence[int], reply: str) -> dict[int, Reading]:
    """Return the levels of `(-3.1,-40.2)`, by port."""
    if not (reply.startswith("(") and reply.endswith(")")):
        raise ValueError(f"{reply!r} is not a list of power levels")
    levels = [float(level) for level in reply[1:-1].split(",")]
    if len(levels) != len(ports):
        raise ValueError(f"{reply!r} is not {len(ports)} levels")
    return {port: above(NO_LIGHT, level) for port, level in zip(ports, levels, strict=True)}
