"""Precomputed mesh configurations and maps of cells as files: whole, edited, and damaged."""

import copy
import json
import random

import pytest

from testbed.fabric import mesh_map
from testbed.fabric.mesh import Gate, hexagonal, of_sides, with_ports
from testbed.fabric.mesh_ports import choose_ports
from testbed.fabric.mesh_switch import MeshSwitch, digest

BIDI = MeshSwitch.of(choose_ports(hexagonal(3, 3), 4, "bidi"))
SEPARATE = MeshSwitch.of(choose_ports(hexagonal(3, 3), 4, "tx-rx"))


def as_read(switch):
    return json.loads(json.dumps(switch.to_json()))


def signed(value):
    """State the hash of a changed file anew, as somebody would who changes it on purpose."""
    value["sha256"] = digest({key: value[key] for key in value if key != "sha256"})
    return value


@pytest.mark.parametrize("switch", [BIDI, SEPARATE])
def test_a_mesh_configuration_reads_back_as_it_was_written(switch):
    again = MeshSwitch.from_json(as_read(switch))
    assert again == switch
    assert again.is_all_to_all
    assert all(loss >= 1 for losses in again.losses() for loss in losses)


def test_a_mesh_configuration_that_lacks_a_matching_is_not_all_to_all():
    for switch in (BIDI, SEPARATE):
        value = as_read(switch)
        del value["matchings"][1]
        assert not MeshSwitch.from_json(signed(value)).is_all_to_all


def test_the_loss_of_a_circuit_is_the_sum_of_its_cells():
    value = as_read(BIDI)
    for cell in value["mesh"]["cells"]:
        cell["loss"] = [0.25, 0.25]
    dear = MeshSwitch.from_json(signed(value)).losses()
    assert dear == tuple(tuple(0.25 * loss for loss in losses) for losses in BIDI.losses())


def test_a_mesh_configuration_with_a_wrong_hash_is_refused():
    value = as_read(BIDI)
    value["matchings"].pop()
    with pytest.raises(ValueError, match="the hash of its content"):
        MeshSwitch.from_json(value)


def test_misrouted_light_is_refused_despite_a_right_hash():
    value = as_read(BIDI)
    one, other = value["matchings"][:2]
    one["cells"], other["cells"] = other["cells"], one["cells"]
    with pytest.raises(ValueError, match="in matching 0, light of corner"):
        MeshSwitch.from_json(signed(value))


@pytest.mark.parametrize("cell", range(len(BIDI.mesh.cells)))
def test_a_changed_cell_is_refused_where_it_misroutes_light(cell):
    """A route that passes a cell twice may keep its ends when that cell turns."""
    value = as_read(BIDI)
    first = BIDI.matchings[0]
    text = value["matchings"][0]["cells"]
    turned = "x" if text[cell] == "=" else "="
    value["matchings"][0]["cells"] = text[:cell] + turned + text[cell + 1 :]
    setting = tuple(Gate(letter) for letter in value["matchings"][0]["cells"])
    if BIDI.mesh.circuits(setting) == first.circuits:
        MeshSwitch.from_json(signed(value))
    else:
        with pytest.raises(ValueError, match="in matching 0"):
            MeshSwitch.from_json(signed(value))


def test_a_stuck_cell_is_never_moved():
    value = as_read(BIDI)
    letter = value["matchings"][0]["cells"][7]
    value["mesh"]["cells"][7]["stuck"] = "x" if letter == "=" else "="
    with pytest.raises(ValueError, match="moves the stuck cell 7"):
        MeshSwitch.from_json(signed(value))


WRONG = {
    "format": (lambda v: v.update(mesh_switch=2), "format 1"),
    "key": (lambda v: v.update(more=1), "has the keys"),
    "matchings": (lambda v: v.update(matchings=3), "not a list"),
    "matching": (lambda v: v["matchings"].append(1), "must have the keys circuits and cells"),
    "letters": (lambda v: v["matchings"][0].update(cells="=?"), "text of"),
    "few cells": (
        lambda v: v["matchings"][0].update(cells="=x"),
        "38 cells, but a matching sets 2",
    ),
    "circuits": (lambda v: v["matchings"][0].update(circuits=[[1]]), "pairs of ports"),
    "order": (lambda v: v["matchings"][0].update(circuits=[[2, 1]]), "pairs of ports"),
    "twice": (
        lambda v: v["matchings"][0].update(circuits=[[1, 2], [1, 3]]),
        "each port at most once",
    ),
    "no ports": (lambda v: v["mesh"].pop("bidi"), "uses no ports"),
    "no map": (lambda v: v.update(mesh=[]), "not a map of cells"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_invalid_computed_switch_is_refused(what):
    change, complaint = WRONG[what]
    value = as_read(BIDI)
    change(value)
    with pytest.raises(ValueError, match=complaint):
        MeshSwitch.from_json(signed(value))


def test_matchings_that_were_not_all_routed_make_no_switch():
    with pytest.raises(ValueError, match="of 15 matchings are routed"):
        MeshSwitch.of(choose_ports(hexagonal(2, 2), 16, "bidi", limit=1))


def test_a_map_keeps_the_numbers_ports_losses_and_stuck_cells_of_a_device():
    bare = hexagonal(2, 2)
    numbers = random.Random(1).sample(range(1000), len(bare.cells))
    sides = {n: tuple(c.joints[0]) for n, c in zip(numbers, bare.cells, strict=True)}
    value = mesh_map.to_json(with_ports(of_sides(sides), (1, 5), (9, 13)))
    value["cells"][3]["stuck"] = "x"
    for cell in value["cells"]:
        cell["loss"] = [0.1, 0.2]
    mesh = mesh_map.from_json(json.loads(json.dumps(value)))
    assert mesh.numbers == tuple(sorted(numbers))
    assert mesh.stuck == {3: Gate.CROSS}
    assert mesh.losses[0] == (0.1, 0.2)
    assert (len(mesh.ingress), len(mesh.egress)) == (2, 2)
    assert mesh_map.to_json(mesh) == value
    assert mesh_map.from_json(mesh_map.to_json(of_sides(sides))).ports == {}


WRONG_MAPS = {
    "format": (lambda v: v.update(cell_map="1"), "format 1"),
    "key": (lambda v: v.update(sort=1), "no key 'sort'"),
    "no cells": (lambda v: v.update(cells=[]), "lists its cells"),
    "no object": (lambda v: v["cells"].append(3), "a cell is an object"),
    "cell key": (lambda v: v["cells"][0].update(gate="="), "a cell has no key 'gate'"),
    "number": (lambda v: v["cells"][0].update(cell=True), "number from 0"),
    "far": (lambda v: v["cells"][0].update(hexagon=[10**30, 0]), r"needs a hexagon"),
    "side": (lambda v: v["cells"][0].update(side="1"), "needs a hexagon"),
    "corner": (lambda v: v["cells"][0].update(side=6), "corners 0 to 5"),
    "number twice": (lambda v: v["cells"][0].update(cell=1), "cell 1 is listed twice"),
    "side twice": (lambda v: v["cells"].append({**v["cells"][0], "cell": 99}), "the same side"),
    "stuck": (lambda v: v["cells"][0].update(stuck=["x"]), "stuck in '=' or 'x'"),
    "one loss": (lambda v: v["cells"][1].update(loss=[1, 1]), "cell 0 lacks a loss"),
    "loss": (
        lambda v: [c.update(loss=[1, -1]) for c in v["cells"]],
        "must have a loss for bar and one for cross",
    ),
    "ports": (lambda v: v.update(bidi=[[0, 0]]), "lists ports as"),
    "port": (lambda v: v.update(bidi=[[0, 0, 0]]), "no external port at"),
    "port twice": (lambda v: v["bidi"].append(v["bidi"][0]), "each named once"),
}


@pytest.mark.parametrize("what", WRONG_MAPS)
def test_an_invalid_map_of_cells_is_refused(what):
    change, complaint = WRONG_MAPS[what]
    value = copy.deepcopy(mesh_map.to_json(BIDI.mesh))
    change(value)
    with pytest.raises(ValueError, match=complaint):
        mesh_map.from_json(value)
