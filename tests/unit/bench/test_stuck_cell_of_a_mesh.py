"""A cell of a photonic mesh sticks: light tells, the cell is found, and circuits go around it."""

from threading import Condition

import pytest

from testbed.bench.contracts import no_transcript
from testbed.bench.sites import SwitchSite
from testbed.errors import UsageError
from testbed.fabric.change import Change
from testbed.fabric.mesh import Gate, hexagonal
from testbed.fabric.mesh_routes import route
from testbed.fabric.mesh_stuck import Seen, StuckCell, stuck_cells
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.photonic_mesh import PhotonicMesh
from testbed_drivers.switches.photonic_mesh_far_end import PhotonicMeshFarEnd
from testbed_drivers.switches.switch import sides
from tests.unit.bench.optical_rig import soon

SHAPE = {"width": 6, "height": 6}
MESH = hexagonal(*SHAPE.values())
MATCHINGS = ({1: 8, 2: 7, 3: 10, 4: 9}, {1: 9, 3: 7, 2: 10, 4: 8}, {1: 10, 4: 7, 2: 9, 3: 8})
"""Every two of four hosts once: host n sends into port n, and receives from port n + 6."""


class Rig:
    """A mesh without settling on a TCP socket, its driver, and the circuits that carry light."""

    def __init__(self, **options):
        self._scheduler = WallScheduler()
        self._changed = Condition()
        self._lit = {}
        site = SwitchSite(*sides(6, 6), "S1", 0.0, 1, self._scheduler, self._hear)
        given = PhotonicMeshOptions(**SHAPE, **options)
        self.far_end = PhotonicMeshFarEnd(site, PhotonicMeshOptions(**SHAPE))
        self._wire = serve_tcp(self.far_end)
        resource = f"tcp://127.0.0.1:{self._wire.port}"
        ports = frozenset(range(1, 13))
        self.driver = PhotonicMesh("mesh", resource, ports, None, given, no_transcript)
        self.driver.open(soon())
        self.driver.presume({})

    def _hear(self, lit):
        with self._changed:
            self._lit = lit
            self._changed.notify_all()

    def has_light(self, wanted):
        """Tell whether just these circuits carry light, or soon do: it comes after the answer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._lit == wanted, 5)

    def make(self, wanted):
        """Replace the present circuits by others; return the setting sent and the light there."""
        present = dict(self.driver.state(soon()))
        self.driver.apply(Change(present, wanted), soon())
        setting = self.driver.capabilities.mesh.setting
        return Seen(setting, MESH.circuits(self.far_end.cells))

    def stick(self, cell):
        self.far_end.fault("cell-stuck", port=cell)

    def close(self):
        self.driver.close()
        self._wire.close()
        self._scheduler.close()


@pytest.fixture
def rig():
    made = []

    def make(**options):
        made.append(Rig(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_stuck_cell_is_found_from_the_light_and_routed_around(rig):
    first = rig()
    steps = route(MESH, MATCHINGS[1]).paths[1].steps
    cell = next(step.cell for step in steps[2:] if step.gate is Gate.CROSS)
    first.stick(cell)
    seen = [first.make(wanted) for wanted in MATCHINGS]
    assert [one.circuits for one in seen] != [*MATCHINGS]  # read back as done all the same
    suspects = stuck_cells(MESH, seen)
    assert StuckCell(cell, Gate.BAR) in suspects
    assert len(suspects) <= 12
    around = rig(stuck_bar=(cell,))
    around.stick(cell)
    assert [around.make(wanted).circuits for wanted in MATCHINGS] == [*MATCHINGS]
    assert around.has_light(MATCHINGS[-1])


def test_cells_that_are_known_to_be_stuck_stay_so_in_the_far_end():
    scheduler = WallScheduler()
    site = SwitchSite(*sides(6, 6), "S1", 0.0, 1, scheduler, lambda lit: None)
    far_end = PhotonicMeshFarEnd(site, PhotonicMeshOptions(**SHAPE, stuck_cross=(5, 7)))
    assert {n for n, gate in enumerate(far_end.cells) if gate is Gate.CROSS} == {5, 7}
    assert far_end.execute("[(5, '='), (6, 'x')]") == "OK: 2 cells set"
    assert {n for n, gate in enumerate(far_end.cells) if gate is Gate.CROSS} == {5, 6, 7}
    scheduler.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stuck_bar": (131,)}, "numbered 0 to 130, so 131 cannot be stuck"),
        ({"stuck_bar": (3,), "stuck_cross": (3,)}, "cell 3 cannot be stuck in bar and in cross"),
    ],
)
def test_impossible_stuck_cells_are_refused(rig, options, text):
    with pytest.raises(UsageError, match=text):
        rig(**options)
