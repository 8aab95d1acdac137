"""The circuits of one rail, in all orders of requests, changes and ends of stages."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.fabric.circuits import Circuit
from testbed.fabric.fibre_plant import circuits_of_links
from testbed.fabric.topologies import AllToAll
from testbed.rails.rail import Answer, Move, Rail, RailState, WrongRequest, neighbours
from testbed.rails.stage import Stage, circuits_of
from tests.unit.control.model_checker import explore

from .rail_world import MESH, RailModel, ports_of, stages_for

MODES = ["on-demand", "provisioned", "learned"]
DEPTH = 40


def rail(ports=2):
    return Rail(ports_of(4, ports), MESH)


def joined(*names):
    return RailState(joined={name: frozenset(MESH[name]) for name in names or MESH})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dimensions", [["dp", "pp"], ["pp", "dp"], ["dp", "world"]])
def test_no_order_of_events_is_unsafe_or_ends_in_a_deadlock(mode, dimensions):
    model = RailModel(stages_for(dimensions), mode, rail())
    found = explore(model.start(), model.moves, model.wrong, DEPTH)
    assert not found.wrong, found.trace
    assert found.states > 100


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=20)
@given(st.data(), st.lists(st.sampled_from(["dp", "pp", "world"]), min_size=1, max_size=6))
def test_random_orders_of_longer_iterations_are_safe_and_end(mode, data, dimensions):
    model = RailModel(stages_for(dimensions), mode, rail())
    world = model.start()
    while moves := [*model.moves(world)]:
        name, world = data.draw(st.sampled_from(moves))
        assert not model.wrong(world), name
    assert world.at == (len(dimensions),) * 4


class RemovesUnderTraffic(Rail):
    def _users(self, state, circuits):
        return set()


def test_a_planted_removal_under_traffic_gives_the_shortest_order_that_shows_it():
    model = RailModel(
        stages_for(["dp", "pp"]), "provisioned", RemovesUnderTraffic(ports_of(4), MESH)
    )
    found = explore(model.start(), model.moves, model.wrong, DEPTH)
    assert found.wrong.startswith("unsafe: a circuit goes while rank")
    assert any("leaves" in step for step in found.trace)


def test_circuits_are_commanded_when_all_ranks_are_ready_and_not_before():
    state, effects = rail().ready(joined(), 0, Stage("dp0", 0, (0, 1)))
    assert effects == ()
    state, (move,) = rail().ready(state, 1, Stage("dp0", 0, (0, 1)))
    assert isinstance(move, Move)
    assert not move.remove
    state, effects = rail().moved(state, move.number)
    assert effects == (Answer(Stage("dp0", 0, (0, 1)), True),)


def test_lit_circuits_are_answered_without_a_change():
    state = joined()
    for number in (0, 1):
        for rank in (0, 1):
            state, effects = rail().ready(state, rank, Stage("dp0", number, (0, 1)))
        if number == 0:
            state, _ = rail().moved(state, effects[0].number)
            for rank in (0, 1):
                state, _ = rail().leave(state, rank)
    assert effects == (Answer(Stage("dp0", 1, (0, 1)), False),)


def test_a_change_touches_only_circuits_that_differ():
    state = joined()
    for name in ("dp0", "dp1", "pp0"):
        for rank in MESH[name]:
            state, effects = rail(1).ready(state, rank, Stage(name, 0, MESH[name]))
        if name != "pp0":
            state, _ = rail(1).moved(state, effects[0].number)
            for rank in MESH[name]:
                state, _ = rail(1).leave(state, rank)
    (move,) = effects
    assert move.remove == {Circuit.parse("h0.p0", "h1.p0"), Circuit.parse("h2.p0", "h3.p0")}
    assert move.add == {Circuit.parse("h0.p0", "h2.p0")}


def test_a_pipeline_of_four_keeps_both_neighbours_of_a_rank():
    ports, group = ports_of(4), (0, 1, 2, 3)
    first, second = (circuits_of(Stage("pp", 0, pair), group, ports) for pair in ((0, 1), (1, 2)))
    assert first == {Circuit.parse("h0.p1", "h1.p0")}
    assert second == {Circuit.parse("h1.p1", "h2.p0")}


def test_a_ring_of_more_than_two_ranks_takes_two_ports():
    with pytest.raises(ValueError, match=r"a ring of 4 ranks .* takes 2 ports on each rank, not 1"):
        circuits_of(Stage("world", 0, MESH["world"]), MESH["world"], ports_of(4, 1))


def test_a_group_is_complete_when_all_its_ranks_have_joined():
    state, complete = rail().join(RailState(), 0, "dp0")
    assert not complete
    state, complete = rail().join(state, 1, "dp0")
    assert complete


@pytest.mark.parametrize(
    ("rank", "stage", "text"),
    [
        (3, Stage("dp0", 0, (0, 1)), "rank 3 asks for dp0 0, in which it has no part"),
        (0, Stage("dp0", 0, (0, 3)), "rank 0 asks for dp0 0 of ranks that are not in the group"),
        (0, Stage("ep", 0, (0, 1)), "rank 0 asks for ep 0 of ranks that are not in the group"),
        (0, Stage("pp0", 0, (0, 2)), "rank 0 asks for pp0 0 before rank 0 has joined"),
        (1, Stage("dp0", 5, (0, 1)), "rank 1 asks for dp0 5 after dp0 5"),
        (0, Stage("dp0", 4, (0, 1)), "rank 0 asks for dp0 4 after dp0 5"),
        (0, Stage("dp0", 6, (0, 1)), "rank 0 asks for dp0 6 while it waits for dp0 5"),
    ],
)
def test_a_wrong_request_names_the_rank_and_the_stage(rank, stage, text):
    waits, _ = rail().ready(joined("dp0"), 0, Stage("dp0", 5, (0, 1)))
    if rank == 1:
        waits, _ = rail().ready(waits, 1, Stage("dp0", 5, (0, 1)))
    with pytest.raises(WrongRequest, match=f"^{text}$"):
        rail().ready(waits, rank, stage)


@pytest.mark.parametrize(
    ("rank", "group", "text"),
    [
        (0, "dp0", "rank 0 has joined group dp0 already"),
        (2, "dp0", "rank 2 is not in group dp0"),
        (0, "ep", "rank 0 is not in group ep"),
    ],
)
def test_a_wrong_join_names_the_rank_and_the_group(rank, group, text):
    state, _ = rail().join(RailState(), 0, "dp0")
    with pytest.raises(WrongRequest, match=f"^{text}$"):
        rail().join(state, rank, group)


def test_a_stage_names_the_ranks_that_it_waits_for():
    state, _ = rail().ready(joined(), 0, Stage("dp0", 0, (0, 1)))
    assert rail().late(state, Stage("dp0", 0, (0, 1))) == (1,)
    state, _ = rail().ready(state, 1, Stage("dp0", 0, (0, 1)))
    state, _ = rail().moved(state, 0)
    state, _ = rail().ready(state, 0, Stage("pp0", 0, (0, 2)))
    state, effects = rail().ready(state, 2, Stage("pp0", 0, (0, 2)))
    assert effects == ()
    assert rail().late(state, Stage("pp0", 0, (0, 2))) == (1,)


def all_to_all(ports):
    (links,) = AllToAll().matchings(4, 3)
    return circuits_of_links(links, ports)


def test_where_lit_circuits_join_the_ranks_of_all_groups_no_stage_needs_a_change():
    ports = ports_of(4, 3)
    lit = all_to_all(ports)
    standing, state = Rail(ports, MESH, lit), replace(joined(), lit=lit)
    for group, ranks in MESH.items():
        stage = Stage(group, 0, ranks)
        used = {frozenset(end.host for end in each.ends) for each in standing.circuits(stage)}
        assert used == {frozenset(f"h{rank}" for rank in pair) for pair in neighbours(ranks)}
        for rank in ranks:
            state, effects = standing.ready(state, rank, stage)
        assert effects == (Answer(stage, False),)
    assert not state.moves
    assert state.lit == lit


@pytest.mark.parametrize("number", range(6))
def test_without_one_of_them_groups_have_their_circuits_made_as_ever(number):
    ports, stage = ports_of(4, 3), Stage("dp0", 0, (0, 1))
    lit = sorted(all_to_all(ports), key=str)
    made = circuits_of(stage, (0, 1), ports)
    assert Rail(ports, MESH, frozenset(lit)).circuits(stage) != made
    del lit[number]
    assert Rail(ports, MESH, frozenset(lit)).circuits(stage) == made
