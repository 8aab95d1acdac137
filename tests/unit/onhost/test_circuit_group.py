"""Ranks on a circuit switch, as processes over loopback: what they ask for, and when."""

from __future__ import annotations

import select
from itertools import pairwise

from testbed.jobs.collective import Collective
from testbed.jobs.collective_descriptors import CollectiveOptions
from testbed.onhost.communication.circuits import CHANGES
from tests.unit.onhost.rank_driver import PATIENCE


def options(**changes):
    given = {"ranks": 4, "sizes": (4096, 44), "iterations": 2, "circuits": "both"} | changes
    return Collective(CollectiveOptions(**given)).on_circuits().for_rank()["options"]


def serve(members, until):
    """Answer what ranks ask for, as soon as all concerned have asked; return who was concerned."""
    lines = {member.line: rank for rank, member in enumerate(members.members)}
    asked, concerned = {}, []
    while not until():
        ready, _, _ = select.select(list(lines), [], [], PATIENCE)
        assert ready, "nobody says anything any more"
        for line in ready:
            rank = lines[line]
            for said in members.members[rank].listen():
                if said["event"] != "circuits":
                    continue
                ranks = asked.setdefault(said["number"], set())
                ranks.add(rank)
                if ranks == set(said["of"]):
                    concerned.append((said["circuits"], said["of"]))
                    for one in said["of"]:
                        members.members[one].tell("lit", generation=1, number=said["number"])
    return concerned


def all_said(members, event):
    return lambda: all(member.of_kind(event) for member in members.members)


def test_circuit_group_runs_every_algorithm_with_right_sums(gang):
    told = options()
    members = gang("collective", told, 4)
    members.join(1, probe=True)
    serve(members, all_said(members, "done"))
    names = list(told["schedules"])
    assert len(names) == 7  # a ring needs no choice
    for member in members.members:
        samples = member.of_kind("sample")
        assert [sample["algorithm"] for sample in samples] == names * 4
        assert all(sample["verified"] for sample in samples)
        (probe,) = member.of_kind("probe")
        tour = len(told["circuits"]["tour"])
        assert CHANGES <= len(probe["changes"]) < CHANGES + tour
        assert len(probe["changes"]) % tour == 0
        timed = [sample.get("changes", []) for sample in samples]
        assert [len(one) for one in timed[:: len(samples) // 2]] == [tour, tour]
        assert sum(map(len, timed)) == 2 * tour  # once an iteration


def test_circuit_requests_of_a_collective_end_with_the_ring(gang):
    members = gang("collective", options(algorithms=("rhd",), circuits="re-point", warmup=0), 4)
    members.join(1)
    everybody = [0, 1, 2, 3]
    meeting, each = [(1, everybody), (0, everybody)], [(1, everybody), (0, everybody)]
    asked = serve(members, all_said(members, "done"))
    timed = each  # before each iteration
    assert asked == meeting + 2 * (timed + each * 2)


def test_the_pace_of_a_collective_begins_after_its_changes_of_circuits(gang):
    pace = 0.03
    told = options(algorithms=("rhd",), circuits="re-point", warmup=0, pace=pace)
    members = gang("collective", told, 4)
    members.join(1)
    serve(members, all_said(members, "done"))
    for member in members.members:
        samples = member.of_kind("sample")
        assert sum("changes" in sample for sample in samples) == 2
        for one, after in pairwise(samples):
            assert after["begin"] - one["end"] >= pace + sum(after.get("changes", ()))


def test_circuit_request_names_only_ranks_with_a_part_in_the_stage(gang):
    """The straggler of StragglAR may be late: the others re-point among themselves meanwhile."""
    told = options(algorithms=("stragglar",), circuits="re-point", sizes=(4096,), warmup=0)
    members = gang("collective", told, 4)
    members.members[3].tell("straggle", seconds=0.3)
    members.members[3].hear("straggling")
    members.join(1)
    asked = serve(members, all_said(members, "done"))
    tour = told["circuits"]["tour"]
    begin = 2 * len(tour)  # they connected, and timed each change
    assert asked[begin] == (tour[0], [0, 1, 2])
    assert asked[begin + 1] == (tour[1], [0, 1, 2, 3])
    assert all(sample["verified"] for sample in members.members[3].of_kind("sample"))


def test_collective_runs_the_algorithm_chosen_for_each_size(gang):
    members = gang("collective", options(algorithms=("ring", "rhd"), circuits="auto"), 4)
    chosen = {"rhd": {"4096": "rhd_repointed", "44": "rhd_forwarded"}}
    members.join(1)
    members.tell("choose", number=1, schedules=chosen)
    serve(members, all_said(members, "done"))
    rounds = {
        (sample["algorithm"], sample["size"]): len(sample["rounds"])
        for sample in members.members[0].of_kind("sample")
    }
    assert rounds == {("ring", 4096): 6, ("rhd", 4096): 4, ("ring", 44): 6, ("rhd", 44): 6}


def test_rank_that_waits_for_circuits_leaves_when_ordered(gang):
    members = gang("collective", options(), 4)
    members.join(1)
    members.hear("circuits", number=1)
    members.tell("leave", generation=1)
    assert all(said["generation"] == 1 for said in members.hear("left"))


def test_rank_that_waits_for_a_choice_leaves_when_ordered(gang):
    members = gang("collective", options(circuits="auto"), 4)
    members.join(1, probe=True)
    serve(members, all_said(members, "probe"))
    members.tell("leave", generation=1)
    assert all(not said["committed"] for said in members.hear("left"))
