"""Ranks as processes over loopback: whole jobs, and what breaks them."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from testbed.bench.bundle import bundle
from testbed.onhost.communication.connections import PeerConnections
from testbed.onhost.communication.control import AGENT_GONE, LeaveOrder
from testbed.onhost.communication.handshake import connect_neighbours
from testbed.onhost.communication.rank_identity import RankIdentity
from testbed.onhost.communication.ring import Ring
from testbed.onhost.communication.sockets import Port, listen
from testbed.onhost.jobs.model import Shape
from tests.unit.onhost.rank_driver import TOKEN, Gang
from tests.unit.onhost.undisturbed import SIZE, TRAIN, ends_undisturbed, reference

WRONG = str(Path(__file__).with_name("wrong_rank.py"))


def reach(gang: Gang, step: int) -> None:
    """Wait until every member has done a step."""
    gang.hear("step", step=step)


def test_four_ranks_train_to_the_same_parameters_as_one_process(gang):
    job = gang("train", TRAIN, 4)
    job.tell("finish", after_step=4)
    job.join(1)
    ends_undisturbed(job, 5)
    _, losses = reference(4, 5)
    for member in job.members:
        steps = member.of_kind("step")
        assert [event["step"] for event in steps] == list(range(5))
        assert [event["loss"] for event in steps] == losses
        assert all(event["verified"] for event in steps)
    digests = [[event["digest"] for event in member.of_kind("step")] for member in job.members]
    assert digests == [digests[0]] * 4
    assert len(set(digests[0])) == 5


def test_step_events_carry_the_monotonic_clock_of_the_host(gang):
    job = gang("train", TRAIN, 2)
    before = time.monotonic()
    job.tell("finish", after_step=1)
    job.join(1)
    job.hear("done")
    after = time.monotonic()
    for event in job.members[0].of_kind("step"):
        begin, end = event["collective"]
        assert before < event["begin"] < begin < end < event["end"] == event["mono"] < after


def test_a_spare_takes_over_from_a_rank_that_stopped_in_the_middle(gang):
    job = gang("train", TRAIN, 4)
    job.join(1)
    reach(job, 3)
    victim = job.members[2]
    victim.process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)  # far more than a step: the others now wait for it inside a collective
    survivors = [job.members[rank] for rank in (0, 1, 3)]
    told = time.monotonic()
    for member in survivors:
        member.tell("leave", generation=1)
    left = [member.hear("left", generation=1) for member in survivors]
    assert max(event["mono"] for event in left) - told < 0.2
    assert all(event["started"] for event in left)
    committed = [event["committed"] for event in left]
    assert max(committed) - min(committed) <= 1

    step = min(committed)
    job.replace(2)
    job.tell("finish", after_step=step + 8)
    job.join(2, step=step, restore={"2": 1})
    restored = job.hear("restored", generation=2, step=step)
    assert [event["bytes"] > 0 for event in restored] == [False, False, True, False]
    victim.process.send_signal(signal.SIGCONT)  # it wakes up, and nobody listens to it
    ends_undisturbed(job, step + 9)


def test_ranks_go_back_by_one_step_when_a_generation_begins_at_an_earlier_step(gang):
    job = gang("train", TRAIN, 3)
    job.tell("finish", after_step=4)
    job.join(1)
    job.hear("done")
    job.tell("leave", generation=1)
    assert [event["committed"] for event in job.hear("left")] == [5, 5, 5]
    job.join(2, step=4)
    assert [event["bytes"] for event in job.hear("restored", step=4)] == [0, 0, 0]
    ends_undisturbed(job, 5)
    assert [event["generation"] for event in job.members[0].of_kind("step")][-2:] == [1, 2]


def test_two_adjacent_spares_are_restored_in_turn(gang):
    job = gang("train", TRAIN, 4)
    job.tell("finish", after_step=2)
    job.join(1)
    job.hear("done")
    job.tell("leave", generation=1)
    job.hear("left")
    job.replace(1)
    job.replace(2)
    job.tell("finish", after_step=6)
    job.join(2, step=3, restore={"1": 0, "2": 1})
    ends_undisturbed(job, 7)


@pytest.mark.parametrize("ranks", [3, 4])
def test_survivors_train_on_with_all_the_sequences_of_a_step(gang, ranks):
    """Of four ranks with two sequences each, three remain, which have three, three and two."""
    job = gang("train", TRAIN, ranks)
    later = {}
    for generation in range(1, ranks):
        done = 2 * generation
        job.tell("finish", after_step=done - 1)
        job.join(generation, step=done - 2)
        state, losses = reference(ranks, done, later)
        heard = job.hear("done", step=done)
        assert {event["digest"] for event in heard} == {state.sha256()}
        assert {event["loss"] for event in heard} == {losses[-1]}
        job.tell("leave", generation=generation)
        job.hear("left")
        job.drop(1)
        later[done] = len(job.members)


def test_the_neighbours_of_a_killed_rank_report_it_and_still_leave(gang):
    job = gang("train", TRAIN, 4)
    job.join(1)
    reach(job, 1)
    job.members[2].process.kill()
    assert job.members[1].hear("peer-lost", generation=1)["neighbour"] == "next"
    assert job.members[3].hear("peer-lost", generation=1)["neighbour"] == "previous"
    for rank in (0, 1, 3):
        job.members[rank].tell("leave", generation=1)
        assert job.members[rank].hear("left")["started"]


def test_a_rank_that_waits_for_its_neighbours_can_leave(gang):
    job = gang("train", TRAIN, 2)
    job.join(1, absent=[1])
    job.members[0].tell("leave", generation=1)
    left = job.members[0].hear("left", generation=1)
    assert (left["committed"], left["started"]) == (0, False)
    assert not job.members[0].of_kind("generation")


def test_ranks_leave_a_generation_during_their_computation(gang):
    job = gang("train", {**TRAIN, "dim": 192, "heads": 6, "hidden": 512, "sequence": 64}, 2)
    step = 0
    for generation in range(1, 6):
        job.join(generation, step=step)
        job.hear("step")
        told = time.monotonic()
        job.tell("leave", generation=generation)
        left = job.hear("left", generation=generation)
        assert max(event["mono"] for event in left) - told < 0.2
        step = min(event["committed"] for event in left)
    job.join(6, step=step)
    first, second = job.hear("step", generation=6, step=step)
    assert first["digest"] == second["digest"]


def test_a_rank_that_was_in_no_generation_can_leave_it(gang):
    job = gang("train", TRAIN, 1)
    job.tell("leave", generation=4)
    assert job.hear("left")[0]["generation"] == 4


def test_an_unknown_command_to_a_rank_is_refused(gang):
    job = gang("train", TRAIN, 1)
    job.tell("dance")
    assert job.hear("refused")[0]["do"] == "dance"


def test_queued_commands_are_executed_one_after_the_other(gang):
    job = gang("train", TRAIN, 2)
    job.tell("finish", after_step=3)
    for generation in (1, 2, 3):
        job.join(generation)
        job.tell("leave", generation=generation)
    job.join(4)
    ends_undisturbed(job, 4)
    for member in job.members:
        assert [event["generation"] for event in member.of_kind("left")] == [1, 2, 3]


def test_a_rank_past_its_last_step_refuses_to_finish_and_goes_on(gang):
    job = gang("train", TRAIN, 1)
    job.join(1)
    reach(job, 3)
    job.tell("finish", after_step=0)
    refused = job.hear("refused")[0]
    assert refused["do"] == "finish"
    assert "step 0 is over" in refused["why"]
    job.hear("step")


def test_joining_at_a_step_whose_state_is_not_kept_is_refused(gang):
    job = gang("train", TRAIN, 2)
    job.join(1, step=9)
    assert all("before step 9 is not stored" in event["why"] for event in job.hear("refused"))
    job.tell("leave", generation=1)
    job.hear("left")
    job.join(2)
    reach(job, 0)


@pytest.mark.parametrize(("ranks", "restore"), [(2, {"0": 1, "1": 0}), (3, {"1": 2})])
def test_an_impossible_state_transfer_between_ranks_is_refused(gang, ranks, restore):
    job = gang("train", TRAIN, ranks)
    job.join(1, restore=restore)
    assert "cannot be restored from" in job.members[1].hear("refused")["why"]


def test_a_wrong_sum_stops_the_rank_and_is_reported(gang):
    """The second rank of this ring is the test itself, and it adds nothing but zeros."""
    job = gang("train", TRAIN, 1)
    member, leave, port = job.members[0], LeaveOrder(), Port(None, "127.0.0.1")
    with listen(port) as listener:
        ready = member.of_kind("ready")[0]
        places = [(ready["address"], ready["port"]), listener.getsockname()]
        members = [{"rank": r, "address": a, "port": p} for r, (a, p) in enumerate(places)]
        member.tell("join", generation=1, members=members, step=0, restore={}, probe=False)
        identity = RankIdentity(TOKEN, 1, 1, 2)
        pair = connect_neighbours((listener,), (port, places[0]), identity, leave)
        connections = PeerConnections(pair, 1, leave)
        width = -(-(Shape(**SIZE).parameters + 1) // 2) + 2 * 2  # and what is said of two blocks
        Ring(1, 2, connections).all_reduce(np.zeros(2 * (width + 1), np.float32))
        corrupt = member.hear("corrupt", generation=1, step=0)
        connections.close()
    leave.close()
    assert "the sentinel of chunk 0" in corrupt["why"]
    member.tell("leave", generation=1)
    assert member.hear("left")["committed"] == 0


def test_value_that_differs_from_its_checksum_is_found_by_all_ranks(gang):
    """The sum is the same on all ranks, and wrong in one element: only what was said tells."""
    job = gang("train", TRAIN, 3)
    with job.taken(1, by=job.start([WRONG, "--step", "2"])):
        job.join(1)
        for member in job.members:
            corrupt = member.hear("corrupt", generation=1)
            assert corrupt["step"] >= 2
            assert re.search(
                r"in step \d+ elements 0 to 4095 .* the ranks' contributions add up to",
                corrupt["why"],
            )
            assert {event["step"] for event in member.of_kind("step")} >= {0, 1}


def test_a_rank_probes_its_links_before_the_first_step(gang):
    job = gang("train", TRAIN, 2)
    job.join(1, probe=True)
    for event in job.hear("probe", generation=1):
        assert event["long_bytes"] / event["long_seconds"] > 1e6
        assert event["short_bytes"] / event["short_seconds"] > 1e5
    reach(job, 0)
    for member in job.members:
        said = [event["event"] for event in member.events]
        assert said.index("probe") < said.index("step")


def test_ranks_that_are_held_after_their_probes_begin_their_steps_when_told(gang):
    job = gang("allreduce", {"sizes": [400], "iterations": 3, "warmup": 0}, 2)
    job.join(1, probe=True, held=True)
    job.hear("probe", generation=1)
    job.tell("begin", generation=0)
    time.sleep(0.2)
    assert not [e for member in job.members for e in member.events if e["event"] == "sample"]
    job.tell("begin", generation=1)
    job.hear("done", step=3)


def test_ranks_that_are_held_leave_when_told(gang):
    job = gang("allreduce", {"sizes": [400], "iterations": 3, "warmup": 0}, 2)
    job.join(1, probe=True, held=True)
    job.hear("probe", generation=1)
    job.tell("leave", generation=1)
    job.hear("left", generation=1, started=False)


def test_the_allreduce_job_reports_every_iteration_and_ends(gang):
    job = gang("allreduce", {"sizes": [4, 4000, 400_000], "iterations": 3, "warmup": 1}, 3)
    job.join(1)
    job.hear("done", step=9, loss=None)
    for member in job.members:
        samples = member.of_kind("sample")
        assert [(sample["size"], sample["iteration"]) for sample in samples] == [
            (size, iteration) for size in (4, 4000, 400_000) for iteration in range(3)
        ]
        assert all(sample["verified"] and sample["begin"] < sample["end"] for sample in samples)


def test_the_allreduce_job_resumes_at_its_last_iteration(gang):
    job = gang("allreduce", {"sizes": [400, 800], "iterations": 5, "warmup": 1}, 2)
    job.tell("finish", after_step=6)
    job.join(1)
    job.hear("done", step=7)
    job.tell("leave", generation=1)
    job.hear("left", committed=7)
    job.replace(1)
    job.tell("finish", after_step=8)
    job.join(2, step=7, restore={"1": 0})
    job.hear("done", step=9)
    samples = job.members[1].of_kind("sample")
    assert [(sample["step"], sample["size"]) for sample in samples] == [(7, 800), (8, 800)]


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("train", {"dmi": 3}, "dmi"),
        ("train", {"heads": 5}, "5 heads"),
        ("no_such_job", {}, "no_such_job"),
        ("rank", {}, "Job"),
        ("allreduce", {"sizes": [3]}, "3 bytes"),
    ],
)
def test_a_job_that_cannot_be_built_fails_before_it_is_ready(gang, kind, options, why):
    job = gang(kind, options, 0)
    member = job.start()
    with pytest.raises(AssertionError, match="closed its line"):
        job.configure(member, 0)
    assert why in member.of_kind("failed")[0]["why"]
    assert member.process.wait(5) == 1


def test_a_rank_reports_four_times_per_heartbeat_until_it_is_stopped(gang):
    member = gang("train", TRAIN, 1).members[0]
    stamps = [member.hear("alive")["mono"] for _ in range(8)]
    assert np.median(np.diff(stamps)) == pytest.approx(0.05, abs=0.02)
    member.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, member.process.pid, os.WSTOPPED)
    with pytest.raises(AssertionError, match="no alive"):
        while True:
            member.hear("alive", patience=0.2)


def test_the_command_exit_ends_a_rank_in_any_state(gang):
    job = gang("train", TRAIN, 2)
    job.join(1)
    reach(job, 0)
    job.tell("exit")
    assert [member.process.wait(5) for member in job.members] == [0, 0]


def test_a_rank_without_an_agent_ends(gang):
    job = gang("train", TRAIN, 2)
    job.join(1, absent=[1])
    for member in job.members:
        member.line.close()
    assert [member.process.wait(5) for member in job.members] == [AGENT_GONE, AGENT_GONE]


def test_a_rank_runs_from_an_archive_in_memory(gang):
    memory = os.memfd_create("bundle")
    os.write(memory, bundle())
    job = gang("train", TRAIN, 0)
    member = job.start([f"/proc/self/fd/{memory}"], [memory])
    os.close(memory)
    assert job.configure(member, 0)["state_bytes"] > 0
    member.tell("exit")
    assert member.process.wait(5) == 0
