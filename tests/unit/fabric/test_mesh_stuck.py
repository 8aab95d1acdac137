"""Finding a stuck cell of a mesh from where light came out."""

import random
from dataclasses import replace

import pytest

from testbed.fabric.matchings import both_directions, round_robin
from testbed.fabric.mesh import Gate, hexagonal
from testbed.fabric.mesh_ports import choose_ports
from testbed.fabric.mesh_routes import route
from testbed.fabric.mesh_stuck import Seen, StuckCell, stuck_cells, with_stuck

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
