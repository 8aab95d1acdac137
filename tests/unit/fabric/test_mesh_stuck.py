"""Finding a stuck cell of a mesh from where light came out."""

import random
from dataclasses import replace

import pytest

from testbed.fabric.matchings import both_directions, round_robin
from testbed.fabric.mesh import Gate, hexagonal
from testbed.fabric.mesh_ports import choose_ports
from testbed.fabric.mesh_routes import route
from testbed.fabric.mesh_stuck import CellSearch, Seen, StuckCell, View, stuck_cells, with_stuck

MESH = choose_ports(hexagonal(4, 4), 4, "tx-rx").mesh
WANTED = [{1 + a: 5 + b for a, b in both_directions(matching)} for matching in round_robin(4)]
SETTINGS = [route(MESH, wanted).setting for wanted in WANTED]


def seen_with(stuck):
    settings = [with_stuck(setting, stuck) for setting in SETTINGS]
    return [Seen(sent, MESH.circuits(real)) for sent, real in zip(SETTINGS, settings, strict=True)]


def test_every_stuck_cell_that_shows_is_among_the_suspects():
    shown, suspects = 0, []
    for cell in range(len(MESH.cells)):
        for gate in Gate:
            stuck = StuckCell(cell, gate)
            seen = seen_with(stuck)
            found = stuck_cells(MESH, seen)
            if [one.circuits for one in seen] == WANTED:
                assert found == []
            else:
                shown += 1
                assert stuck in found
                suspects.append(len(found))
    assert shown > 30
    assert sorted(suspects)[len(suspects) // 2] <= 8  # of 126 that there are


def test_light_that_no_single_cell_explains_has_no_suspects():
    other = {**WANTED[0], 1: WANTED[0][2], 2: WANTED[0][1]}
    swapped = [Seen(SETTINGS[0], other), Seen(SETTINGS[1], {}), Seen(SETTINGS[2], WANTED[2])]
    assert stuck_cells(MESH, swapped) == []


@pytest.mark.parametrize("seed", range(5))
def test_circuits_are_routed_around_a_suspect_whichever_it_is(seed):
    rng = random.Random(seed)
    stuck = StuckCell(rng.randrange(len(MESH.cells)), rng.choice(tuple(Gate)))
    for suspect in stuck_cells(MESH, seen_with(stuck)):
        known = replace(MESH, stuck={suspect.cell: suspect.gate})
        try:
            setting = route(known, WANTED[0]).setting
        except ValueError:
            continue  # a port has no way but through it
        assert setting[suspect.cell] is suspect.gate
        assert MESH.circuits(with_stuck(setting, suspect)) == WANTED[0]


HOSTS = View(
    frozenset((i, e) for i in range(1, 5) for e in range(5, 9) if e - i != 4),
    {i: i + 4 for i in range(1, 5)},
)
"""Four hosts: host i sends into port i and receives from port i + 4, if it has light itself."""


def heard_with(stuck, setting):
    """Return what hosts hear whose ports do not send without light."""
    circuits = MESH.circuits(with_stuck(setting, stuck))
    sending = {i: e for i, e in circuits.items() if i + 4 in circuits.values()}
    return Seen(setting, {i: e for i, e in sending.items() if e - i != 4})


def test_a_port_without_light_that_is_not_heard_rules_out_no_way_to_be_stuck():
    for cell in range(len(MESH.cells)):
        for gate in Gate:
            stuck, search = StuckCell(cell, gate), CellSearch(MESH, HOSTS)
            for setting in SETTINGS:
                search.look(heard_with(stuck, setting))
            assert stuck in search.suspects


def test_ways_to_be_stuck_that_have_not_shown_are_left_while_all_cells_move():
    search = CellSearch(MESH, HOSTS)
    for setting, wanted in zip(SETTINGS, WANTED, strict=True):
        search.look(Seen(setting, wanted))
    assert search.all_move
    assert 0 < len(search.suspects) < search.ways == 2 * len(MESH.cells)
    for setting, wanted in zip(SETTINGS, WANTED, strict=True):
        for stuck in search.suspects:
            assert MESH.circuits(with_stuck(setting, stuck)) == wanted


def test_a_look_leaves_at_most_as_many_possibilities_as_predicted():
    stuck = StuckCell(*next((s.cell, s.gate) for s in MESH.path(1, SETTINGS[0]).steps[2:]))
    search = CellSearch(MESH, HOSTS)
    for setting in SETTINGS[::-1]:
        most = search.left(setting)
        search.look(heard_with(stuck, setting))
        assert len(search.suspects) + search.all_move <= most


def test_cells_that_are_known_to_be_stuck_are_no_suspects():
    known = replace(MESH, stuck={3: Gate.BAR})
    search = CellSearch(known, HOSTS)
    assert search.ways == 2 * len(MESH.cells) - 2
    assert 3 not in {suspect.cell for suspect in search.suspects}
