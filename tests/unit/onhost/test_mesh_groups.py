"""AllReduces in the groups of a mesh, in processes over loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.jobs.descriptors import AllReduceOptions
from testbed.jobs.training import AllReduce
from testbed.onhost.errors import Corrupt
from testbed.onhost.jobs.allreduce import Pattern
from testbed.onhost.jobs.groups import results

WRONG = str(Path(__file__).with_name("wrong_member.py"))


EVERY = ["all-reduce", "reduce-scatter", "all-gather", "chain", "all-to-all"]


def options(ranks, mesh, sizes=(4, 40_004), iterations=2, **more):
    given = AllReduceOptions(ranks, sizes, iterations=iterations, warmup=1, mesh=mesh, **more)
    return AllReduce(given).for_rank()["options"]


def test_every_group_of_eight_ranks_on_four_hosts_has_every_value_right(gang):
    mesh = {"dp": 2, "pp": 2, "tp": 2}
    hosts = [f"h{rank // 2}" for rank in range(8)]
    job = gang("groups", options(8, mesh), 8, hosts=hosts)
    job.join(1)
    job.hear("done", step=12)
    for rank, member in enumerate(job.members):
        samples = member.of_kind("sample")
        assert [sample["dimension"] for sample in samples] == [*mesh] * 4
        assert [sample["size"] for sample in samples] == [4] * 6 + [40_004] * 6
        for sample in samples:
            stride = {"dp": 4, "pp": 2, "tp": 1}[sample["dimension"]]
            assert sample["members"] == sorted([rank, rank ^ stride])
            assert sample["verified"] and sample["begin"] <= sample["end"]
            assert set(sample["waits"]) == {str(rank ^ stride)}


@pytest.mark.parametrize("collective", EVERY)
def test_groups_of_three_run_any_collective_with_every_value_right(gang, collective):
    job = gang("groups", options(3, {"ep": 3}, collectives={"ep": collective}), 3)
    job.join(1)
    job.hear("done", step=4)
    assert {sample["verified"] for sample in job.members[0].of_kind("sample")} == {True}


@pytest.mark.parametrize("collective", EVERY)
def test_what_each_rank_holds_at_the_end_is_what_the_schedule_gives_it(collective):
    """Sets of ranks instead of numbers: the schedule is run on these, round by round."""
    told = options(3, {"ep": 3}, collectives={"ep": collective})["schedules"]["ep"]
    has = [[frozenset({rank})] * told["chunks"] for rank in range(3)]
    for sends in told["rounds"]:
        sent = [(s, d, c, n, op, has[s][c : c + n]) for s, d, c, n, op in sends]
        for _, to, first, count, operation, what in sent:
            for chunk, ranks in zip(range(first, first + count), what, strict=True):
                has[to][chunk] = ranks | (has[to][chunk] if operation == "reduce" else set())
    for rank in range(3):
        chunks, held = results(collective, rank, 3)
        for chunk, ranks in held.items():
            for part in has[rank] if chunks == 1 else [has[rank][chunk]]:
                assert part == frozenset(ranks), (rank, chunk)


@pytest.mark.parametrize(
    "collective", [pytest.param(c, marks=[pytest.mark.soak] if c != "chain" else []) for c in EVERY]
)
def test_a_wrong_value_is_found_whatever_the_groups_run(gang, collective):
    job = gang("groups", options(2, {"pp": 2}, sizes=(4000,), collectives={"pp": collective}), 2)
    with job.taken(0, by=job.start([WRONG])):
        job.join(1)
        job.members[1].hear("corrupt", generation=1, step=0)


def test_ranks_on_one_host_need_no_fabric_port(gang):
    job = gang("groups", options(2, {"tp": 2}), 2, hosts=["h0", "h0"], without_fabric=[0, 1])
    job.join(1)
    job.hear("done", step=4)


def test_ranks_on_one_host_reach_each_other_by_loopback(gang):
    job = gang("groups", options(2, {"tp": 2}), 2, hosts=["h0", "h0"])
    nobody_there = [{**member, "port": 1} for member in job.described()]
    job.join(1, members=nobody_there)
    job.hear("done", step=4)


def test_a_rank_without_a_fabric_port_cannot_reach_another_host(gang):
    hosts = ["h0", "h0", "h1", "h1"]
    job = gang("groups", options(4, {"dp": 2, "tp": 2}), 4, hosts=hosts, without_fabric=[1])
    job.join(1)
    for rank in (1, 3):
        why = job.members[rank].hear("refused", do="join")["why"]
        assert f"rank {rank} on h{rank // 2} and rank {4 - rank} on h{1 - rank // 2}" in why
        assert "one of them has no fabric port" in why


def test_a_wrong_value_is_found_in_the_group_of_the_rank_that_gave_it(gang):
    job = gang("groups", options(4, {"dp": 2, "tp": 2}, sizes=(40,)), 4)
    with job.taken(3, by=job.start([WRONG])):
        job.join(1)
        for rank in (1, 3):
            why = job.members[rank].hear("corrupt", generation=1, step=0)["why"]
            assert "element 5 is" in why
        assert not job.members[0].of_kind("corrupt")


def test_a_lost_rank_is_named_by_its_number_in_the_mesh(gang):
    job = gang("groups", options(4, {"dp": 2, "tp": 2}, iterations=10_000), 4)
    job.join(1)
    job.hear("sample", step=1)
    job.members[3].process.kill()
    for rank in (1, 2):
        assert job.members[rank].hear("peer-lost")["neighbour"] == "rank 3"
        job.members[rank].tell("leave", generation=1)
        assert job.members[rank].hear("left")["started"]


def test_the_links_along_each_dimension_are_probed(gang):
    job = gang("groups", options(2, {"dp": 2, "tp": 1}), 2)
    job.join(1, probe=True)
    for probe in job.hear("probe", generation=1):
        assert list(probe["dimensions"]) == ["dp"]  # along tp there are no links
        assert probe["long_seconds"] == probe["dimensions"]["dp"]["long_seconds"]
    job.hear("done", step=8)


@pytest.mark.parametrize("others", [(0, 2), (1, 2), (1, 1), (1, 3, 3)])
def test_values_of_another_group_are_not_those_of_this_one(others):
    total = Pattern(100)
    for rank in others:
        part = Pattern(100)
        part.fill(rank, 7, lambda: None)
        total.vector += part.vector
    with pytest.raises(Corrupt):
        total.verify((1, 3), 7, lambda: None)
