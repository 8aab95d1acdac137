"""Plan circuit changes of one switch, from its present and wanted state; pure functions.

Invariants: only listed ports are changed; another client's cross-connect is never removed to free a
port; removes come before adds (break before make), because no switch family can be trusted to
disconnect implicitly (reference: safety semantics of Polatis, Calient, SAI OCS). Circuits that a
device disturbs during a change are named in it. `light` checks that the light which a change moves
stays within its limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from testbed.fabric.device import Capabilities, State, spans
from testbed.fabric.mesh import Mesh
from testbed.fabric.mesh_routes import moved_cells, route

Pairs = frozenset[tuple[int, int]]
"""Cross-connects of several states, as pairs of ingress and egress."""


class ForeignCircuit(ValueError):
    """A cross-connect of another client uses a wanted port, or would be disturbed.

    `cells` are those of a mesh that carry its light and would move, as the device numbers them.
    """

    def __init__(self, foreign: Mapping[int, int], cells: Iterable[int] = ()) -> None:
        pairs = ", ".join(f"{i}→{e}" for i, e in sorted(foreign.items()))
        super().__init__(f"cross-connects that this owner did not make: {pairs}")
        self.foreign = dict(foreign)
        self.cells = tuple(cells)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one switch: first the removes, then the adds; both map ingress to egress."""

    removes: State
    adds: State
    disturbs: Pairs = frozenset()
    """What changes or goes dark for a moment although the change does not name it."""

    def __bool__(self) -> bool:
        return bool(self.removes or self.adds)

    def __str__(self) -> str:
        rows = [f"-{i}→{e}" for i, e in sorted(self.removes.items())]
        rows += [f"+{i}→{e}" for i, e in sorted(self.adds.items())]
        rows += [f"~{i}→{e}" for i, e in sorted(self.disturbs)]
        return " ".join(rows) or "nothing to change"

    @property
    def ports(self) -> frozenset[int]:
        """Return every port that the change touches."""
        pairs = (*self.removes.items(), *self.adds.items(), *self.disturbs)
        return frozenset(port for pair in pairs for port in pair)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the expected and the reported state of a switch."""

    missing: State = field(default_factory=dict)
    extra: State = field(default_factory=dict)

    @classmethod
    def between(cls, expected: State, shown: State) -> Difference:
        """Return the difference between an expected and a reported state."""
        missing = {i: e for i, e in expected.items() if shown.get(i) != e}
        return cls(missing, {i: e for i, e in shown.items() if expected.get(i) != e})

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)

    def __str__(self) -> str:
        missing = [f"no {i}→{e}" for i, e in sorted(self.missing.items())]
        extra = [f"{i}→{e} instead" for i, e in sorted(self.extra.items())]
        return ", ".join(missing + extra) or "no difference"


def plan_change(
    state: State,
    wanted: State,
    ours: State,
    ports: frozenset[int],
    can: Capabilities,
) -> Change:
    """Return the change that takes a switch from `state` to `wanted`.

    `ours` are the cross-connects that this owner made earlier, `ports` the ports that it may
    change. A positional switch goes to the position that holds the wanted circuits and moves the
    fewest others; a mesh routes all its circuits anew. Raise ForeignCircuit when another client's
    cross-connect uses a wanted port or would be disturbed, ValueError when a wanted port may not be
    changed or the switch cannot hold the wanted circuits.
    """
    _check_wanted(wanted, ports, can)
    if can.positions:
        return _to_position(state, wanted, ours, ports, can.positions)
    change = _port_by_port(state, wanted, ours)
    if can.mesh is not None and change:
        change = _through_mesh(state, change, ours, can.mesh)
    return change


def after(state: State, change: Change) -> dict[int, int]:
    """Return the state after a change that the switch carries out completely."""
    kept = {i: e for i, e in state.items() if change.removes.get(i) != e}
    return kept | dict(change.adds)


def _check_wanted(wanted: State, ports: frozenset[int], can: Capabilities) -> None:
    outside = sorted((set(wanted) | set(wanted.values())) - ports)
    if outside:
        raise ValueError(f"port {outside[0]} is not among the ports that may be changed")
    for ingress, egress in sorted(wanted.items()):
        if ingress not in can.ingress or egress not in can.egress:
            raise ValueError(
                f"cannot connect {ingress}→{egress}: ingress ports are {spans(can.ingress)}, "
                f"egress ports are {spans(can.egress)}"
            )
    if len(set(wanted.values())) != len(wanted):
        raise ValueError("two ingress ports are to be connected to one egress port")
    if can.has_one_side:
        _check_one_side(wanted)


def _check_one_side(wanted: State) -> None:
    """Check what ports that can be both ends of a cross-connect add to what can go wrong."""
    if twice := sorted(wanted.keys() & set(wanted.values())):
        raise ValueError(f"port {twice[0]} is to be used in two cross-connects")
    for one, other in wanted.items():
        if one > other:
            raise ValueError(f"{one}→{other}: on a one-sided switch the lower port must come first")


def _port_by_port(state: State, wanted: State, ours: State) -> Change:
    """Plan for a switch on which every cross-connect comes and goes by itself."""
    removes = {i: e for i, e in ours.items() if state.get(i) == e and wanted.get(i) != e}
    adds = {i: e for i, e in wanted.items() if state.get(i) != e}
    wanted_ports = {*adds, *adds.values()}
    foreign = {i: e for i, e in state.items() if {i, e} & wanted_ports and removes.get(i) != e}
    if foreign:
        raise ForeignCircuit(foreign)
    return Change(removes, adds)


def _through_mesh(state: State, change: Change, ours: State, mesh: Mesh) -> Change:
    """Route what a mesh holds after a change, and name what that disturbs."""
    routing = route(mesh, after(state, change))
    disturbed = _pairs(routing.disturbed)
    if others := disturbed - _pairs(ours):
        cells = moved_cells(mesh, routing.setting, [ingress for ingress, _ in others])
        raise ForeignCircuit(dict(sorted(others)), cells)
    return Change(change.removes, change.adds, disturbed)


def _to_position(
    state: State,
    wanted: State,
    ours: State,
    ports: frozenset[int],
    positions: tuple[State, ...],
) -> Change:
    """Plan for a switch that always stands in one of its positions."""
    here, asked, mine = _pairs(state), _pairs(wanted), _pairs(ours)
    found = []
    for position in positions:
        there = _pairs(position)
        if asked <= there:
            moved = here ^ there
            others = {(i, e) for i, e in moved if not {i, e} <= ports} | (here - there - mine)
            found.append((len(others), len(moved), sorted(there), others))
    if not found:
        circuits = ", ".join(f"{i}→{e}" for i, e in sorted(asked))
        raise ValueError(f"no position of this switch holds {circuits} together")
    _, _, best, others = min(found)
    if others:
        raise ForeignCircuit(dict(sorted(others & here or others)))
    there = frozenset(best)
    disturbs = (here ^ there) - asked - mine
    return Change(dict(sorted(here - there)), dict(sorted(there - here)), disturbs)


def _pairs(state: State) -> Pairs:
    return frozenset(state.items())
