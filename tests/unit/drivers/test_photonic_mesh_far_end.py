"""The photonic mesh's far end: its cells, its light, and its one line, on a clock moved by hand."""

import ast
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.sites import SwitchSite
from testbed.fabric.mesh import Gate, hexagonal
from testbed.fabric.mesh_routes import route
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.photonic_mesh import cells_line
from testbed_drivers.switches.photonic_mesh_far_end import PhotonicMeshFarEnd, cells_of
from tests.contract.virtual_time import VirtualTime

SETTLE = 0.01
MESH = hexagonal(3, 3)
STRAIGHT = {1: 4, 2: 5, 3: 6}
TURNED = {1: 5, 2: 6, 3: 4}


class Box:
    """A 3×3 mesh, its time and the light it showed."""

    def __init__(self, ports=6):
        self.time = VirtualTime()
        self.lit = {}
        ingress = frozenset(range(1, ports // 2 + 1))
        egress = frozenset(range(ports // 2 + 1, ports + 1))
        site = SwitchSite(ingress, egress, "S1", SETTLE, 1, self.time, self._hear)
        self.far_end = PhotonicMeshFarEnd(site, PhotonicMeshOptions(width=3, height=3))

    def _hear(self, lit):
        self.lit = lit

    def say(self, *pieces):
        """Connect, say something; return everything that came, and whether it hung up."""
        said, ends = [], []
        session = self.far_end.session(said.append, hang_up=lambda: ends.append(1))
        for piece in pieces:
            session.receive(piece)
        return b"".join(said).decode(), bool(ends)

    def set(self, gates):
        return self.say(cells_line(gates).encode() + b"\n")

    def make(self, wanted):
        """Set every cell for some circuits, and let them settle."""
        self.set(dict(enumerate(route(MESH, wanted).setting)))
        self.time.advance(SETTLE)


@pytest.fixture
def box():
    return Box()


def test_a_client_is_greeted_and_disconnected_after_one_command(box):
    assert box.say() == ("photonic mesh, serial S1, 38 cells\n", False)
    said, over = box.say(b"[(0, ", b"'x')]", b"\n[(1, 'x')]\n")
    assert said.splitlines()[1:] == ["OK: 1 cells set"]
    assert over
    assert box.far_end.cells[:2] == (Gate.CROSS, Gate.BAR)


@pytest.mark.parametrize("wanted", [STRAIGHT, TURNED, {2: 6}, {}])
def test_the_circuits_set_by_the_cells_are_lit_after_settling(box, wanted):
    box.make(STRAIGHT)
    box.set(dict(enumerate(route(MESH, wanted).setting)))
    box.time.advance(SETTLE)
    assert box.lit == wanted


@given(st.lists(st.sampled_from(list(Gate)), min_size=38, max_size=38))
def test_light_follows_any_setting_of_the_cells(gates):
    box = Box()
    box.set(dict(enumerate(gates)))
    box.time.advance(SETTLE)
    assert box.lit == MESH.circuits(tuple(gates))


def test_a_rerouted_circuit_is_dark_while_settling(box):
    box.make(STRAIGHT)
    box.set(dict(enumerate(route(MESH, TURNED).setting)))
    assert box.lit == {}
    box.time.advance(SETTLE)
    assert box.lit == TURNED


def test_circuits_whose_path_is_unchanged_are_not_disturbed(box):
    box.make({1: 4})
    path = MESH.path(1, box.far_end.cells)
    used = {step.cell for step in path.steps}
    box.set({cell: Gate.CROSS for cell in range(38) if cell not in used})
    assert box.lit == {1: 4}


def test_a_list_of_some_cells_keeps_the_others(box):
    box.make(STRAIGHT)
    before = box.far_end.cells
    box.set({5: before[5]})
    assert box.far_end.cells == before
    assert box.lit == STRAIGHT


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"[(38, 'x')]\n", "there is no cell 38"),
        (b"[(0, 'x'), (0, '=')]\n", "a cell is listed twice"),
        (b"[(0, 'x')\n", "not a list of cells"),
        (b"[(0, 'y')]\n", "not a list of cells"),
        (b"[(-1, 'x')]\n", "not a list of cells"),
        (b"__import__('os')\n", "not a list of cells"),
        (b"\n", "not a list of cells"),
    ],
)
def test_an_invalid_list_of_cells_changes_nothing(box, line, complaint):
    box.make(STRAIGHT)
    before = box.far_end.cells
    said, over = box.say(line)
    assert f"ERROR: {complaint}" in said
    assert over
    assert box.far_end.cells == before


def test_a_stuck_cell_misroutes_light(box):
    box.make(STRAIGHT)
    turned = route(MESH, TURNED).setting
    moved = next(n for n, gate in enumerate(turned) if gate is not box.far_end.cells[n])
    box.far_end.fault("cell-stuck", port=moved)
    box.set(dict(enumerate(turned)))
    box.time.advance(SETTLE)
    stuck = tuple(g if n != moved else box.far_end.cells[n] for n, g in enumerate(turned))
    assert box.far_end.cells == stuck != turned
    assert box.lit == MESH.circuits(stuck)
    assert box.far_end.struck("cell-stuck") == 1


def test_a_cell_that_is_not_there_cannot_stick(box):
    with pytest.raises(ValueError, match="there is no cell 38: they are numbered 0 to 37"):
        box.far_end.fault("cell-stuck", port=38)


def test_commands_are_refused_while_busy(box):
    box.far_end.fault("busy", delay=1.0)
    assert "ERROR: busy" in box.set({0: Gate.CROSS})[0]
    box.time.advance(1.0)
    assert "OK" in box.set({0: Gate.CROSS})[0]


def test_after_a_power_loss_every_cell_is_in_bar_state(box):
    box.make(STRAIGHT)
    box.far_end.fault("restart")
    assert set(box.far_end.cells) == {Gate.BAR}
    assert box.lit == {}


def test_another_client_turns_a_cell_of_one_circuit(box):
    box.make(STRAIGHT)
    box.far_end.fault("meddled", port=5)
    box.time.advance(SETTLE)
    assert box.lit.get(2) != 5
    assert box.lit == MESH.circuits(box.far_end.cells)


def test_a_late_reply_is_sent_before_the_connection_closes(box):
    said, ends = [], []
    session = box.far_end.session(said.append, hang_up=lambda: ends.append(len(said)))
    box.far_end.fault("late", count=1, delay=0.5)
    session.receive(b"[(0, 'x')]\n")
    assert len(said) == 1 and not ends
    box.time.advance(0.5)
    assert ends == [2]


def test_a_site_with_more_ports_than_the_mesh_is_refused():
    with pytest.raises(ValueError, match="uses 6 ports, not 8"):
        Box(ports=8)


@given(st.dictionaries(st.integers(0, 999), st.sampled_from(list(Gate))))
def test_written_settings_are_parsed_back(gates):
    assert cells_of(cells_line(gates)) == gates


@pytest.mark.parametrize("line", ["[]", "[(1,'x'),]", ' [ ( 1 , "=" ) , ] ', "[(1, 'x',)]"])
def test_lists_as_python_writes_them_are_read(line):
    assert len(cells_of(line)) == line.count("1")


def mutated(line, rng):
    """Return a line with one to three bytes changed, removed, doubled or put in."""
    found = bytearray(line)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(found))
        piece = bytes([rng.choice(b"()[]',=x0123456789 -\"\n\xff")])
        kind = rng.randrange(4)
        found[at : at + (kind != 0)] = (piece, piece, b"", found[at : at + 1] * 2)[kind]
    return bytes(found)


def test_ten_thousand_mutated_lines_are_refused_without_a_change_or_mean_what_they_say(box):
    rng, refused = random.Random(17), 0
    cells = len(MESH.cells)
    for _ in range(10_000):
        gates = {cell: rng.choice(list(Gate)) for cell in rng.sample(range(cells), 6)}
        line = mutated(cells_line(gates).encode(), rng).partition(b"\n")[0]
        before = box.far_end.cells
        answer = box.far_end.execute(line.decode("ascii", "replace"))
        if answer.startswith("ERROR"):
            refused += 1
            assert box.far_end.cells == before
        else:
            told = {cell: Gate(gate) for cell, gate in ast.literal_eval(line.decode().strip())}
            assert box.far_end.cells == tuple(told.get(n, g) for n, g in enumerate(before))
    assert 5_000 < refused < 9_900
