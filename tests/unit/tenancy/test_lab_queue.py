"""The queue of a lab in virtual time: never two owners, no starvation, and how soon all is done."""

from dataclasses import replace
from itertools import permutations
from statistics import median

import pytest

from testbed.errors import UsageError
from testbed.tenancy.lab_orders import MAKESPAN, lab_policy, policy_names
from testbed.tenancy.lab_queue import (
    PATIENCE,
    Busy,
    Line,
    Move,
    Waiting,
    line_up,
    planned_starts,
    starting,
)
from testbed.tenancy.lab_replay import Experiment, figures, replay
from tests.unit.tenancy.lab_mixes import best_of_lists, list_schedule, makespan, mix, optimum

FIFO = lab_policy("fifo")


def waiting(name, needs, arrived=0.0, expected=60.0, **more):
    return Waiting(name, needs, arrived, expected, **more)


def names(entries):
    return [one.name for one in entries]


def test_disjoint_experiments_start_side_by_side_and_overlapping_ones_in_order():
    line = Line([waiting("a", 0b011), waiting("b", 0b110), waiting("c", 0b100)])
    assert names(starting(line, [], 0.0)) == ["a", "c"]
    assert names(starting(line, [Busy(0b001, 50.0)], 0.0)) == ["b"]


def test_when_each_would_start_follows_from_what_is_busy_and_what_comes_before():
    line = [waiting("a", 0b011, expected=60.0), waiting("b", 0b110, expected=5.0)]
    line += [waiting("c", 0b100, expected=30.0), waiting("d", 0b1000)]
    busy = [Busy(0b001, 50.0), Busy(0b100, 20.0)]
    starts = planned_starts(Line(line), busy, 40.0)
    assert starts == {"a": 50.0, "b": 40.0, "c": 45.0, "d": 40.0}
    kept = planned_starts(Line(line, line[0]), busy, 40.0)
    assert kept == {"a": 50.0, "b": 40.0, "c": 45.0, "d": 40.0}, "b has ended when a can start"
    slow = [line[0], waiting("b", 0b110, expected=11.0), *line[2:]]
    assert planned_starts(Line(slow, slow[0]), busy, 40.0)["b"] == 110.0
    assert planned_starts(Line([]), busy, 40.0) == {}


def test_nothing_starts_that_would_delay_the_one_with_the_reservation():
    busy, wide = [Busy(0b01, 100.0)], waiting("wide", 0b11)
    short, long = waiting("short", 0b10, 1.0, 90.0), waiting("long", 0b10, 2.0, 91.0)
    line = line_up([short, long, wide], busy, 10.0, FIFO)
    assert line.reserved is wide
    assert names(starting(line, busy, 10.0)) == ["short"]
    late = line_up([long, wide], busy, 101.0, FIFO)
    assert starting(late, busy, 101.0) == []  # what runs on may end at any moment
    away = waiting("away", 0b100, 3.0, 1e9)
    assert names(starting(line_up([away, wide], busy, 10.0, FIFO), busy, 10.0)) == ["away"]


def test_the_oldest_comes_first_under_every_policy_once_it_has_waited_long():
    old = waiting("old", 0b1111, 0.0, 3600.0)
    young = [waiting(f"young-{n}", 1 << n, 1.0 + n, 30.0) for n in range(4)]
    for name in policy_names():
        policy = lab_policy(name)
        line = line_up([*young, old], [], PATIENCE, policy)
        assert line.entries[0] is old and line.reserved is old, name
        early = line_up([*young, old], [], PATIENCE - 1.0, policy)
        assert (early.reserved is old) == (policy.patience == 0.0), name


def test_moves_overrule_the_policy_in_the_order_in_which_they_were_wished():
    a, b, c = (waiting(name, 0b1, at) for at, name in enumerate("abc"))
    wished = replace(c, move=Move("first", 10.0))
    line = line_up([a, b, wished], [], PATIENCE, FIFO)
    assert (names(line.entries), line.reserved) == (["c", "a", "b"], wished)
    between = replace(c, move=Move("before", 10.0, "b"))
    assert names(line_up([a, b, between], [], 0.0, FIFO).entries) == ["a", "c", "b"]
    gone = line_up([a, b, replace(c, move=Move("before", 10.0, "gone"))], [], 0.0, FIFO)
    assert (names(gone.entries), gone.reserved) == (["a", "b", "c"], a)
    last = replace(a, move=Move("last", 10.0))
    line = line_up([last, b, c], [], 3 * PATIENCE, FIFO)
    assert (names(line.entries), line.reserved) == (["b", "c", "a"], b)
    both = [replace(a, move=Move("first", 11.0)), b, replace(c, move=Move("first", 12.0))]
    assert names(line_up(both, [], 0.0, FIFO).entries) == ["c", "a", "b"]


def test_policies_order_experiments_by_their_rules():
    wide, narrow = waiting("wide", 0b0111, 0.0, draw=0.1), waiting("narrow", 0b1000, 1.0, draw=0.9)
    order = {
        name: names(lab_policy(name).order([wide, narrow], [], 2.0)) for name in policy_names()
    }
    assert order["fifo"] == order["fifo-offline"] == ["wide", "narrow"]
    assert order["srsf"] == order["random"] == ["narrow", "wide"]
    # One part serves the narrow one only, so it is the scarcer group.
    assert order["irs"] == order["irs-tiers"] == ["narrow", "wide"]


@pytest.mark.parametrize("name", ["static-partition", "random-selection", "fif"])
def test_rules_without_an_order_are_refused_as_the_policy_of_a_queue(name):
    with pytest.raises(UsageError, match="unknown policy of a queue"):
        lab_policy(name)


def test_the_reference_by_branches_equals_all_orders_tried_one_by_one():
    for seed in range(30):
        experiments = mix(seed, 5)
        every = min(list_schedule(order) for order in permutations(experiments))
        assert optimum(experiments) <= every * (1 + 1e-12)
        appended = min(appended_in_order(order) for order in permutations(experiments))
        assert optimum(experiments) == pytest.approx(appended)


def appended_in_order(order):
    """Return the makespan when each starts once all before it that share a part have ended."""
    placed = []
    for one in order:
        ends = [end for end, needs in placed if needs & one.entry.needs]
        placed.append((max(ends, default=0.0) + one.duration, one.entry.needs))
    return max(end for end, _ in placed)


def checked_replay(experiments, policy):
    """Replay a mix; nothing may have two owners, start before it came, or wait for ever."""
    starts = replay(experiments, policy)
    assert set(starts) == {one.entry.name for one in experiments}
    for number, one in enumerate(experiments):
        begin = starts[one.entry.name]
        assert begin >= one.entry.arrived
        for other in experiments[:number]:
            if one.entry.needs & other.entry.needs:
                begun = starts[other.entry.name]
                assert begin + one.duration <= begun or begun + other.duration <= begin
    longest, older = max(one.duration for one in experiments), 0.0
    for one in sorted(experiments, key=lambda one: (one.entry.arrived, one.entry.name)):
        # The oldest that waits has its reservation, at the latest once its patience is over; then
        # only what runs already, or runs for longer than expected, can still be in its way.
        due = max(one.entry.arrived + policy.patience, older)
        older = max(older, starts[one.entry.name])
        assert starts[one.entry.name] <= due + 2 * longest
    return starts


def ratios(counts, policy, bound, spread=0.0, misjudged=0.0):
    """Return makespans over those of a bound, for one mix of each count; the number is the seed."""
    found = []
    for seed, count in enumerate(counts):
        experiments = mix(seed, count, spread, misjudged)
        starts = checked_replay(experiments, lab_policy(policy))
        found.append(makespan(experiments, starts) / bound(experiments))
    return found


def said(what, found):
    over = sum(one > 1.2 for one in found)
    print(f"{what}: n {len(found)}, median {median(found):.3f}, largest {max(found):.3f}, {over=}")


@pytest.mark.parametrize("mixes", [40, pytest.param(1000, marks=pytest.mark.soak)])
def test_up_to_eight_experiments_are_done_within_a_fifth_of_the_optimum(mixes):
    counts = [2 + seed % 7 for seed in range(mixes)]
    found = ratios(counts, MAKESPAN, optimum)
    said("makespan over the optimum", found)
    assert max(found) <= 1.2 and min(found) >= 1.0 - 1e-9


@pytest.mark.parametrize(
    ("mixes", "lists"), [(2, 50), pytest.param(1000, 1000, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_fifty_experiments_are_done_within_a_fifth_of_the_best_of_many_lists(mixes, lists, spread):
    """All there at once; or arriving meanwhile, which the lists know beforehand."""

    def best(experiments):
        return best_of_lists(experiments, 1, lists)

    found = ratios([50] * mixes, MAKESPAN, best, spread)
    said(f"makespan over the best of {lists} lists, arrivals over {spread} of it", found)
    assert max(found) <= 1.2


@pytest.mark.parametrize("mixes", [1, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.parametrize("policy", policy_names())
def test_no_policy_gives_parts_to_two_or_lets_an_experiment_starve(policy, mixes):
    for seed in range(mixes):
        checked_replay(mix(seed, 50, spread=0.9, misjudged=0.5), lab_policy(policy))


def test_without_a_reservation_a_wide_experiment_would_starve():
    """Two streams of short ones overlap for ever; the wide one comes in between all the same."""
    stream = [
        Experiment(waiting(f"{n:03}", 0b01 << (n % 2), n * 50.0, 90.0), 90.0) for n in range(400)
    ]
    wide = Experiment(waiting("wide", 0b11, 10.0, 600.0), 600.0)
    start = checked_replay([*stream, wide], lab_policy("srsf"))["wide"]
    assert PATIENCE <= start <= PATIENCE + 200.0


def test_figures_of_a_history_are_those_of_its_starts():
    one, two = (Experiment(waiting(name, 0b1, at, 10.0), 10.0) for name, at in (("a", 5), ("b", 6)))
    starts = replay([one, two], FIFO)
    assert starts == {"a": 5.0, "b": 15.0}
    found = figures([one, two], starts)
    assert (found.makespan, found.mean_wait, found.longest_wait) == (20.0, 4.5, 9.0)
