"""Files about photonic meshes: read as written, and refused with their name."""

import json
import random
from pathlib import Path

import pytest

from testbed.errors import FileError, UsageError
from testbed.fabric import mesh_map
from testbed.fabric.mesh import hexagonal
from testbed.fabric.mesh_ports import choose_ports
from testbed.fabric.mesh_switch import MeshSwitch
from testbed.schema.mesh_files import load_cell_map, load_mesh_switch

ROOT = Path(__file__).parents[3]
SWITCH = MeshSwitch.of(choose_ports(hexagonal(3, 3), 4, "bidi"))
TEXT = json.dumps(SWITCH.to_json())
DAMAGED = 100


def test_files_of_photonic_meshes_read_back_as_written(tmp_path):
    switch, cells = tmp_path / "switch.json", tmp_path / "cells.json"
    switch.write_text(TEXT)
    cells.write_text(json.dumps(mesh_map.to_json(SWITCH.mesh)))
    assert load_mesh_switch(switch) == SWITCH
    assert load_cell_map(cells) == SWITCH.mesh


def test_a_missing_mesh_file_is_named_in_the_error(tmp_path):
    with pytest.raises(UsageError, match=r"none\.json cannot be read"):
        load_mesh_switch(tmp_path / "none.json")


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "{}", "[" * 5000, '{"mesh_switch": NaN}'])
def test_a_file_that_describes_no_mesh_is_refused_and_named(tmp_path, text):
    path = tmp_path / "switch.json"
    path.write_text(text)
    for load in (load_mesh_switch, load_cell_map):
        with pytest.raises(FileError, match=r"switch\.json:1:1: "):
            load(path)


def mutated(text, chance):
    """Return a text with one character changed, dropped or doubled."""
    place = chance.randrange(len(text))
    kept = text[place]
    new = chance.choice([chance.choice('0123456789=x[]{},:"-ae '), "", kept * 2])
    return text[:place] + new + text[place + 1 :]


def damage(path, times):
    """Load files with one character wrong: each is refused, or says the same as before."""
    chance = random.Random(7)
    refused = 0
    for _ in range(times):
        path.write_text(mutated(TEXT, chance))
        try:
            assert load_mesh_switch(path) == SWITCH
        except FileError:
            refused += 1
    assert refused > times / 2


def test_a_damaged_mesh_file_never_loads_as_another_mesh(tmp_path):
    damage(tmp_path / "switch.json", DAMAGED)


@pytest.mark.soak
def test_ten_thousand_damaged_mesh_files_never_load_as_another_mesh(tmp_path):
    damage(tmp_path / "switch.json", 10_000)


@pytest.mark.parametrize(("hosts", "edge"), [(32, 7), (64, 13)])
def test_the_precomputed_all_to_all_meshes_that_we_ship_are_whole(hosts, edge):
    switch = load_mesh_switch(ROOT / "configs" / "meshes" / f"bidi-{hosts}-on-{edge}x{edge}.json")
    assert switch.mesh.cells == hexagonal(edge, edge).cells
    assert (len(switch.mesh.ingress), len(switch.matchings)) == (hosts, hosts - 1)
    assert switch.mesh.reciprocal and switch.is_all_to_all
