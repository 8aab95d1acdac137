"""Who observes what, what carries commands out, and when controllers are woken."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from testbed.clock import Deadline, now
from testbed.control import protocol
from testbed.control.controller import (
    ChangeFailed,
    CircuitsChanged,
    CommandJob,
    Fail,
    JobObserved,
    JobView,
    PolicyController,
    Scope,
    TimerExpired,
    View,
)
from testbed.control.descriptors import SpliceOptions
from testbed.control.splice import Splice
from testbed.errors import LabError, TestbedError
from testbed.events.origin import Origin, attributed
from testbed.fabric.circuits import Circuit
from testbed.record.log import read_events
from testbed.run.controllers import ControllerExecutor

LONG = 30.0
"""Seconds that nobody here may wait for."""
SEEN = JobObserved("main", protocol.HeartbeatMissed(1))


class Script:
    """A controller that commands what it is told to, and remembers what it observed and when."""

    def __init__(self, *scopes):
        self.scopes = scopes
        self.next = ()
        self.observed, self.times = [], []
        self.wants = None

    def begin(self, view):
        self.view = view
        return 0

    def step(self, state, now, observation):
        self.observed.append(observation)
        self.times.append(now)
        commands, self.next = self.next, ()
        return state + 1, commands

    def wake_at(self, state):
        return self.wants


@dataclass
class Do:
    """A command of this test: do something in a worker."""

    action: Any


def do(command, sender):
    sender.in_worker(command.action, ChangeFailed)


class Trial:
    """Two controllers at work, `one` and `other`."""

    def __init__(self, inbox, log, view=None):
        self.one, self.other = Script(), Script()
        self.inbox = inbox
        controllers = {"one": self.one, "other": self.other}
        view = view or View(now(), {})
        self.executor = ControllerExecutor(controllers, view, inbox, log, {Do: do}, {"main": {}})
        inbox.handler = self.executor.handle

    def command(self, *commands):
        self.one.next = commands
        self.executor.observe(SEEN)

    def wait_for(self, condition):
        assert self.inbox.wait(condition, Deadline.after(LONG))


@pytest.fixture
def trial(inbox, log):
    return Trial(inbox, log)


def test_all_controllers_observe_everything_in_its_order(trial):
    seen = [JobObserved("main", protocol.StepDone(0, step)) for step in range(5)]
    for each in seen:
        trial.inbox.observe(each)
    trial.wait_for(lambda: len(trial.other.observed) == 5)
    assert trial.one.observed == trial.other.observed == seen


def test_what_came_of_a_command_is_for_the_controller_that_gave_it(trial):
    trial.command(Do(CircuitsChanged))
    trial.wait_for(lambda: len(trial.one.observed) == 2)
    assert trial.one.observed == [SEEN, CircuitsChanged()]
    assert trial.other.observed == [SEEN]


def failing(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        (CircuitsChanged, [CircuitsChanged()]),
        (failing(LabError("no", hint="yes")), [ChangeFailed("no; yes")]),
        (failing(KeyError("h9")), [ChangeFailed("KeyError: 'h9'")]),
        (lambda: None, []),
    ],
)
def test_a_command_in_a_worker_has_the_outcome_that_it_returns_or_fails_with(
    trial, action, outcome
):
    trial.command(Do(action))
    trial.wait_for(lambda: not trial.inbox.work_under_way())
    trial.inbox.observe(SEEN)
    trial.wait_for(lambda: len(trial.other.observed) == 2)
    assert trial.one.observed == [SEEN, *outcome, SEEN]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("look", "controller one gave the command str, which nothing here carries out; known: Do"),
        (CommandJob("main", 5), "controller one gave the command int to job main, which nothing"),
        (CommandJob("no", protocol.GiveUp("x")), "the command GiveUp to job no, which nothing"),
    ],
)
def test_a_command_that_nothing_carries_out_is_named_with_its_controller(trial, command, message):
    with pytest.raises(TestbedError, match=message):
        trial.command(command)


def test_what_came_of_a_command_of_another_trial_is_dropped(trial, inbox, log):
    trial.command(Do(CircuitsChanged))
    later = Trial(inbox, log)
    inbox.observe(SEEN)
    trial.wait_for(lambda: bool(later.one.observed))
    trial.wait_for(lambda: not inbox.work_under_way())
    inbox.observe(SEEN)
    trial.wait_for(lambda: len(later.one.observed) == 2)
    assert trial.one.observed == [SEEN]
    assert later.one.observed == later.other.observed == [SEEN, SEEN]


def test_a_controller_that_fails_ends_the_trial_with_its_reason(trial, tmp_path):
    trial.command(Fail("no slot is left"))
    assert trial.executor.failure == "one: no slot is left"
    assert not trial.executor.happened
    (event,) = read_events(tmp_path / "log.jsonl")
    assert (event.kind, event.subject) == ("note", "one")


def test_at_the_end_commands_under_way_are_waited_for_and_nothing_more_is_observed(trial):
    over = threading.Event()
    trial.command(Do(lambda: over.wait(LONG) and CircuitsChanged()))
    threading.Timer(0.02, over.set).start()
    trial.executor.end()
    assert over.is_set()
    trial.inbox.observe(SEEN)
    trial.inbox.pause(Deadline.after(0.01))
    assert trial.one.observed == [SEEN]


# --- what the record says of them --------------------------------------------------------------


@dataclass
class Note:
    """A command of this test: write an event, now and from a worker."""

    text: str


@pytest.fixture
def noting(inbox, log):
    def note(command, sender):
        log.append("note", "now", text=command.text)

        def work():
            log.append("note", "worker", text=command.text)
            return CircuitsChanged()

        sender.in_worker(work, ChangeFailed)

    one = Script()
    of_jobs = {"main": {}}
    executor = ControllerExecutor({"one": one}, View(now(), {}), inbox, log, {Note: note}, of_jobs)
    inbox.handler = executor.handle
    return one, executor


def origins(path):
    return [
        (event.kind, event.subject, event.origin.controller, event.origin.cause)
        for event in read_events(path)
    ]


def test_what_a_command_writes_names_its_controller_and_what_led_to_it(noting, inbox, tmp_path):
    one, executor = noting
    one.next = (Note("first"),)
    with attributed(Origin(cause=70)):
        executor.observe(SEEN)
    one.next = (Note("second"),)  # upon the outcome of the first, in the same chain of causes
    assert inbox.wait(lambda: len(one.observed) == 3, Deadline.after(LONG))
    found = origins(tmp_path / "log.jsonl")
    assert found == [("note", who, "one", 70) for who in ("now", "worker") * 2]


def test_what_follows_a_decision_names_the_decision_as_its_cause(noting, inbox, tmp_path):
    one, executor = noting
    decide = CommandJob("main", protocol.Decide("it is gone", "h0", "h2"))
    one.next = (Note("before"), decide, Note("after"))
    with attributed(Origin(cause=70)):
        executor.observe(SEEN)
    assert inbox.wait(lambda: len(one.observed) == 3, Deadline.after(LONG))
    events = list(read_events(tmp_path / "log.jsonl"))
    (decided,) = [event for event in events if event.kind == "recovery.decided"]
    assert decided.origin == Origin("main", controller="one", cause=70)
    causes = {event.data["text"]: event.origin.cause for event in events if event is not decided}
    assert causes == {"before": 70, "after": decided.seq}


# --- timers ------------------------------------------------------------------------------------


def test_a_controller_is_woken_at_the_time_that_it_wants_and_no_other_one_is(trial):
    trial.one.wants = at = now() + 0.02
    trial.executor.begin()
    trial.wait_for(lambda: bool(trial.one.observed))
    trial.executor.stop()
    assert trial.one.observed == [TimerExpired()]
    assert trial.one.times[0] >= at
    assert trial.other.observed == []


def test_a_time_that_has_passed_wakes_at_once_and_again_as_often_as_it_is_wanted(trial):
    trial.one.wants = -1.0
    trial.executor.begin()
    trial.wait_for(lambda: len(trial.one.observed) >= 3)
    assert set(trial.one.observed) == {TimerExpired()}
    trial.executor.stop()


def expiry(trial):
    """Return what a timer puts into the inbox, before anything handles it."""
    items = []
    trial.inbox.handler = items.append
    trial.wait_for(lambda: bool(items))
    return items[0]


@pytest.mark.parametrize("wants", [None, 1e9])
def test_a_timer_that_was_set_anew_does_not_expire(trial, wants):
    trial.one.wants = 0.0
    trial.executor.begin()
    expired = expiry(trial)
    trial.one.wants = wants
    trial.executor.observe(SEEN)
    trial.executor.handle(expired)
    assert trial.one.observed == [SEEN]
    trial.executor.stop()


def test_a_stopped_timer_does_not_expire(trial):
    trial.one.wants = 0.0
    trial.executor.begin()
    expired = expiry(trial)
    trial.executor.stop()
    trial.executor.handle(expired)
    assert trial.one.observed == []


# --- what they begin with ----------------------------------------------------------------------


def test_a_controller_sees_only_circuits_of_the_jobs_whose_it_moves(inbox, log):
    jobs = {"a": JobView(("h0", "h1"), ()), "b": JobView(("h2", "h3"), ())}
    mine, theirs = Circuit.parse("h0.p0", "h1.p0"), Circuit.parse("h2.p0", "h3.p0")
    view = View(0.0, jobs, circuits=frozenset({mine, theirs}))
    one, other, third = Script(Scope("circuits", "a")), Script(Scope("membership", "a")), Script()
    controllers = {"one": one, "other": other, "third": third}
    executor = ControllerExecutor(controllers, view, inbox, log, {}, {})
    assert [each.view.circuits for each in (one, other, third)] == [{mine}, set(), set()]
    assert executor.moves_circuits
    assert not executor.recovers


def test_a_recovery_policy_recovers_and_moves_no_circuits_between_trials(inbox, log):
    policy = PolicyController(Splice(SpliceOptions()), "main")
    ports = {"h0": ("p0", "p1"), "h1": ("p0", "p1")}
    view = View(0.0, {"main": JobView(("h0", "h1"), ())}, (), ports, dict.fromkeys(ports, ()))
    executor = ControllerExecutor({"splice": policy}, view, inbox, log, {}, {"main": {}})
    assert executor.recovers
    assert not executor.moves_circuits
    executor.observe(JobObserved("main", protocol.RankEnded(1, -9)))
    assert executor.failure == "rank 1 ended with code -9, and no spare host is left"
    assert executor.is_over
