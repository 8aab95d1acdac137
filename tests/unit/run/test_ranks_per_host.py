"""Plans with several ranks on a host: where each runs, and what is refused."""

from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.run.places import Place
from testbed.run.planning.placement import place
from testbed.run.planning.steps import OpenHosts, ProgramCircuits, StartJob
from testbed.schema import load_experiment, load_lab
from tests.unit.run.test_packet_plan import LAB
from tests.unit.run.test_packet_plan import plan as plan  # the fixture

CONFIGS = Path(__file__).parents[3] / "configs"
EIGHT = "ranks: 8, ranks_per_host: 2, mesh: {dp: 4, tp: 2}"
RANKS = ("ranks: 3, spares: 1", EIGHT)


def test_ranks_fill_one_host_after_the_other(plan):
    steps = plan([RANKS]).steps
    (hosts,) = [step for step in steps if isinstance(step, OpenHosts)]
    assert hosts.hosts == ("h0", "h1", "h2", "h3")
    (job,) = [step for step in steps if isinstance(step, StartJob)]
    assert job.hosts == ("h0", "h0", "h1", "h1", "h2", "h2", "h3", "h3")


def test_each_rank_of_a_host_has_a_slot_of_its_own_and_spares_have_hosts(tmp_path):
    experiment = """\
experiment: small
question: Who is where?
needs: {hosts: 4, fabric: packet}
jobs:
  main:
    {kind: allreduce, ranks: 6, ranks_per_host: 3, spares: 1, sizes: [4 KiB], hosts: [h4, h2, h0]}
"""
    (tmp_path / "e").write_text(experiment)
    (tmp_path / "l").write_text(LAB)
    placed = place(load_experiment(tmp_path / "e"), load_lab(tmp_path / "l"))["main"]
    assert placed.places == tuple(Place(host, slot) for host in ("h4", "h2") for slot in range(3))
    assert placed.spare_places == (Place("h0", 0),)
    assert placed.used == ("h4", "h2", "h0")


@pytest.mark.parametrize("lab", ["rails", "packet-rails"])
def test_several_ranks_of_torchrun_on_a_host_are_so_many_nodes_to_it(tmp_path, lab):
    experiment = """\
experiment: small
question: Who is where?
needs: {hosts: 4, fabric: any}
jobs:
  main: {kind: torchrun, ranks: 8, ranks_per_host: 2, mesh: {dp: 4, pp: 2}, script: [t.py]}
"""
    (tmp_path / "e").write_text(experiment)
    spec, shipped = load_experiment(tmp_path / "e"), load_lab(CONFIGS / f"{lab}.yaml")
    placed = place(spec, shipped)["main"]
    assert placed.hosts == tuple(f"h{rank // 2}" for rank in range(8))
    lines = placed.job.command_lines([shipped.hosts[host] for host in placed.hosts])
    assert [line[1:5] for line in lines] == [
        ("--nnodes", "8", "--node-rank", str(rank)) for rank in range(8)
    ]


KILL = "\nfaults: [{kind: rank-kill, target: h1, at: {step: 2}}]"
REFUSED = {
    "ranks that do not fill their hosts": (
        [("ranks: 3, spares: 1", "ranks: 7, ranks_per_host: 2")],
        "7 ranks do not fill hosts with 2 ranks each",
    ),
    "more hosts than are declared": (
        [("ranks: 3, spares: 1", "ranks: 10, ranks_per_host: 2")],
        "job main uses 5 hosts (with spares), more than the 4 declared",
    ),
    "no rank on a host": (
        [("ranks: 3, spares: 1", "ranks: 3, ranks_per_host: 0")],
        "ranks_per_host",
    ),
    "a host where a rank must be named": (
        [RANKS, ("[64 KiB]}", "[64 KiB]}" + KILL)],
        "rank-kill hits one rank, and h1 runs rank 2 and rank 3; write 'rank 2'",
    ),
    "a program": (
        [
            ("kind: allreduce, ranks: 3, spares: 1", "kind: command, ranks: 4, ranks_per_host: 2"),
            ("sizes: [64 KiB]", "command: [date]"),
        ],
        "a command runs one program on each host",
    ),
    "a policy that replaces one rank": (
        [
            ("ranks: 3, spares: 1", "ranks: 8, ranks_per_host: 2"),
            ("jobs:", "policy: {kind: shrink}\njobs:"),
        ],
        "shrink replaces one rank, and a host that fails takes 2 with it",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_ranks_that_share_a_host_cannot_do_is_refused(plan, why):
    changes, error = REFUSED[why]
    with pytest.raises(FileError) as refused:
        plan(changes)
    assert error in str(refused.value)


ON_CIRCUITS = """\
experiment: small
question: Who sends where?
needs: {hosts: 3, fabric: circuit}
jobs: {main: {kind: train, ranks: 6, ranks_per_host: 2, steps: 3}}
"""


def test_circuits_join_hosts_whose_ranks_follow_each_other_in_the_ring(desk):
    desk.experiment = ON_CIRCUITS
    (made,) = [step for step in desk.plan().steps if isinstance(step, ProgramCircuits)]
    assert set(map(str, made.circuits)) == {"h0.p1–h1.p0", "h1.p1–h2.p0", "h0.p0–h2.p1"}
    (job,) = [step for step in desk.plan().steps if isinstance(step, StartJob)]
    assert job.hosts == ("h0", "h0", "h1", "h1", "h2", "h2")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "kind: train, ranks: 6, ranks_per_host: 2, steps: 3",
            "kind: collective, ranks: 6, ranks_per_host: 2, sizes: [4 KiB]",
            "each rank of job main asks for circuits of its own",
        ),
        (
            "jobs:",
            "policy: {kind: splice}\njobs:",
            "splice re-points circuits between ranks, and those of job main share their host's",
        ),
    ],
)
def test_what_re_points_circuits_is_refused_where_ranks_share_them(desk, old, new, error):
    desk.experiment = ON_CIRCUITS
    assert error in desk.change("experiment", old, new).refusal()
