"""The conformance probe: a short script of commands on spare ports of a switch or its twin.

It tries what the manuals do not specify: a circuit twice, a port in use, a list with one bad pair,
removing a circuit that does not exist. It uses only four ports and leaves them without circuits;
the undo is journalled before the first circuit is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import product

from testbed.bench.contracts import Applied, OpticalSwitch
from testbed.clock import Deadline, now, utc
from testbed.errors import BusyError, InstrumentError, LabError, Rejected, UnsafeError, UsageError
from testbed.fabric.card import Card, Timing
from testbed.fabric.change import Change
from testbed.fabric.circuits import fibre_ends
from testbed.fabric.device import Capabilities, State, spans
from testbed.record.journal import Journal
from testbed.schema import Lab

MOVES = 20
"""Circuits made and removed for each timing."""

_LIMIT = 10.0
_POLL = 0.0005


@dataclass(eq=False)
class Probe:
    """A probe of one open switch with two spare ingress and two spare egress ports."""

    _name: str
    _switch: OpticalSwitch
    _in: tuple[int, ...]
    _out: tuple[int, ...]
    _journal: Journal
    _may_move: Callable[[], None]
    _has_moved: bool = False
    """Whether the switch has ever reported a new circuit as not yet in order."""

    def __post_init__(self) -> None:
        """Refuse ports that the switch does not have, or that carry a circuit."""
        can, ingress, egress = self._switch.capabilities, self._in, self._out
        if can.positions or can.mesh:
            raise UsageError(
                f"{self._name} moves all its circuits together, so no port of it is spare to probe",
                hint="measure it by hand while no run uses it",
            )
        right = len(set(ingress)) == len(set(egress)) == 2
        if not (right and set(ingress) <= can.ingress and set(egress) <= can.egress):
            named = ", ".join(map(str, (*ingress, *egress)))
            raise UsageError(
                f"{named} are not two ingress and two egress ports of {self._name}",
                hint=f"ingress ports are {spans(can.ingress)}, egress ports {spans(can.egress)}",
            )
        self._ports = {*ingress, *egress}
        if found := self._circuits_on_probed_ports():
            carried = ", ".join(f"{i}→{e}" for i, e in sorted(found.items()))
            raise BusyError(
                f"the ports carry circuits: {carried}", hint="name ports without circuits"
            )

    def run(self, driver: str, label: str, on_progress: Callable[[str], None]) -> Card:
        """Run the probe and return the card; `on_progress` is called with each step.

        Raise UnsafeError when the circuits on the ports could not be removed.
        """
        identity = asdict(self._switch.identify(Deadline.after(_LIMIT)))
        undo = self._journal.record_undo(
            "circuits",
            start={self._name: []},
            ports={self._name: sorted(self._ports)},
            made={self._name: sorted(product(self._in, self._out))},
        )
        try:
            behaviours = self._behaviours(on_progress)
            on_progress(f"timing {MOVES} changes")
            timings = self._timings()
        finally:
            self._darken()
            self._journal.settle(undo)
        return Card(label, utc(), driver, identity, behaviours, timings)

    def _behaviours(self, on_progress: Callable[[str], None]) -> dict[str, str]:
        (i, j), (e, f) = self._in, self._out
        script: list[tuple[str, State, Change]] = [
            ("connect", {}, Change({}, {i: e})),
            ("connect what is connected", {i: e}, Change({}, {i: e})),
            ("connect a used ingress port", {i: e}, Change({}, {i: f})),
            ("connect a used egress port", {i: e}, Change({}, {j: e})),
            ("disconnect", {i: e}, Change({i: e}, {})),
            ("disconnect what is dark", {}, Change({i: e}, {})),
            ("move in one change", {i: e}, Change({i: e}, {i: f})),
            ("two at once", {}, Change({}, {i: e, j: f})),
        ]
        behaviours = {}
        for what, before, change in script:
            on_progress(what)
            self._set(before)
            behaviours[what] = self._outcome(before, change)
        return behaviours

    def _outcome(self, before: State, change: Change) -> str:
        """Make a change and return its outcome, in words that do not name ports."""
        try:
            words = "refused in part" if self._apply(change).refused else ""
        except Rejected:
            words = "refused"
        except UsageError:
            return "not sent: no such list"
        except InstrumentError as error:
            words = type(error).__name__
        shown = self._circuits_on_probed_ports()
        kept = {i: e for i, e in before.items() if change.removes.get(i) != e}
        wanted = {**kept, **change.adds}
        if shown == wanted:
            return f"{words}, done" if words else "done"
        if shown == dict(before):
            return f"{words or 'accepted'}, nothing changed"
        moved = {i: e for i, e in shown.items() if change.adds.get(i) == e}
        displaced = [pair for pair in before.items() if pair not in shown.items()]
        part = "moved" if displaced and len(moved) == len(change.adds) else "done in part"
        return f"{words or 'accepted'}, {part}"

    def _timings(self) -> dict[str, Timing]:
        measured: dict[str, list[float]] = {}
        for number in range(MOVES):
            ingress, egress = self._in[number % 2], self._out[number // 2 % 2]
            self._set({})
            applied = self._apply(Change({}, {ingress: egress}))
            rows = {
                "answer": applied.answered - applied.commanded,
                "read-back": applied.read_back - applied.commanded,
                **self._settled(ingress, egress, applied.commanded),
            }
            for what, seconds in rows.items():
                measured.setdefault(what, []).append(seconds)
        if not self._has_moved:  # it reports broken circuits, not moving ones
            measured.pop("steady", None)
        return {what: Timing.of(seconds) for what, seconds in measured.items()}

    def _settled(self, ingress: int, egress: int, since: float) -> dict[str, float]:
        """Return how long the new circuit took to settle by the switch's own report."""
        can, rows = self._switch.capabilities, {}
        limit = Deadline.after(3 * can.settle_max + 1.0)
        if can.steadiness:
            if self._until(lambda: ingress not in self._switch.unsteady(limit), limit):
                self._has_moved = True
            rows["steady"] = now() - since
        if egress in can.monitored and self._is_lit(ingress, limit):
            self._until(lambda: self._is_lit(egress, limit), limit)
            rows["light"] = now() - since
        return rows

    def _is_lit(self, port: int, limit: Deadline) -> bool:
        """Return whether a monitor measures light at a port."""
        return self._switch.power([port], limit)[port].dbm is not None

    @staticmethod
    def _until(true: Callable[[], bool], limit: Deadline) -> bool:
        """Wait until a condition holds; return whether it did not hold at once."""
        waited = False
        while not true():
            waited = True
            if limit.passed:
                raise LabError("the new circuit was not reported as settled and lit in time")
            time.sleep(_POLL)
        return waited

    def _set(self, wanted: State) -> None:
        """Bring the four ports to a state, with removes and adds apart."""
        present = self._circuits_on_probed_ports()
        removes = {i: e for i, e in present.items() if wanted.get(i) != e}
        adds = {i: e for i, e in wanted.items() if present.get(i) != e}
        for change in (Change(removes, {}), Change({}, adds)):
            if change:
                self._apply(change)

    def _apply(self, change: Change) -> Applied:
        self._may_move()
        return self._switch.apply(change, Deadline.after(_LIMIT))

    def _darken(self) -> None:
        try:
            self._set({})
            left = self._circuits_on_probed_ports()
        except (BusyError, LabError) as error:
            raise UnsafeError(
                f"removing the circuits of the probed ports of {self._name} failed: {error}"
            ) from error
        if left:
            circuits = ", ".join(f"{i}→{e}" for i, e in sorted(left.items()))
            raise UnsafeError(
                f"the probed ports of {self._name} still carry {circuits}", hint="disconnect them"
            )

    def _circuits_on_probed_ports(self) -> dict[int, int]:
        state = self._switch.state(Deadline.after(_LIMIT))
        return {i: e for i, e in state.items() if {i, e} & self._ports}


def spare_ports(
    lab: Lab,
    name: str,
    can: Capabilities,
    state: State = {},  # noqa: B006 - never written to
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two ingress and two egress ports that are permitted, unwired and unused in `state`.

    None of them is in quarantine.
    Raise UsageError when there are not as many.
    """
    ends = fibre_ends(lab.wiring(), lab.hosts, lab.fibre_pairs().values())
    wired = {end.number for end in ends if end.switch == name}
    set_aside = {entry.what for entry in lab.quarantine}
    quarantined = {number for number in can.ingress | can.egress if f"{name}.{number}" in set_aside}
    free = lab.switches[name].usable - wired - quarantined - {*state, *state.values()}
    ingress, egress = probed_sides(_last_free(free, can), can)
    if len(ingress) < 2 or len(egress) < 2:
        raise UsageError(
            f"lab {lab.lab} has no two unused ingress ports and two unused egress ports on {name}",
            hint="name four ports without circuits with --ports",
        )
    return ingress, egress


def probed_sides(
    ports: Iterable[int], can: Capabilities
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split the given ports into those probed as ingress and those probed as egress.

    On a switch with one side the two lowest are the ingress.
    """
    ports = sorted(ports)
    if can.has_one_side:
        return tuple(ports[:2]), tuple(ports[2:])
    return tuple(p for p in ports if p in can.ingress), tuple(p for p in ports if p in can.egress)


def _last_free(free: frozenset[int], can: Capabilities) -> list[int]:
    """Return the last two ports of each side, or the last four of the only one."""
    if can.has_one_side:
        return sorted(free & can.ingress)[-4:]
    return sorted(free & can.ingress)[-2:] + sorted(free & can.egress)[-2:]
