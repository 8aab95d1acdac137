"""The order in which a run handles what comes: everything overtakes reports of steps."""

import queue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.control.protocol import Fenced, HostSilent
from testbed.run.inbox import Backlog, Report

SYMPTOMS = [
    {"event": "carrier", "port": "p0", "up": False},
    {"event": "exit", "code": 1},
    {"event": "heartbeat-missed"},
    {"event": "lost", "reason": "silence"},
    {"event": "rank", "said": {"event": "peer-lost"}},
    {"event": "rank", "said": {"event": "corrupt", "why": "a sum"}},
    {"event": "rank", "said": {"event": "refused", "why": "a token"}},
]
STEPS = [{"event": "rank", "said": {"event": event, "step": 1}} for event in ("step", "sample")]
OTHERS = [
    {"event": "rank", "said": {"event": event}}
    for event in ("ready", "left", "done", "generation", "restored", "output", "circuits")
]
messages = st.one_of(*map(st.sampled_from, (SYMPTOMS, STEPS, STEPS, OTHERS)))
items = st.one_of(
    st.builds(Report, st.sampled_from(["h0", "h1", "h2"]), messages, st.floats(0, 9)),
    st.sampled_from([Fenced(), HostSilent("h0")]),
    st.none(),
)


def is_step(item):
    return isinstance(item, Report) and item.message in STEPS


def is_symptom(item):
    return not isinstance(item, Report) or item.message in SYMPTOMS


class Handled:
    """What has come, numbered, and in which order it was taken."""

    def __init__(self):
        self.backlog = Backlog()
        self.came = []
        self.taken = []

    def add(self, item):
        self.came.append(item)
        self.backlog.add(item)

    def take(self):
        item = self.backlog.take()
        place = next(n for n, one in enumerate(self.came) if one is item and n not in self.taken)
        waiting = [n for n in range(len(self.came)) if n not in {*self.taken, place}]
        self.taken.append(place)
        self.check(place, waiting)

    def check(self, place, waiting):
        """Compare what was taken with all that still waits and came before it."""
        item = self.came[place]
        before = [self.came[n] for n in waiting if n < place]
        if is_step(item):
            assert not any(is_step(one) and one.host == item.host for one in before)
        else:
            assert all(map(is_step, before)), "what is no step is in the order of its arrival"
        if not is_step(item) and not is_symptom(item):
            assert item.host not in {one.host for one in before}

    @property
    def waiting(self):
        return len(self.came) - len(self.taken)


@given(st.lists(st.one_of(items, st.just("take")), max_size=40))
def test_what_comes_is_taken_once_and_in_the_order_that_is_said(course):
    handled = Handled()
    for item in course:
        if item == "take":
            if handled.waiting:
                handled.take()
        else:
            handled.add(item)
        assert bool(handled.backlog) == bool(handled.waiting)
    while handled.waiting:
        handled.take()
    assert sorted(handled.taken) == list(range(len(handled.came)))
    with pytest.raises(queue.Empty):
        handled.backlog.take()


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_a_symptom_overtakes_steps_also_of_its_own_agent(symptom):
    backlog = Backlog()
    for number in range(1000):
        backlog.add(Report(f"h{number % 4}", STEPS[0], float(number)))
    backlog.add(last := Report("h0", symptom, 1000.0))
    assert backlog.take() is last


def test_an_outcome_overtakes_steps():
    backlog = Backlog()
    backlog.add(Report("h0", STEPS[0], 1.0))
    backlog.add(Fenced())
    assert backlog.take() == Fenced()


def test_the_last_step_of_a_rank_is_handled_before_its_end():
    """Else the trial would end without it."""
    backlog = Backlog()
    reports = [
        Report("h0", STEPS[0], 1.0),
        Report("h1", STEPS[0], 1.1),
        Report("h1", {"event": "rank", "said": {"event": "done"}}, 1.2),
        Report("h1", {"event": "exit", "code": 0}, 1.3),
    ]
    for report in reports:
        backlog.add(report)
    taken = [backlog.take() for _ in reports]
    assert taken == [reports[1], reports[2], reports[3], reports[0]]
