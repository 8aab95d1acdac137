"""The check of a mesh's cells: what it makes on a real line to a mesh, takes down and says."""

import random
from concurrent.futures import Future

import pytest

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs
from testbed.bench.link import Answer
from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline
from testbed.errors import HostError, LabError, UsageError
from testbed.fabric.mesh_routes import route
from testbed.record.journal import Journal, open_entries
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run import cell_check
from testbed.run.cell_check import CellCheck
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.photonic_mesh_far_end import PhotonicMeshFarEnd

COUNT = 4
HOST = """\
  h{n}:
    ssh: 192.0.2.{n}
    ports:
      p0: {{interface: eth1, address: 10.0.0.{tx}/24, tx: mesh.{tx}, rx: mesh.{rx}}}
"""


class Rack:
    """Hosts of one port each on a mesh; they hear the light that its cells bring them.

    As on a real line, a port that has no light does not send.
    """

    def __init__(self, directory, hosts=COUNT, more=""):
        self._scheduler = WallScheduler()
        sides = frozenset(range(1, COUNT + 1)), frozenset(range(COUNT + 1, 2 * COUNT + 1))
        site = SwitchSite(*sides, "S1", 0.0, 1, self._scheduler, lambda lit: None)
        self.far_end = PhotonicMeshFarEnd(site, PhotonicMeshOptions(width=COUNT, height=COUNT))
        self._wire = serve_tcp(self.far_end)
        text = "lab: small\nhosts:\n"
        text += "".join(HOST.format(n=n, tx=n + 1, rx=n + 1 + COUNT) for n in range(hosts))
        text += (
            f"switches:\n  mesh: {{driver: photonic-mesh, ports: [1-8], settle_max: 10 ms,"
            f' resource: "TCPIP::127.0.0.1::{self._wire.port}::SOCKET",'
            f" width: {COUNT}, height: {COUNT}{more}}}\n"
        )
        (directory / "lab.yaml").write_text(text)
        self.lab = load_lab(directory / "lab.yaml")
        self.run = RunDirectory.create(directory / "results", "cells")
        self.log = EventLog(self.run.events)
        leases = Leases(FileStore(directory / "leases.sqlite"))
        self.journal = Journal(self.run.journal)
        self.bench = Bench(self.lab, self.run, self.journal, self.log, lambda *report: None)
        self.lease = leases.take(needs(self.lab, self.lab.hosts), "cells", self.run)
        self.bench.guard.hold(self.lease)
        self.bench.open_instruments(["mesh"], Deadline.after(10))
        self.bench.hosts.update({name: BeaconHost(name, self) for name in self.lab.hosts})
        self.before_answering = lambda: None
        self.told = []
        self.check = CellCheck(self.bench, self.journal, self.log, self.told.append)

    @property
    def mesh(self):
        return self.bench.switches["mesh"].capabilities.mesh

    def light(self):
        """Return the circuits that the cells make, of ports that are used."""
        wired = {fibres.tx.number for fibres in self.lab.wiring().values()}
        circuits = self.mesh.circuits(self.far_end.cells)
        return {i: e for i, e in circuits.items() if i in wired}

    def senders(self, name):
        """Return whose beacons arrive at a host's port."""
        light, n = self.light(), int(name[1:])
        sources = (i for i, e in light.items() if e == n + 1 + COUNT and i != n + 1)
        return [[f"h{i - 1}", "p0"] for i in sources if i + COUNT in light.values()]

    def events(self, kind):
        return [event for event in read_events(self.run.events) if event.kind == kind]

    def close(self):
        self.bench.close_instruments()
        self.lease.release()
        self.journal.close()
        self._wire.close()
        self._scheduler.close()
        self.log.close()


class BeaconHost:
    """A host's agent, as far as it sends beacons and says which it received."""

    def __init__(self, name, rack):
        self.name, self._rack, self.sent = name, rack, 0

    def send_beacons(self, peers, mark):
        self.sent += 1
        self._rack.before_answering()
        future = Future()
        future.set_result(Answer({"p0": self._rack.senders(self.name)}, 0.0, 0.0))
        return future


@pytest.fixture
def rack(tmp_path, monkeypatch):
    monkeypatch.setattr(cell_check, "_LINK_LIMIT", 0.05)
    monkeypatch.setattr(cell_check, "_LINK_LEAST", 0.01)
    monkeypatch.setattr(cell_check, "_INTERVAL", 0.001)
    made = []

    def make(**options):
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Rack(directory, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_mesh_whose_cells_all_move_is_found_so_and_left_without_circuits(rack):
    small = rack()
    (finding,) = small.check.run()
    assert (finding.state, finding.suspects) == ("moves", ())
    assert finding.ruled_out > finding.ways / 3
    assert small.told == [finding]
    looks = small.events("cells.look")
    assert len(looks) == finding.looks
    assert [look.data["missing"] for look in looks] == [[]] * len(looks)
    assert open_entries(small.run.journal) == []
    used = {port: end for port, end in small.light().items() if end > COUNT}
    assert used == {}


@pytest.mark.parametrize("seed", range(4))
def test_a_stuck_cell_is_named_and_circuits_then_go_around_it(rack, seed):
    small = rack()
    paths = route(small.mesh, {1: 6, 2: 5, 3: 8, 4: 7}).paths.values()
    steps = [s for p in paths for s in p.steps[1:-1] if s.gate.value == "x"]  # else in bar anyway
    cell = random.Random(seed).choice(steps).cell
    small.far_end.fault("cell-stuck", port=cell)
    (finding,) = small.check.run()
    assert finding.state == "stuck", finding
    assert (cell, "=") in finding.suspects
    assert len(finding.suspects) <= 4
    assert f"cell {cell} in bar" in finding.text
    assert f"stuck_bar: [{cell}]" in finding.text
    around = rack(more=f", stuck_bar: [{cell}]")
    around.far_end.fault("cell-stuck", port=cell)
    (finding,) = around.check.run()
    assert (finding.state, finding.ways) == ("moves", 2 * len(around.mesh.cells) - 2)


def test_two_stuck_cells_are_not_explained_by_one(rack):
    small = rack()
    paths = route(small.mesh, {1: 6, 2: 5, 3: 8, 4: 7}).paths
    for port in (1, 4):
        cell = next(s.cell for s in paths[port].steps[1:] if s.gate.value == "x")
        small.far_end.fault("cell-stuck", port=cell)
    (finding,) = small.check.run()
    assert (finding.state, finding.suspects) == ("unexplained", ())


def test_a_host_that_is_lost_ends_the_check_and_leaves_no_circuit(rack):
    def lose():
        raise HostError("h1", "its agent's link ended")

    small = rack()
    small.before_answering = lose
    with pytest.raises(HostError, match="h1: its agent's link ended"):
        small.check.run()
    assert open_entries(small.run.journal) == []


def test_an_ended_check_makes_no_more_circuits(rack):
    small = rack()
    small.check._stopped = True
    with pytest.raises(LabError, match="the check of the cells was ended"):
        small.check.run()
    assert small.events("cells.look") == []


def test_the_undo_is_in_the_journal_before_the_first_circuit(rack):
    small, found = rack(), []
    small.before_answering = lambda: found.append(len(open_entries(small.run.journal)))
    small.check.run()
    assert set(found) == {1}


def test_a_mesh_with_one_host_is_refused(rack):
    lonely = rack(hosts=1)
    with pytest.raises(UsageError, match="fewer than two hosts that may be used have a port"):
        lonely.check.run()
