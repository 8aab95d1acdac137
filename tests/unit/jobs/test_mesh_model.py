"""The job `mesh-model`: its options, stuck cells, and proofs about refused matchings."""

from dataclasses import replace

import pytest

from testbed.fabric.mesh import Gate, hexagonal
from testbed.fabric.mesh_ports import choose_ports, route_all
from testbed.jobs import mesh_model
from testbed.jobs.mesh_descriptors import MeshModelOptions
from testbed.jobs.mesh_model import MeshModel

SEED = 17


def values(seed=SEED, **more):
    return MeshModel(MeshModelOptions(**{"width": 4, "height": 4, "ranks": 8, **more})).values(seed)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"ranks": 7}, "7 is an odd number"),
        ({"ranks": 0}, "ranks must be at least 2, not 0"),
        ({"width": 0}, "width must be at least 1, not 0"),
        ({"height": 33}, "width and height must be at most 32"),
        ({"stuck": -1}, "stuck must be at least 0, not -1"),
        ({"stuck": 64}, "the mesh has 63 cells, so 64 cannot be stuck"),
        ({"ranks": 38}, "the mesh has 36 external ports, and 38 are needed"),
        ({"ranks": 20, "ports": "tx-rx"}, "the mesh has 36 external ports, and 40 are needed"),
        ({"draws": 2}, "draws must be 1 where no cell is stuck"),
    ],
)
def test_impossible_options_are_refused(more, text):
    with pytest.raises(ValueError, match=text):
        values(**more)


@pytest.mark.parametrize("ports", ["bidi", "tx-rx"])
def test_every_matching_is_routed_where_every_cell_moves(ports):
    found = values(ports=ports, ranks=4)
    assert found["matchings_routed"] == found["meshes_routed"] == 1
    assert {*found} == {*MeshModelOptions(4, 4, 4, ports).measures()}


def test_stuck_cells_are_drawn_from_the_seed_and_few_are_among_many(monkeypatch):
    drawn = []
    routed = mesh_model.route_all
    monkeypatch.setattr(
        mesh_model, "route_all", lambda mesh, *more: drawn.append(mesh.stuck) or routed(mesh, *more)
    )
    values(stuck=3, draws=2), values(stuck=5, draws=2), values(SEED + 1, stuck=3)
    few, other_few, many, other_many, of_another_seed = drawn
    assert [len(each) for each in drawn] == [3, 3, 5, 5, 3]
    assert few.items() <= many.items() and other_few.items() <= other_many.items()
    assert len({str(sorted(each.items(), key=str)) for each in drawn}) == 5
    assert {*many.values()} <= {*Gate} and of_another_seed.keys() != few.keys()


def test_nine_of_the_126_ways_in_which_one_cell_sticks_cost_matchings():
    mesh = hexagonal(4, 4)
    chosen = choose_ports(mesh, 8, "bidi", seed=SEED)
    at_ports = {
        number for number, cell in enumerate(mesh.cells) if {*cell.joints} & {*chosen.mesh.ingress}
    }
    left = {}
    for number in range(len(mesh.cells)):
        for gate in Gate:
            stuck = replace(mesh, stuck={number: gate})
            count = route_all(stuck, chosen.rim, "bidi").count
            left |= {(number, gate): count} if count < 7 else {}
    assert sorted(left.values()) == [0] * 6 + [6] * 3
    whole = [gate for (number, gate), count in left.items() if not count and number in at_ports]
    assert whole == [Gate.BAR] * 4


def test_what_the_router_does_not_route_is_proved_impossible_or_left_open():
    found = values(stuck=6, draws=20, proof=10.0)
    assert 0 < found["matchings_routed"] < 1
    assert found["meshes_routed"] <= found["matchings_routed"]
    assert 0.9 < found["proved_impossible"] <= 1


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 4), (7, 3), (4, 6)])
def test_as_many_cells_and_ports_as_a_mesh_has_are_accepted_and_no_more(width, height):
    mesh = hexagonal(width, height)
    cells, external = len(mesh.cells), len(mesh.rim)
    MeshModelOptions(width, height, external, stuck=cells)
    for more in ({"ranks": external + 2}, {"ranks": 2, "stuck": cells + 1}):
        with pytest.raises(ValueError, match="the mesh has"):
            MeshModelOptions(**{"width": width, "height": height, **more})


def test_times_apart_the_same_seed_gives_the_same_values():
    first, second = (values(stuck=4, draws=5) for _ in range(2))
    for found in (first, second):
        del found["search_time"], found["routing_time"]
    assert first == second
