"""A photonic mesh that a file describes: the device's own numbers, and settings computed before."""

import ast
import json

import pytest

from testbed.bench.contracts import no_transcript
from testbed.bench.sites import SwitchSite
from testbed.errors import UsageError
from testbed.fabric import mesh_map
from testbed.fabric.change import Change
from testbed.fabric.mesh import hexagonal, of_sides, with_ports
from testbed.fabric.mesh_ports import choose_ports
from testbed.fabric.mesh_routes import route
from testbed.fabric.mesh_switch import MeshSwitch, digest
from testbed.plugins import kind
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.photonic_mesh import PhotonicMesh
from testbed_drivers.switches.photonic_mesh_far_end import PhotonicMeshFarEnd
from testbed_drivers.switches.switch import sides
from tests.unit.bench.optical_rig import soon

SMALL = hexagonal(3, 3)
NUMBERED = with_ports(
    of_sides({900 - 7 * n: cell.joints[0] for n, cell in enumerate(SMALL.cells)}),
    (0, 6, 12, 18),
    (3, 9, 15, 21),
)
"""The cells of a 3 × 3 mesh under numbers that go down in sevens, as a device may have them."""
SWITCH = MeshSwitch.of(choose_ports(NUMBERED, 4, "tx-rx"))


class Rig:
    """A mesh of a file on a TCP socket, its driver, and the lines that were sent."""

    def __init__(self, path, value, **options):
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        self._scheduler = WallScheduler()
        site = SwitchSite(*sides(4, 4), "S1", 0.0, 1, self._scheduler, lambda lit: None)
        given = PhotonicMeshOptions(file=str(path), **options)
        self.far_end = PhotonicMeshFarEnd(site, given)
        self._wire = serve_tcp(self.far_end)
        resource = f"tcp://127.0.0.1:{self._wire.port}"
        ports = frozenset(range(1, 9))
        self.lines = []
        self.driver = PhotonicMesh("mesh", resource, ports, None, given, self._trace)
        self.driver.open(soon())
        self.driver.presume({})

    def _trace(self, direction, data, *more):
        if direction == "send":
            self.lines.append(data.decode())

    def make(self, wanted):
        self.driver.apply(Change(dict(self.driver.state(soon())), wanted), soon())

    def close(self):
        self.driver.close()
        self._wire.close()
        self._scheduler.close()


@pytest.fixture
def rig(tmp_path):
    made = []

    def make(value, **options):
        made.append(Rig(tmp_path / "mesh.json", value, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_cells_are_set_by_the_numbers_of_the_device(rig):
    mesh = rig(mesh_map.to_json(NUMBERED))
    wanted = {1: 6, 2: 5}
    mesh.make(wanted)
    (line,) = mesh.lines
    numbers = [number for number, _ in ast.literal_eval(line)]
    assert numbers == sorted(NUMBERED.numbers)
    assert NUMBERED.circuits(mesh.far_end.cells).items() >= wanted.items()


def test_every_precomputed_matching_is_set_as_it_is_in_the_file(rig):
    mesh = rig(SWITCH.to_json())
    found = []
    for one in SWITCH.matchings:
        mesh.make(dict(one.circuits))
        assert mesh.far_end.cells == one.setting
        found.append(one.setting)
    assert len(set(found)) == 3


def test_circuits_that_stay_keep_their_paths_whatever_was_precomputed(rig):
    one = SWITCH.matchings[0]
    first, *_ = one.circuits.items()
    mesh = rig(SWITCH.to_json())
    mesh.make(dict([first]))
    path = SWITCH.mesh.path(first[0], mesh.far_end.cells)
    expected = SWITCH.mesh.path(first[0], one.setting)
    present = mesh.driver.capabilities.mesh
    routing = route(present, one.circuits)
    assert routing.disturbed == {}
    assert routing.paths[first[0]] == path
    assert (routing.setting == one.setting) == (path == expected)


def test_a_setting_that_a_stuck_cell_rules_out_is_not_used(rig):
    one = SWITCH.matchings[0]
    cell = next(place for place, gate in enumerate(one.setting) if gate.value == "x")
    mesh = rig(SWITCH.to_json(), stuck_bar=(SWITCH.mesh.numbers[cell],))
    known = mesh.driver.capabilities.mesh.known
    assert frozenset(one.circuits.items()) not in known
    assert all(setting[cell].value == "=" for setting in known.values())


def damaged(change):
    value = json.loads(json.dumps(SWITCH.to_json()))
    change(value)
    return value


def other_setting(value):
    cells = value["matchings"][0]["cells"]
    value["matchings"][0]["cells"] = cells.translate(str.maketrans("=x", "x="))
    value["sha256"] = digest({k: v for k, v in value.items() if k != "sha256"})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (damaged(lambda value: value["matchings"].pop()), "differs from the stated one"),
        (damaged(other_setting), "in matching 0"),
        ("[", "is no JSON"),
        (mesh_map.to_json(of_sides({1: (0, 0, 0)})), "must have ports: 'bidi', or 'ingress' and"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(tmp_path, value, why):
    path = tmp_path / "mesh.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    with pytest.raises(UsageError, match=why):
        driver(path)


def test_a_file_says_how_many_ports_carry_light_both_ways(tmp_path):
    path = tmp_path / "mesh.json"
    one_side = kind("drivers", "photonic-mesh").one_side
    counts = []
    for value in (
        MeshSwitch.of(choose_ports(SMALL, 4, "bidi")).to_json(),
        mesh_map.to_json(with_ports(SMALL, bidi=(0, 6, 12))),
        SWITCH.to_json(),
        ["no", "map"],
    ):
        path.write_text(json.dumps(value))
        counts.append(one_side(PhotonicMeshOptions(file=str(path))))
    path.unlink()
    counts.append(one_side(PhotonicMeshOptions(file=str(path))))
    assert counts == [4, 3, 0, 0, 0]
    assert one_side(PhotonicMeshOptions(bidi=(1, 5))) == 2
    assert one_side(PhotonicMeshOptions()) == 0


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"none\.json cannot be read: No such file"):
        driver(tmp_path / "none.json")


def test_ports_in_a_file_and_in_the_lab_are_refused(tmp_path):
    path = tmp_path / "mesh.json"
    path.write_text(json.dumps(SWITCH.to_json()))
    with pytest.raises(UsageError, match="remove 'ingress', 'egress' and 'bidi'"):
        driver(path, ingress=(0,), egress=(1,))


def driver(path, **options):
    given = PhotonicMeshOptions(file=str(path), **options)
    resource, ports = "tcp://127.0.0.1:1", frozenset(range(1, 9))
    return PhotonicMesh("mesh", resource, ports, None, given, no_transcript)
