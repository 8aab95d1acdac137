"""Find a stuck cell of a photonic mesh: make circuits, and see which beacons hosts receive.

A mesh cannot be asked how its cells stand, so only light tells. Under each setting every port sends
beacons to all others, one way, and those that arrive are compared with those that would, if all
cells moved or if any one of them were stuck. Circuits are chosen by how many of these possibilities
a look at them rules out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from testbed.bench.bench import Bench
from testbed.bench.fabric import Fabric
from testbed.clock import Deadline, now
from testbed.errors import HostError, LabError, UsageError
from testbed.fabric.circuits import (
    Circuit,
    HostPort,
    Matching,
    Wiring,
    can_join,
    cross_connects,
    matching,
)
from testbed.fabric.mesh import Mesh
from testbed.fabric.mesh_routes import Blocked, route
from testbed.fabric.mesh_stuck import CellSearch, Pairs, Seen, View
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.inbox import Inbox
from testbed.run.lab_check import CHANGE_LIMIT, LabCheck, run_lab_check
from testbed.run.run_leases import RunLeases
from testbed.schema import Lab, avoided

_LOOKS = 40
"""The most settings of a mesh that are tried."""
_CHOICES = 12
"""Lists of circuits of which the best is tried."""
_VAIN = 3
"""Times in a row that no list rules anything out, after which it is over."""
_LINK_LIMIT = 10.0
"""Seconds that cells, carriers and first beacons may take…"""
_PATIENCE = 4.0
"""… until all were heard once: then so many times what that took, …"""
_LINK_LEAST = 0.25
"""… and so many seconds."""
_INTERVAL = 0.02
_MORE = 3
"""Beacons after all that should be heard are heard, for light that goes astray."""
_ANSWER_LIMIT = 5.0
_OWNER = "cells"


@dataclass(frozen=True, slots=True)
class CellFinding:
    """The finding for the cells of one mesh."""

    switch: str
    state: str
    """`moves`, `stuck`, or `unexplained` where no single stuck cell explains the light."""
    text: str
    suspects: tuple[tuple[int, str], ...]
    """Each cell that may be stuck, as the device numbers it, and its state, `=` or `x`."""
    looks: int
    """Settings under which it was looked where light came out."""
    ruled_out: int
    """The ways to be stuck that are ruled out by where light came out…"""
    ways: int
    """… of so many in which one cell may be stuck."""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        suspects = [{"cell": cell, "state": gate} for cell, gate in self.suspects]
        return asdict(self) | {"suspects": suspects}


@dataclass
class CellCheck(LabCheck[CellFinding]):
    """The check of every photonic mesh that ports of the open hosts are wired to."""

    name: ClassVar[str] = "the check of the cells"

    def run(self) -> list[CellFinding]:
        """Return a finding for each mesh; raise UsageError where the lab has none.

        Raise BusyError when another client's circuit uses a needed port, LabError once `end` was
        called.
        """
        meshes = [n for n, s in self.bench.switches.items() if s.capabilities.mesh is not None]
        if not meshes:
            raise UsageError(
                f"no switch of lab {self.bench.lab.lab} is a photonic mesh, so there are no cells",
                hint="name a lab with a switch of the driver photonic-mesh",
            )
        return [self._checked(name) for name in meshes]

    def _checked(self, name: str) -> CellFinding:
        bench = self.bench
        wiring = {
            port: fibres
            for port, fibres in bench.lab.wiring().items()
            if fibres.tx.switch == fibres.rx.switch == name and port.host in bench.hosts
        }
        if len({port.host for port in wiring}) < 2:
            raise UsageError(
                f"fewer than two hosts that may be used have a port on {name}",
                hint="it takes two: one sends light, and another says whether it came",
            )
        limits, record = bench.lab.light_limits(), (self.journal, self.log)
        fabric = Fabric(bench.switches, wiring, wiring, *record, bench.guard, limits)
        settle = bench.switches[name].capabilities.settle_max
        fabric.adopt({}, Deadline.after(CHANGE_LIMIT))
        try:
            finding = _MeshCheck(self, name, wiring, fabric, settle).run()
        finally:
            fabric.restore(Deadline.after(CHANGE_LIMIT + settle))
        self.log.append("cells.mesh", name, state=finding.state, text=finding.text)
        self.tell(finding)
        return finding


@dataclass
class _MeshCheck:
    """The check of one mesh."""

    check: CellCheck
    name: str
    wiring: Wiring
    fabric: Fabric
    settle: float
    _chance: random.Random = field(default_factory=lambda: random.Random(0))
    _slowest: float = 0.0
    """Seconds until all were heard that should be, at most; 0 before that was so once."""
    _looks: int = 0

    def run(self) -> CellFinding:
        """Look at one setting after the other until none rules anything out any more."""
        search = CellSearch(self._mesh, _view(self.wiring))
        vain = 0
        while (
            self._looks < _LOOKS and vain < _VAIN and (search.all_move or len(search.suspects) > 1)
        ):
            circuits = self._chosen(search)
            if circuits is None:
                vain += 1
                continue
            vain = 0
            self.check.go_on()
            self._look(search, circuits)
        return self._finding(search)

    @property
    def _mesh(self) -> Mesh:
        mesh = self.check.bench.switches[self.name].capabilities.mesh
        assert mesh is not None  # `run` of the check has chosen by that
        return mesh

    def _chosen(self, search: CellSearch) -> Matching | None:
        """Return the circuits, of some at random, that rule out most; None where none does."""
        best, chosen = len(search.suspects) + search.all_move, None
        for circuits in self._candidates():
            pairs = {c.ingress: c.egress for c in cross_connects(circuits, self.wiring)}
            try:
                left = search.left(route(self._mesh, pairs).setting)
            except Blocked:
                continue
            if left < best:
                best, chosen = left, circuits
        return chosen

    def _candidates(self) -> Iterator[Matching]:
        """Yield random pairs of ports: all of them, or fewer, so that other routes are free."""
        ports = sorted(self.wiring)
        for number in range(_CHOICES):
            self._chance.shuffle(ports)
            pairs = list(zip(ports[::2], ports[1::2], strict=False))
            if number % 2:
                pairs = pairs[: self._chance.randint(1, len(pairs))]
            yield matching(Circuit.between(*pair) for pair in pairs if can_join(*pair, self.wiring))

    def _look(self, search: CellSearch, circuits: Matching) -> None:
        """Make circuits and have all hosts send beacons, for longer where what arrives is new."""
        self.fabric.set_circuits(_OWNER, circuits, Deadline.after(CHANGE_LIMIT + self.settle))
        self._looks += 1
        setting = self._mesh.setting
        assert setting is not None  # the change that was just made has set all cells
        should = search.should_be_seen(setting)
        limit = _PATIENCE * self._slowest + _LINK_LEAST if self._slowest else _LINK_LIMIT
        seen = Seen(setting, dict(sorted(heard := self._received(should, min(limit, _LINK_LIMIT)))))
        if (search.all_move and not should <= heard) or not search.explains(seen):
            heard |= self._received(should, self.settle + _LINK_LIMIT)
            seen = Seen(setting, dict(sorted(heard)))
        if len(seen.circuits) < len(heard):
            raise LabError(f"{self.name}: light of one port came out at two: {sorted(heard)}")
        search.look(seen)
        self._log(circuits, seen, should)

    def _received(self, should: Pairs, limit: float) -> Pairs:
        """Have all ports send beacons until all that should arrive have, or for `limit` seconds."""
        hosts = self.check.bench.hosts
        begin, more, found = now(), _MORE, frozenset[tuple[int, int]]()
        end = Deadline.after(limit)
        while more and not end.passed:
            sent = {
                name: host.send_beacons((hosts[n] for n in hosts if n != name), self._looks)
                for name, host in hosts.items()
            }
            answers = {}
            answer_limit = Deadline.after(_ANSWER_LIMIT)
            for name, answer in sent.items():
                try:
                    answers[name] = answer.result(answer_limit.left).value
                except TimeoutError:
                    raise HostError(name, "its agent does not answer") from None
            found |= self._pairs(answers)
            if should <= found:
                if should and more == _MORE:
                    self._slowest = max(self._slowest, now() - begin)
                more -= 1
            time.sleep(_INTERVAL)
        return found

    def _pairs(self, answers: Mapping[str, Mapping[str, list[list[str]]]]) -> Pairs:
        """Return who was heard where, as ports of the mesh."""
        return frozenset(
            (self.wiring[source].tx.number, self.wiring[sink].rx.number)
            for host, ports in answers.items()
            for port, sources in ports.items()
            for source in (HostPort(*names) for names in sources)
            if source in self.wiring and (sink := HostPort(host, port)) in self.wiring
        )

    def _log(self, circuits: Matching, seen: Seen, should: Pairs) -> None:
        self.check.log.append(
            "cells.look",
            self.name,
            circuits=sorted(map(str, circuits)),
            cells="".join(gate.value for gate in seen.setting),
            heard=sorted(map(list, seen.circuits.items())),
            missing=sorted(map(list, should - seen.circuits.items())),
        )

    def _finding(self, search: CellSearch) -> CellFinding:
        left, text = search.suspects, "no single stuck cell explains where light came out"
        state = "stuck" if left else "unexplained"
        ruled_out = search.ways - len(left)
        if search.all_move:
            state, left = "moves", []
            text = (
                f"all light came out where it should under {self._looks} settings; of {search.ways}"
                f" ways in which one cell may be stuck, {ruled_out} would have shown"
            )
        numbers = self._mesh.numbers or range(len(self._mesh.cells))
        suspects = tuple((numbers[one.cell], one.gate.value) for one in left)
        text = _words(suspects) if suspects else text
        return CellFinding(self.name, state, text, suspects, self._looks, ruled_out, search.ways)


def run_cell_check(
    lab: Lab,
    run: RunDirectory,
    log: EventLog,
    inbox: Inbox,
    run_leases: RunLeases,
    tell: Callable[[CellFinding], None] = lambda finding: None,
) -> tuple[list[CellFinding], list[str]]:
    """Check the cells of a lab's meshes; the result is that of `run_lab_check`.

    Hosts in quarantine are left alone.
    """

    def make(bench: Bench, journal: Journal) -> CellCheck:
        return CellCheck(bench, journal, log, tell)

    hosts = {port.host for port in lab.wiring()} - avoided(lab).keys()
    return run_lab_check(make, lab, run, log, inbox, run_leases, hosts)


def _view(wiring: Wiring) -> View:
    """Return what hosts see: none hears itself, and a port without light does not send."""
    visible = frozenset(
        (source.tx.number, sink.rx.number)
        for one, source in wiring.items()
        for other, sink in wiring.items()
        if one.host != other.host
    )
    return View(visible, {f.tx.number: f.rx.number for f in wiring.values()})


def _words(suspects: tuple[tuple[int, str], ...]) -> str:
    """Say which cell is stuck, and what to write so that circuits are routed around it."""
    options = {"=": "stuck_bar", "x": "stuck_cross"}
    names = {"=": "bar", "x": "cross"}
    cells = " or ".join(f"cell {cell} in {names[gate]}" for cell, gate in suspects)
    keys = " or ".join(f"{options[gate]}: [{cell}]" for cell, gate in suspects)
    return f"{cells} is stuck: write {keys} into the lab file, and circuits are routed around it"
