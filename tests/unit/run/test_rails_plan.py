"""Plans of jobs on rails: each rank of a host has ports of its own, and what is refused."""

from pathlib import Path

import pytest

from testbed.analysis.rail_prediction import rail_jobs
from testbed.errors import FileError
from testbed.fabric.circuits import HostPort
from testbed.jobs.hybrid_descriptors import HybridOptions
from testbed.run.places import Place, ports_of_ranks
from testbed.run.planning.placement import place
from testbed.run.planning.planner import make_plan
from testbed.run.planning.steps import ProgramCircuits, RunTrial
from testbed.schema import load_experiment, load_lab

CONFIGS = Path(__file__).parents[3] / "configs"
EXPERIMENT = """\
experiment: small
question: Who is joined with whom?
needs: {{hosts: 8, fabric: circuit}}
jobs:
  main: {{kind: allreduce, ranks: 8, ranks_per_host: {each}, sizes: [4 KiB], mesh: {mesh}{more}}}
"""
SPLIT = "{dp: 2, pp: 2, tp: 2}"


@pytest.fixture
def planned(tmp_path):
    def plan(lab="rails", each=2, mesh=SPLIT, more="", controllers=""):
        text = EXPERIMENT.format(each=each, mesh=mesh, more=more)
        text = text.replace("hosts: 8", f"hosts: {8 // each}") + controllers
        (tmp_path / "e").write_text(text)
        return load_experiment(tmp_path / "e"), load_lab(CONFIGS / f"{lab}.yaml")

    return plan


def test_ranks_of_a_host_share_its_ports_evenly(planned):
    experiment, lab = planned("rails-wide")
    (placed,) = place(experiment, lab).values()
    ports = ports_of_ranks(placed.job, placed.hosts, lab.ports())
    assert ports[2] == (HostPort("h1", "p0"), HostPort("h1", "p1"))
    assert ports[3] == (HostPort("h1", "p2"), HostPort("h1", "p3"))


def test_a_job_in_groups_brings_the_controller_of_rails_along_with_all_its_circuits(planned):
    plan = make_plan(*planned(), seed=1)
    (controller,) = plan.arms[0].controllers
    assert (controller.kind, controller.job) == ("rails", "main")
    every = {circuit for matching in controller.circuits for circuit in matching}
    assert len(every) == 8, "four groups of two along dp, four along pp, none inside hosts"
    assert all(circuit.a.port == circuit.b.port for circuit in every), "no circuit joins two rails"
    (trial,) = [step for step in plan.steps if isinstance(step, RunTrial)][:1]
    assert trial.adds == (), "ranks ask for all of them"


GRID = ", topology: {kind: rails, ranks_per_host: 2, each: {kind: graph, links: LINKS}}"


def grid(links):
    return GRID.replace("LINKS", links)


def test_circuits_of_a_topology_on_rails_are_lit_before_the_job_begins(planned):
    given = planned("rails-wide", more=grid("[[0, 1], [2, 3], [0, 2], [1, 3]]"))
    plan = make_plan(*given, seed=1)
    (made,) = (step for step in plan.steps if isinstance(step, ProgramCircuits))
    (controller,) = plan.arms[0].controllers
    assert len(made.circuits) == 8
    every = [circuit for matching in controller.circuits for circuit in matching]
    assert sorted(map(str, every)) == sorted(map(str, made.circuits)), "each is of one group"
    assert rail_jobs(given[0].arms()[0]) == []


def test_an_all_to_all_of_more_than_two_has_a_matching_of_circuits_after_the_other(planned):
    more = ", collectives: {ep: all-to-all}"
    for lab, each, mesh, ranks in (
        ("rails", 2, "{ep: 4, tp: 2}", 4),
        ("rails-wide", 1, "{ep: 8}", 8),
    ):
        plan = make_plan(*planned(lab, each, mesh, more), seed=1)
        (controller,) = plan.arms[0].controllers
        assert [len(each) for each in controller.circuits] == [ranks // 2] * (ranks - 1) * each
        every = [circuit for matching in controller.circuits for circuit in matching]
        assert len(every) == len(set(every))


EXPERTS = """\
experiment: experts
question: Who is joined with whom, and when?
needs: {hosts: 4, fabric: circuit}
jobs:
  main: {kind: hybrid, ranks: 8, ranks_per_host: 2, mesh: MESH, experts: 4, steps: 2}
"""


@pytest.fixture
def with_experts(tmp_path):
    def plan(mesh):
        (tmp_path / "e").write_text(EXPERTS.replace("MESH", mesh))
        return make_plan(load_experiment(tmp_path / "e"), load_lab(CONFIGS / "rails.yaml"), seed=1)

    return plan


def test_a_group_of_four_with_one_port_each_has_a_matching_of_circuits_after_the_other(
    with_experts,
):
    (controller,) = with_experts("{ep: 4, tp: 2}").arms[0].controllers
    assert [len(matching) for matching in controller.circuits] == [2] * 3 * 2, "on both rails"
    for rail in (controller.circuits[:3], controller.circuits[3:]):
        for matching in rail:
            ports = [end for circuit in matching for end in circuit.ends]
            assert len(set(ports)) == 4 == len({end.host for end in ports})
        assert len({circuit for matching in rail for circuit in matching}) == 6, "every pair meets"


def test_experts_beside_replicas_are_on_rails_and_those_beside_a_pipeline_are_refused(with_experts):
    (controller,) = with_experts("{dp: 2, ep: 2, tp: 2}").arms[0].controllers
    assert [len(matching) for matching in controller.circuits] == [1] * 8
    with pytest.raises(FileError, match="leave out `pp` or `ep`, or use a lab with a pac"):
        with_experts("{pp: 2, ep: 2, tp: 2}")


REFUSED = {
    "a topology that leaves a group apart": (
        {"lab": "rails-wide", "more": grid("[[0, 1], [2, 3], [0, 2]]")},
        "cannot make this rails: it does not join rank 2 with rank 6, of group dp2",
    ),
    "a topology of several matchings": (
        {"lab": "rails-wide", "more": ", topology: all-to-all"},
        "it takes 4 matchings, one after the other",
    ),
    "circuits of more ports than a rank has": (
        {"more": grid("[[0, 1], [2, 3], [0, 2], [1, 3]]")},
        "rank 0 has no port left for the link of 0 and 2",
    ),
    "too few ports for a ring": (
        {"mesh": "{dp: 4, tp: 2}"},
        "rails does not fit job main: a ring of 4 ranks with 1 fibre to each neighbour takes 2",
    ),
    "ports that ranks cannot share evenly": (
        {"each": 4, "mesh": "{dp: 2, tp: 4}"},
        "rails join ranks by their own ports: h0 has 2 fabric ports, which its 4 ranks cannot",
    ),
    "a group on several rails": (
        {"mesh": "{pp: 2, dp: 4}"},
        "rails does not fit job main: the ranks of group dp0 are on several rails",
    ),
    "a sum of more than two beside an all-to-all of as many": (
        {
            "mesh": "{ep: 4, tp: 2}",
            "more": ", collectives: {ep: reduce-scatter}",
        },
        "rails does not fit job main: a ring of 4 ranks with 1 fibre to each neighbour takes 2",
    ),
    "a policy that would move the circuits, too": (
        {"controllers": "policy: {kind: splice}\n"},
        "splice",
    ),
    "a wait longer than ranks wait": (
        {"controllers": "controllers: [{kind: rails, limit: 2 min}]\n"},
        "limit must be above 0 and at most 60 s, not 120 s",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_rails_cannot_do_is_refused(planned, name):
    changes, message = REFUSED[name]
    with pytest.raises(FileError) as caught:
        make_plan(*planned(**changes), seed=1)
    assert message in str(caught.value)


WITH_SPARE = """\
experiment: replaced
question: Who takes whose place?
needs: {hosts: 5, fabric: circuit}
jobs:
  main: {kind: KIND, ranks: 8, ranks_per_host: 2, mesh: {dp: 2, pp: 2, tp: 2}MORE}
controllers: [{kind: rails}, {kind: replace}]
faults: [{kind: power-cut, target: rank 2, at: {step: 4}}]
"""


@pytest.fixture
def with_spare(tmp_path):
    def plan(kind="hybrid", more=", spares: 1, steps: 9"):
        (tmp_path / "e").write_text(WITH_SPARE.replace("KIND", kind).replace("MORE", more))
        return load_experiment(tmp_path / "e"), load_lab(CONFIGS / "rails.yaml")

    return plan


def test_a_spare_has_a_place_for_each_rank_of_a_host(with_spare):
    (placed,) = place(*with_spare()).values()
    assert placed.spare_places == (Place("h4", 0), Place("h4", 1))
    assert placed.used == ("h0", "h1", "h2", "h3", "h4")


def test_the_plan_has_a_spare_take_all_ranks_of_the_host_that_fails(with_spare):
    plan = make_plan(*with_spare(), seed=1)
    (trial,) = [step for step in plan.steps if isinstance(step, RunTrial)][:1]
    (recovery,) = trial.recoveries
    assert [(one.victim, one.replacement) for one in recovery.decisions] == [("h1", "h4")]
    assert [(one.host, one.means) for one in recovery.fences] == [("h1", "none")]
    assert recovery.hosts == ("h0", "h0", "h4", "h4", "h2", "h2", "h3", "h3")


def test_a_job_without_replicas_is_not_replaced_on_rails(with_spare):
    given = with_spare("allreduce", ", sizes: [4 KiB]")
    with pytest.raises(FileError, match="no rank on another host holds the state of rank 0"):
        make_plan(*given, seed=1)


def test_spares_of_a_mesh_without_replicas_are_refused():
    with pytest.raises(ValueError, match="without replicas cannot be restored"):
        HybridOptions(8, {"pp": 4, "tp": 2}, spares=1)
