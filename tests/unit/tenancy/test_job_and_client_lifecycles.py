"""The lives of jobs and clients: answers, time-outs, repetitions."""

from __future__ import annotations

import pytest

from testbed.tenancy import clients, jobs
from testbed.tenancy.attributes import constraints
from testbed.tenancy.binding import accept
from testbed.tenancy.jobs import Offer, Phase
from testbed.tenancy.replies import Reply
from testbed.tenancy.requests import LastRound, Request


def registered(**changes):
    given = {"id": "j", "public": (), "private": (), "rounds": 3, "demand": 2, "now": 0.0}
    reply, job = jobs.register(**(given | changes))
    return reply, job


def opened(round=1, demand=2, now=10.0, job=None):
    reply, job = jobs.request(job or registered()[1], round, demand, now)
    assert reply is Reply.OK
    return job


@pytest.mark.parametrize("wrong", [{"id": ""}, {"rounds": 0}, {"demand": 0}, {"done": -1}])
def test_a_job_without_a_name_a_round_or_a_client_is_refused(wrong):
    assert registered(**wrong) == (Reply.REFUSED, None)


def test_the_name_of_a_finished_job_can_be_reused():
    _, first = registered()
    assert registered(known=first) == (Reply.OK, first)  # a repetition
    assert registered(known=first, rounds=4) == (Reply.REFUSED, first)
    assert registered(known=opened(job=first))[0] is Reply.REFUSED
    _, over = jobs.finish(first, 5.0)
    reply, second = registered(known=over, now=9.0)
    assert (reply, second.registered) == (Reply.OK, 9.0)


def test_a_job_that_registers_again_goes_on_behind_its_last_round():
    _, job = registered(done=4)
    assert (job.round, job.phase, job.rounds) == (4, Phase.IDLE, 3)
    assert registered(known=job, done=4) == (Reply.OK, job)  # a repetition
    assert registered(known=job, done=3) == (Reply.REFUSED, job)
    assert jobs.request(job, 4, 2, 1.0)[0] is Reply.STALE_ROUND
    assert opened(5, job=job).round == 5


def test_rounds_are_consecutive_and_each_begins_without_clients():
    first = opened()
    assert (first.phase, first.round, first.demand, first.amount) == (Phase.OPEN, 1, 2, 0)
    assert jobs.request(first, 1, 2, 11.0) == (Reply.OK, _heard(first, 11.0))  # a repetition
    assert jobs.request(first, 1, 3, 11.0)[0] is Reply.STALE_ROUND
    assert jobs.request(first, 3, 2, 11.0)[0] is Reply.STALE_ROUND
    assert jobs.request(first, 2, 2, 11.0)[0] is Reply.STILL_OPEN
    _, bound, _ = accept(first, client(), 1, 12.0)
    reply, ended = jobs.end_request(bound, 1, 13.0)
    assert (reply, ended.phase, ended.amount) == (Reply.OK, Phase.EXECUTING, 1)
    assert jobs.request(ended, 2, 0, 14.0)[0] is Reply.REFUSED
    second = opened(2, 1, 14.0, ended)
    assert (second.phase, second.round, second.amount, second.last) == (Phase.OPEN, 2, 0, None)


def _heard(job, now):
    return jobs.hear(job, now)[1]


def client(name="x", now=10.0, speed=2.0):
    return clients.check_in(None, name, {}, speed, now)[1]


def test_the_next_round_knows_the_duration_and_slowest_response_of_the_last_one():
    job = opened(demand=2, now=10.0)
    for name, speed, now in (("x", 2.0, 12.0), ("y", 0.5, 15.0)):
        _, job, _ = accept(job, client(name, speed=speed), 1, now)
    after = opened(2, 1, 40.0, job)
    assert after.last == LastRound(scheduling=5.0, response=25.0, slowest=0.5)
    assert after.as_request() == Request("j", (), 0.0, 1, 0, 0.0, 0.0, after.last)


def test_ending_a_request_is_about_the_present_round_and_may_be_repeated():
    job = opened()
    assert jobs.end_request(job, 2, 11.0)[0] is Reply.STALE_ROUND
    _, ended = jobs.end_request(job, 1, 11.0)
    assert jobs.end_request(ended, 1, 11.0) == (Reply.OK, ended)


def test_a_job_that_is_silent_for_half_an_hour_is_pruned_and_stays_so():
    job = opened(now=10.0)
    assert jobs.prune(job, 10.0 + jobs.SILENCE - 1) is job
    pruned = jobs.prune(job, 10.0 + jobs.SILENCE)
    assert pruned.phase is Phase.PRUNED
    for answer in (
        jobs.request(pruned, 2, 1, 2000.0),
        jobs.end_request(pruned, 1, 2000.0),
        jobs.finish(pruned, 2000.0),
        jobs.hear(pruned, 2000.0),
    ):
        assert answer == (Reply.NOT_OPEN, pruned)
    _, over = jobs.finish(job, 11.0)
    assert jobs.prune(over, 1e9) is over
    assert jobs.finish(over, 12.0)[0] is Reply.OK


def test_every_request_of_a_job_keeps_it_alive_and_its_record_for_a_week():
    job = opened(now=10.0)
    for _, later in (
        jobs.hear(job, 1000.0),
        jobs.request(job, 7, 1, 1000.0),
        jobs.end_request(job, 1, 1000.0),
    ):
        assert jobs.prune(later, 1000.0 + jobs.SILENCE - 1) is later
        assert not jobs.is_forgotten(later, 1000.0 + jobs.JOB_LIFE - 1)
        assert jobs.is_forgotten(later, 1000.0 + jobs.JOB_LIFE)


def test_a_clients_record_expires_after_1000_s_and_it_is_available_for_25_s():
    known = client(now=0.0)
    assert clients.is_waiting(known, 24.9)
    assert not clients.is_waiting(known, 25.0)
    assert clients.ping(known, 999.0)[1].heard == 999.0
    assert clients.ping(known, 1000.0) == (Reply.UNKNOWN, None)
    assert clients.ping(None, 0.0) == (Reply.UNKNOWN, None)


def test_a_bound_client_that_checks_in_is_told_its_job_until_its_record_expires():
    _, _, bound = accept(opened(), client(), 1, 11.0)
    assert not clients.is_waiting(bound, 11.0)
    reply, same = clients.check_in(bound, "x", {}, 2.0, 500.0)
    assert (reply, same.job, same.round) == (Reply.BOUND, "j", 1)
    reply, fresh = clients.check_in(bound, "x", {}, 2.0, 1011.0)
    assert (reply, fresh.is_bound) == (Reply.OK, False)


def test_a_client_can_be_released_only_from_the_round_to_which_it_is_bound():
    _, _, bound = accept(opened(), client(), 1, 11.0)
    assert clients.release(bound, "j", 2, 12.0)[0] is Reply.STALE_ROUND
    reply, free = clients.release(bound, "j", 1, 12.0)
    assert (reply, free.is_bound) == (Reply.OK, False)
    assert clients.release(free, "j", 1, 13.0)[0] is Reply.OK  # a repetition
    assert clients.release(bound, "j", 1, 2000.0) == (Reply.UNKNOWN, None)


def test_private_constraints_are_evaluated_by_the_client():
    offer = Offer("j", 1, constraints({"samples": 100.0}))
    assert offer.suits({"samples": 100.0})
    assert not offer.suits({"samples": 99.0})
    assert not offer.suits({})
    assert "samples" not in client().attributes
