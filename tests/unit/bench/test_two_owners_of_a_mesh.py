"""Two owners of circuits of one photonic mesh, which sets all of its cells with every change."""

import re

import pytest

from testbed.bench.contracts import no_transcript
from testbed.bench.fabric import Fabric
from testbed.bench.sites import SwitchSite
from testbed.errors import BusyError
from testbed.fabric.circuits import Circuit, Fibres, HostPort, SwitchPort
from testbed.fabric.mesh import hexagonal
from testbed.fabric.mesh_routes import route
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.photonic_mesh import PhotonicMesh
from testbed_drivers.switches.photonic_mesh_far_end import PhotonicMeshFarEnd
from testbed_drivers.switches.switch import sides
from tests.unit.bench.optical_rig import soon

SHAPE = {"width": 3, "height": 3, "ingress": (0, 6, 12, 18), "egress": (3, 9, 15, 21)}
RECEIVES = {1: 6, 2: 5, 3: 7, 4: 8}
"""The egress port of each host, by its ingress port."""


class Mesh:
    """Four hosts of one port on a crowded mesh, whose ports are all leased."""

    def __init__(self, directory, receives):
        self._scheduler = WallScheduler()
        site = SwitchSite(*sides(4, 4), "S1", 0.0, 1, self._scheduler, lambda lit: None)
        options = PhotonicMeshOptions(**SHAPE)
        self._wire = serve_tcp(PhotonicMeshFarEnd(site, options))
        resource = f"tcp://127.0.0.1:{self._wire.port}"
        ports = frozenset(range(1, 9))
        self.driver = PhotonicMesh("mesh", resource, ports, None, options, no_transcript)
        self.driver.open(soon())
        self.journal = Journal(directory / "journal.jsonl")
        self.log = EventLog(directory / "events.jsonl")
        wiring = {
            HostPort(f"h{n}", "p0"): Fibres(SwitchPort("mesh", n), SwitchPort("mesh", receives[n]))
            for n in receives
        }
        self.fabric = Fabric({"mesh": self.driver}, wiring, wiring, self.journal, self.log, self)
        self.fabric.adopt({}, soon())

    def check(self, switch, ports):
        """Permit to move every port."""

    def held_by_others(self, switch, ports):
        """Say that nobody else has leased any."""
        return frozenset()

    def has(self, owner, *circuits):
        return self.fabric.set_circuits(owner, frozenset(circuits), soon())

    def shown(self):
        return dict(self.driver.state(soon()))

    def close(self):
        self.driver.close()
        self._wire.close()
        self._scheduler.close()
        self.journal.close()
        self.log.close()


@pytest.fixture
def mesh(tmp_path):
    mesh = Mesh(tmp_path, RECEIVES)
    yield mesh
    mesh.close()


MINE, THEIRS = Circuit.parse("h2.p0", "h3.p0"), Circuit.parse("h1.p0", "h4.p0")
MINE_CROSSED, THEIRS_CROSSED = {2: 7, 3: 5}, {1: 8, 4: 6}


def test_owners_make_and_remove_their_own_circuits(mesh):
    mesh.has("y", THEIRS)
    assert mesh.shown() == THEIRS_CROSSED
    mesh.has("y")
    mesh.has("x", MINE)
    assert mesh.shown() == MINE_CROSSED


def test_a_change_that_would_move_the_light_of_another_owner_is_refused_with_the_cells(mesh):
    mesh.has("x", MINE)
    known = hexagonal(*SHAPE.values())
    setting = route(known, MINE_CROSSED).setting
    with pytest.raises(BusyError, match=r"without darkening .* of x, by moving the cells") as said:
        mesh.has("y", THEIRS)
    assert mesh.shown() == MINE_CROSSED
    assert mesh.fabric.circuits == {MINE}
    cells = re.search(r"moving the cells ([\d, -]+) in their way", str(said.value))[1]
    passed = {s.cell for i in MINE_CROSSED for s in known.path(i, setting).steps}
    assert _numbers(cells) and _numbers(cells) <= passed
    mesh.has("x")
    mesh.has("y", THEIRS)
    mesh.fabric.restore(soon())
    assert mesh.shown() == {}


def test_an_owner_may_move_light_of_its_own(mesh):
    mesh.has("x", MINE)
    done = mesh.has("x", MINE, THEIRS)
    assert done.disturbed
    assert mesh.shown() == MINE_CROSSED | THEIRS_CROSSED


def _numbers(spans):
    found = set()
    for span in spans.split(", "):
        first, _, last = span.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
