"""The simulation: what can be worked out by hand comes out, and short cuts change nothing."""

from __future__ import annotations

import pytest

from testbed.plugins import kinds
from testbed.tenancy.attributes import constraints
from testbed.tenancy.settings import Settings
from testbed.tenancy.simulated import SimulatedClient
from testbed.tenancy.simulation import _Simulation, simulate
from testbed.tenancy.traces import ClientTrace, Population, Trace, generate
from testbed.tenancy.waiting import Rotation
from testbed.tenancy.workload import JobSpec, Mix, draw_jobs

METHODS = tuple(kinds("scheduling_policies"))
DAY = 86_400_000
WHOLE = ((0, DAY),)


def run(clients, jobs, method="fifo", seed=1, period=DAY, **settings):
    kind = kinds("scheduling_policies")[method]
    made = kind.load()(kind.options())
    return simulate(
        Trace(period, tuple(clients)), jobs, kind.role, made, seed, Settings(**settings)
    )


def client(name, available=WHOLE, rate=1_000.0, samples=100, **attributes):
    return ClientTrace(name, available, 50.0, rate, samples, attributes)


def job(name="j", rounds=1, demand=2, asked=2, arrival=0.0, public=(), **least):
    return JobSpec(name, arrival, rounds, demand, asked, public, constraints(least), 100, 10_000.0)


TASK = 3 * 100 * 0.050 + 2 * 10_000 / 1_000
"""Seconds that a client of the default rate works."""


def test_two_waiting_clients_serve_three_successive_rounds():
    outcome = run([client("a"), client("b")], [job(rounds=3)])
    (only,) = outcome.jobs
    # At the beginning both wait, ask at 10 s and accept half a second later. Then one ends a round
    # with its result and asks at once, and the other, which has just asked in vain, 10 s later.
    assert only.rounds == 3
    assert only.response == pytest.approx(TASK)
    assert only.scheduling == pytest.approx(10.5)
    assert only.finished == pytest.approx(3 * (10.5 + TASK))
    assert outcome.working == pytest.approx(6 * TASK)
    assert outcome.useful == pytest.approx(6 * TASK)
    assert outcome.utilisation == pytest.approx(outcome.working / (2 * outcome.ended))
    assert (outcome.bound, outcome.over_assigned, outcome.late) == (6, 0, 0)


def test_a_client_that_is_too_late_is_over_assigned_and_takes_the_next_offer():
    clients = [client(f"c{n}") for n in range(3)]
    outcome = run(clients, [job("first"), job("second", demand=1, asked=1, arrival=0.001)])
    assert outcome.bound == 3
    assert outcome.over_assigned == 1
    first, second = outcome.jobs
    assert first.scheduling == pytest.approx(10.5)
    assert second.scheduling == pytest.approx(11.0 - 0.001)  # one round trip later
    assert outcome.over_assign_rate == pytest.approx(1 / 4)


def test_a_client_takes_part_in_a_round_only_once_even_if_the_demand_is_not_met():
    clients = [client("a"), client("late", ((500_000, DAY),))]
    outcome = run(clients, [job(demand=2)])
    assert outcome.jobs[0].scheduling == pytest.approx(500.5)
    assert outcome.bound == 2


def test_a_round_ends_when_it_has_the_results_that_it_needs():
    clients = [client("a"), client("b"), client("slow", rate=10.0)]
    outcome = run(clients, [job(demand=2, asked=3)])
    assert outcome.jobs[0].finished == pytest.approx(10.5 + TASK)
    assert outcome.useful == pytest.approx(2 * TASK)
    assert outcome.working == pytest.approx(3 * TASK)


def test_a_round_with_a_vanished_client_ends_at_its_deadline():
    clients = [client("a"), client("gone", ((0, 20_000),))]
    outcome = run(clients, [job()], deadline=300.0)
    (only,) = outcome.jobs
    assert only.finished == pytest.approx(10.5 + 300)
    assert (only.rounds, only.short_rounds, outcome.vanished) == (1, 1, 1)
    assert outcome.working == pytest.approx(TASK + 9.5)
    assert outcome.available == pytest.approx(310.5 + 20)


def test_a_job_ends_a_request_that_is_not_filled_in_time():
    outcome = run([client("a")], [job()], patience=100.0, deadline=50.0)
    (only,) = outcome.jobs
    assert only.finished == pytest.approx(150.0)
    assert (only.rounds, only.short_rounds) == (1, 1)


def test_a_round_without_any_result_is_repeated():
    outcome = run([client("poor", samples=1)], [job(samples=2.0)], patience=1000.0, horizon=1e5)
    assert outcome.unfinished == 1
    assert outcome.jobs[0].rounds == 0
    assert outcome.ended == 1e5
    assert outcome.mean_completion_time == 1e5
    assert outcome.bound == 0


def test_utilisation_counts_from_the_arrival_of_the_first_job():
    outcome = run([client("a"), client("b")], [job(arrival=500.0), job("later", arrival=600.0)])
    assert outcome.available == pytest.approx(2 * (outcome.ended - 500.0))
    assert outcome.working == pytest.approx(4 * TASK)


def test_a_job_that_waits_for_hours_is_not_pruned():
    outcome = run([client("a"), client("b", ((40_000_000, DAY),))], [job()])
    assert outcome.jobs[0].scheduling == pytest.approx(40_000.5)


def test_clients_that_do_not_meet_the_constraints_are_never_bound():
    high = constraints({"ram": 4.0})
    clients = [client("small", ram=1.0), client("large", ram=4.0), client("poor", samples=1, ram=9)]
    for method in METHODS:
        if method == "static-partition":
            continue
        outcome = run(clients, [job(demand=1, asked=1, public=high, samples=50.0)], method)
        assert outcome.bound == 1, method
        assert outcome.unfinished == 0, method


@pytest.mark.parametrize("method", METHODS)
def test_every_scheduling_method_satisfies_the_invariants(method):
    trace = generate(Population(clients=300), 11)
    jobs = draw_jobs(Mix(5, 200.0, (2, 3), demand=(10, 30)), 11)
    outcome = run(trace.clients, jobs, method, period=trace.period, horizon=3e5)
    assert outcome == run(trace.clients, jobs, method, period=trace.period, horizon=3e5)
    assert 0 < outcome.useful <= outcome.working <= outcome.available
    assert outcome.available <= 300 * outcome.ended
    for job, done in zip(jobs, outcome.jobs, strict=True):
        assert done.rounds <= job.rounds
        assert (done.finished is None) == (done.rounds < job.rounds)
    least = sum(done.rounds - done.short_rounds for done in outcome.jobs)
    assert outcome.bound >= least
    assert (outcome.wasted > 0) == (method == "random-selection")


def test_all_scheduling_methods_give_equal_results_for_a_single_job():
    trace = generate(Population(clients=400), 12)
    jobs = draw_jobs(Mix(1, 0.0, (4, 4), demand=(20, 20)), 12)
    ends = {
        method: run(trace.clients, jobs, method, period=trace.period).jobs[0].finished
        for method in ("fifo", "random", "srsf")
    }
    assert len(set(ends.values())) == 1
    offline = [
        run(trace.clients, jobs, method, period=trace.period).jobs[0].finished
        for method in ("fifo-offline", "irs")
    ]
    assert offline[0] == offline[1] == pytest.approx(ends["fifo"], abs=4 * 3.5 + 20)


class Exhaustive(_Simulation):
    """Every client that waits asks every time, whether there is anything to be had or not."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._decider.draws_each_time = True
        self._decider.may_offer = lambda kind: True


@pytest.mark.parametrize("method", ["fifo", "random", "srsf"])
def test_skipping_requests_that_cannot_be_served_changes_no_result(method):
    trace = generate(Population(clients=60, session=900.0, gap=900.0), 13)
    jobs = draw_jobs(Mix(4, 200.0, (2, 3), demand=(4, 8)), 13)
    kind = kinds("scheduling_policies")[method]
    arguments = trace, jobs, kind.role, kind.load()(None), 1, Settings(horizon=3e4)
    short, whole = _Simulation(*arguments).run(), Exhaustive(*arguments).run()
    assert short.events < whole.events / 3
    assert (short.bound, short.over_assigned) == (whole.bound, whole.over_assigned)
    assert short.working == pytest.approx(whole.working)
    for one, other in zip(short.jobs, whole.jobs, strict=True):
        assert one.finished == pytest.approx(other.finished)
        assert one.scheduling == pytest.approx(other.scheduling)


def sessions(spans, period, until):
    made = SimulatedClient(0, client("a", spans), period)
    found, now = [], 0.0
    while now < until:
        session = made.next_session(now)
        if session is None:
            break
        found.append(session)
        now = session[1]
    return found


def test_the_availability_of_clients_repeats_and_continues_over_the_end_of_a_period():
    assert sessions(((1_000, 2_000),), 10, 25) == [(1, 2), (11, 12), (21, 22), (31, 32)]
    assert sessions(((0, 2_000), (8_000, 10_000)), 10, 25) == [(0, 2), (8, 12), (18, 22), (28, 32)]
    assert sessions(((0, 10_000),), 10, 25) == [(0.0, float("inf"))]
    assert sessions((), 10, 25) == []


def test_each_waiting_client_asks_for_offers_at_its_own_period():
    rotation = Rotation(10.0)
    assert rotation.next(5.0) is None
    for place in ((1.0, 1), (4.0, 2), (4.0, 3)):
        rotation.add(place)
    assert rotation.next(22.0) == (24.0, (4.0, 2))
    assert rotation.next(24.0, (4.0, 2)) == (24.0, (4.0, 3))
    assert rotation.next(24.0, (4.0, 3)) == (31.0, (1.0, 1))
    assert rotation.discard((4.0, 2))
    assert not rotation.discard((4.0, 2))
    rotation.park((2.0, 4))
    assert sorted(rotation.waiting()) == [1, 3, 4]
    assert rotation.next(22.0) == (24.0, (4.0, 3))
    rotation.unpark()
    assert rotation.next(22.0, (1.0, 1)) == (23.0, (2.0, 4))
    rotation.park((3.0, 5))
    assert not rotation.discard((3.0, 5))
    assert sorted(rotation.waiting()) == [1, 3, 4]


def test_tiers_and_regions_are_used_in_a_contended_simulation():
    trace = generate(Population(clients=250), 14)
    jobs = draw_jobs(Mix(6, 60.0, (2, 3), demand=(15, 25)), 14)
    results = {
        method: run(trace.clients, jobs, method, period=trace.period)
        for method in ("fifo-offline", "irs", "irs-tiers")
    }
    assert len({outcome.mean_completion_time for outcome in results.values()}) == 3
    assert all(outcome.unfinished == 0 for outcome in results.values())
