"""Binding holds its rules however the messages of jobs and clients interleave."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.tenancy import clients, jobs
from testbed.tenancy.attributes import constraints
from testbed.tenancy.binding import accept
from testbed.tenancy.replies import Reply
from tests.unit.tenancy.plane import PUBLIC, RAM, Plane

OF_JOBS = st.one_of(
    st.tuples(st.just("request"), st.sampled_from(sorted(PUBLIC)), st.integers(1, 3)),
    st.tuples(st.sampled_from(["end", "finish"]), st.sampled_from(sorted(PUBLIC))),
)
OF_CLIENTS = st.tuples(
    st.sampled_from(["check_in", "read", "take", "take", "again", "release"]),
    st.sampled_from(sorted(RAM)),
)
OF_TIME = st.tuples(st.just("pass_time"), st.sampled_from([1.0, 600.0]))
MESSAGES = st.lists(st.one_of(OF_JOBS, OF_CLIENTS, OF_CLIENTS, OF_CLIENTS, OF_TIME), max_size=60)


def play(messages):
    plane = Plane()
    for name in RAM:
        plane.check_in(name)
    for what, *arguments in messages:
        getattr(plane, what)(*arguments)
        plane.check()
    return plane


@given(MESSAGES)
def test_no_demand_is_exceeded_and_no_client_bound_twice(messages):
    play(messages)


@pytest.mark.soak
@settings(max_examples=3_000)
@given(MESSAGES)
def test_no_demand_is_exceeded_and_no_client_bound_twice_in_3000_interleavings(messages):
    play(messages)


SCRIPTS = {
    "x": (("read", "x"), ("take", "x")),
    "y": (("read", "y"), ("take", "y"), ("again", "y")),
    "z": (("read", "z"), ("take", "z"), ("take", "z")),
    "c": (("end", "c"), ("request", "c", 1)),
}


def interleavings(left):
    """Yield every order of the messages that keeps each sender's own."""
    if not any(left.values()):
        yield ()
    for name, script in left.items():
        if script:
            for rest in interleavings({**left, name: script[1:]}):
                yield script[0], *rest


@pytest.mark.soak
def test_no_interleaving_of_three_clients_and_a_job_exceeds_the_demand():
    seen = Counter()
    begin = ("request", "c", 1), ("request", "b", 1)
    for messages in interleavings(SCRIPTS):
        seen.update(play((*begin, *messages)).replies)
    assert {Reply.OK, Reply.OVER_ASSIGN, Reply.STALE_ROUND} <= set(seen)


def test_a_binding_that_is_not_atomic_exceeds_the_demand():
    """The rules hold only where the records are read and written as one act."""
    plane = Plane()
    plane.request("c", 1)
    for name in "xy":
        plane.check_in(name)
    read = {name: (plane.jobs["c"], plane.clients[name]) for name in "xy"}
    for name, (job, client) in read.items():
        reply, plane.jobs["c"], plane.clients[name] = accept(job, client, 1, plane.now)
        assert reply is Reply.OK
        plane.told.append((name, "c", 1, 1))
    with pytest.raises(AssertionError):
        plane.check()


def job(demand=2, public=(), phase="open"):
    _, made = jobs.register("j", public, (), 3, demand, 0.0)
    if phase != "idle":
        _, made = jobs.request(made, 1, demand, 10.0, 0.5)
    return made


def client(name="x", now=10.0, **attributes):
    return clients.check_in(None, name, attributes, 2.0, now)[1]


def bind(job, *names, round=1, now=11.0):
    for name in names:
        reply, job, _ = accept(job, client(name), round, now)
        assert reply is Reply.OK
    return job


def test_the_last_client_of_a_round_starts_its_execution():
    one = bind(job(), "x")
    assert (one.phase, one.amount, one.filled) == (jobs.Phase.OPEN, 1, None)
    two = bind(one, "y", now=12.0)
    assert (two.phase, two.amount, two.filled) == (jobs.Phase.EXECUTING, 2, 12.0)


@pytest.mark.parametrize(
    ("answer", "given_job", "given_client", "round"),
    [
        (Reply.UNKNOWN, job(), None, 1),
        (Reply.UNKNOWN, job(), client(now=-1000.0), 1),
        (Reply.NOT_OPEN, None, client(), 1),
        (Reply.NOT_OPEN, jobs.finish(job(), 10.0)[1], client(), 1),
        (Reply.NOT_OPEN, jobs.end_request(job(), 1, 10.0)[1], client(), 1),
        (Reply.STALE_ROUND, job(), client(), 2),
        (Reply.STALE_ROUND, job(phase="idle"), client(), 1),
        (Reply.NOT_ELIGIBLE, job(public=constraints({"ram": 2.0})), client(ram=1.0), 1),
        (Reply.SERVED, bind(job(), "x"), client("x"), 1),
        (Reply.OVER_ASSIGN, bind(job(), "x", "y"), client("z"), 1),
        (Reply.BOUND, job(), accept(job(), client(), 1, 11.0)[2], 2),
    ],
)
def test_a_refused_binding_states_the_reason_and_changes_no_job(
    answer, given_job, given_client, round
):
    reply, after, known = accept(given_job, given_client, round, 11.0)
    assert reply is answer
    assert after == given_job
    if given_client is not None and answer is not Reply.UNKNOWN:
        assert (known.job, known.heard) == (given_client.job, 11.0)


def test_an_acceptance_that_is_repeated_is_answered_the_same_and_counted_once():
    reply, once, bound = accept(job(), client(), 1, 11.0)
    again, twice, same = accept(once, bound, 1, 12.0)
    assert (reply, again) == (Reply.OK, Reply.OK)
    assert twice == once
    assert (same.job, same.round) == ("j", 1)


def test_a_job_that_was_silent_too_long_binds_no_client():
    late = 10.0 + jobs.SILENCE
    reply, after, _ = accept(job(), client(now=late), 1, late)
    assert (reply, after.phase) == (Reply.NOT_OPEN, jobs.Phase.PRUNED)
