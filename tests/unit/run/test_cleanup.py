"""Clean-up: everything is taken back, last first, whatever fails and whoever presses Ctrl-C."""

import json
import signal
import threading

import pytest

from testbed.clock import now
from testbed.errors import HostError, LabError, UnsafeError
from testbed.record.log import EventLog, read_events
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Interrupted

LONG = 30.0
"""Seconds that nobody here may wait for."""


class House:
    """A clean-up, its log, and what was done of it."""

    def __init__(self, inbox, directory):
        self.inbox = inbox
        self.path = directory / "events.jsonl"
        self.log = EventLog(self.path)
        self.cleanup = Cleanup(inbox, self.log)
        self.done = []
        self.over = threading.Event()
        """Set when the test is, for the steps that would wait longer."""

    def push(self, what, *, error=None, signals=(), until=None, limit=LONG):
        """Push a step that gets signals while it is done, then waits, then fails."""

        def action(deadline):
            for number in signals:
                self.inbox.interrupt(number)
            if until is not None:
                until.wait(LONG)
            self.done.append(what)
            if error:
                raise error

        return self.cleanup.push(what, action, limit)

    def stuck(self, what, *, signals=(), limit=LONG):
        """Push a step that never ends."""
        return self.push(what, signals=signals, until=self.over, limit=limit)

    def events(self, kind):
        return [event for event in read_events(self.path) if event.kind == kind]

    def ended(self):
        """Return the steps whose end is in the record, with what went wrong."""
        return [(e.subject, e.data["problem"]) for e in self.events("cleanup.end")]


@pytest.fixture
def house(inbox, tmp_path):
    house = House(inbox, tmp_path)
    yield house
    house.over.set()
    house.log.close()


def test_undo_steps_are_done_last_first_each_with_its_limit(house):
    limits = {}

    def step(name):
        return lambda deadline: limits.update({name: deadline.left})

    for name, limit in (("instruments", 3.0), ("agents", 5.0), ("circuits", 7.0)):
        house.cleanup.push(name, step(name), limit)
    house.cleanup.run()
    assert list(limits) == ["circuits", "agents", "instruments"]
    assert limits == pytest.approx({"circuits": 7.0, "agents": 5.0, "instruments": 3.0}, abs=1)
    assert house.cleanup.failures == []


def test_the_record_holds_begin_end_and_limit_of_each_step(house):
    house.push("agents", limit=2.0)
    house.push("circuits", limit=3.0)
    house.cleanup.run()
    (phase,) = house.events("phase")
    assert (phase.subject, phase.data["limit"]) == ("restore", 5.0)
    assert [e.subject for e in house.events("cleanup.begin")] == ["circuits", "agents"]
    assert house.ended() == [("circuits", ""), ("agents", "")]
    assert all(event.data["verified"] for event in house.events("cleanup.end"))


def test_a_failed_undo_step_stops_no_other_and_is_listed_with_its_reason(house):
    house.push("instruments")
    house.push("agents", error=UnsafeError("the rank in slot 0 survived", hint="look"))
    house.push("circuits", error=HostError("h0", "it said no"))
    house.push("ranks", error=ZeroDivisionError("a bug"))
    house.cleanup.run()
    assert house.done == ["ranks", "circuits", "agents", "instruments"]
    assert house.cleanup.failures == [
        "ranks: ZeroDivisionError: a bug",
        "circuits: h0: it said no",
        "agents: the rank in slot 0 survived; look",
    ]
    unverified = [e.subject for e in house.events("cleanup.end") if not e.data["verified"]]
    assert unverified == ["ranks", "circuits", "agents"]


def test_a_first_signal_during_the_clean_up_cuts_no_undo_step_short(house):
    house.push("instruments")
    house.push("circuits", signals=[signal.SIGINT])
    house.cleanup.run()
    assert house.done == ["circuits", "instruments"]
    assert house.cleanup.failures == []


def test_a_signal_from_before_the_clean_up_cuts_no_step_short(house):
    house.inbox.interrupt(signal.SIGINT)
    house.push("instruments")
    house.push("circuits")
    house.cleanup.run()
    assert house.done == ["circuits", "instruments"]
    assert house.cleanup.failures == []


def test_after_a_second_signal_each_step_is_limited_to_two_seconds(house):
    limits = []
    house.cleanup.push("instruments", lambda deadline: limits.append(deadline.left), LONG)
    house.cleanup.push("journal", lambda deadline: limits.append(deadline.left), 0.5)
    house.stuck("circuits", signals=[signal.SIGINT, signal.SIGINT])
    began = now()
    house.cleanup.run()
    assert 2.0 <= now() - began < LONG
    of_journal, of_instruments = limits
    assert of_journal <= 0.5 < of_instruments <= 2.0
    (failure,) = house.cleanup.failures
    assert failure.startswith("circuits: circuits did not end in time")
    (note,) = house.events("note")
    assert note.data["text"] == "hurrying: at most 2 s for each step that is left"


def test_a_third_signal_ends_the_clean_up_and_reports_the_open_steps(house):
    house.push("instruments")
    house.push("agents")
    house.stuck("circuits", signals=[signal.SIGINT] * 3)
    house.push("ranks")
    began = now()
    house.cleanup.run()
    assert now() - began < LONG
    assert house.done == ["ranks"]
    assert house.cleanup.failures == [
        "circuits: left in the middle",
        "agents: not done",
        "instruments: not done",
    ]


def test_after_three_earlier_signals_the_clean_up_ends_with_its_first_step(house):
    for _ in range(3):
        house.inbox.interrupt(signal.SIGTERM)
    house.push("instruments")
    house.stuck("circuits")
    house.cleanup.run()
    assert house.cleanup.failures == ["circuits: left in the middle", "instruments: not done"]


def test_an_undo_step_that_was_done_early_is_not_repeated(house):
    house.push("circuits")
    fault = house.push("power-cut of h1")
    house.push("ranks")
    house.cleanup.run_now(fault)
    assert house.done == ["power-cut of h1"]
    house.cleanup.run()
    assert house.done == ["power-cut of h1", "ranks", "circuits"]


def test_an_undo_step_that_fails_early_raises_unsafe_and_stays_listed(house):
    house.push("circuits")
    fault = house.push("power-cut of h1", error=UnsafeError("outlet pdu.2 is still off"))
    with pytest.raises(UnsafeError, match=r"power-cut of h1 failed: outlet pdu\.2 is still off"):
        house.cleanup.run_now(fault)
    house.cleanup.run()
    assert house.done == ["power-cut of h1", "circuits"]
    assert house.cleanup.failures == ["power-cut of h1: outlet pdu.2 is still off"]


def test_a_signal_during_an_early_step_is_handled_after_it(house):
    fault = house.push("rank-freeze of h1", signals=[signal.SIGINT])
    with pytest.raises(Interrupted, match="SIGINT"):
        house.cleanup.run_now(fault)
    assert house.done == ["rank-freeze of h1"]
    house.cleanup.run()
    assert house.done == ["rank-freeze of h1"]


def test_an_undo_step_whose_early_attempt_cannot_be_logged_is_done_at_the_end(house, full_disk):
    fault = house.push("power-cut of h1")
    with full_disk():
        with pytest.raises(LabError, match="writing the event log failed"):
            house.cleanup.run_now(fault)
        house.cleanup.run()
    assert house.done == ["power-cut of h1"]
    assert house.cleanup.failures == []


def test_a_full_disk_stops_no_undo_step(house, full_disk):
    house.push("instruments")
    house.push("circuits", error=UnsafeError("ocs shows 2→19 instead"))
    house.push("ranks", signals=[signal.SIGINT, signal.SIGINT])
    with full_disk():
        house.cleanup.run()
    assert house.done == ["ranks", "circuits", "instruments"]
    assert house.cleanup.failures == ["circuits: ocs shows 2→19 instead"]


def test_an_error_with_any_characters_does_not_stop_the_clean_up(house):
    house.push("circuits")
    error = HostError("h0", json.loads(r'"there is no file caf\udce9"'))  # an agent's own words
    house.push("agents", error=error)
    house.cleanup.run()
    assert house.done == ["agents", "circuits"]
    assert house.ended() == [("agents", str(error)), ("circuits", "")]


def test_without_free_threads_every_step_is_still_done_once(house, monkeypatch):
    house.push("instruments")
    house.push("circuits", error=UnsafeError("ocs shows 2→19 instead"))
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", no_thread)
        house.cleanup.run()
    assert house.inbox.submit(lambda: "a thread again").result(LONG)
    assert house.done == ["circuits", "instruments"]
    assert house.cleanup.failures == ["circuits: ocs shows 2→19 instead"]


def no_thread(thread):
    raise RuntimeError("can't start new thread")


def test_a_late_stop_of_the_run_is_not_a_failure_of_a_step(house):
    house.push("instruments")

    def step(deadline):
        heard = threading.Event()
        house.inbox.handler = lambda item: heard.set()
        house.inbox.stop(LabError("the run took too long"))
        house.inbox.listen("h0", {"event": "exit"}, 0.0)
        assert heard.wait(LONG)  # the clean-up still waits for this step
        house.done.append("circuits")

    house.cleanup.push("circuits", step, LONG)
    house.cleanup.run()
    assert house.done == ["circuits", "instruments"]
    assert house.cleanup.failures == []


def test_reports_are_handled_during_the_clean_up(house):
    heard = threading.Event()
    house.inbox.handler = lambda item: heard.set()

    def step(deadline):
        house.inbox.listen("h0", {"event": "exit"}, 0.0)
        assert heard.wait(LONG)

    house.cleanup.push("ranks", step, LONG)
    house.cleanup.run()
    assert house.cleanup.failures == []


def test_an_empty_clean_up_does_nothing(house):
    house.cleanup.run()
    assert house.cleanup.failures == []
    assert house.ended() == []


def test_the_first_signal_notes_the_limit_and_the_effect_of_further_signals(house):
    house.inbox.interrupt(signal.SIGTERM)
    house.push("agents", limit=2.0)
    house.push("circuits", limit=3.0)
    house.cleanup.run()
    (note,) = house.events("note")
    assert note.subject == "SIGTERM"
    assert note.data["text"] == (
        "stopping: taking back circuits, agents, at most 5 s; "
        "send another signal to hurry, a third time to leave"
    )


def test_a_first_signal_in_the_clean_up_notes_the_rest_of_the_limit(house):
    told = threading.Event()
    house.log.subscribe(lambda event: told.set() if event.kind == "note" else None)
    house.push("agents", limit=20.0)
    house.push("circuits", signals=[signal.SIGINT], until=told, limit=10.0)
    house.push("ranks", limit=100.0)
    house.cleanup.run()
    (note,) = house.events("note")
    assert note.data["text"] == (
        "stopping: taking back circuits, agents, at most 30 s; "
        "press Ctrl-C again to hurry, a third time to leave"
    )


def test_without_a_signal_nothing_is_noted_of_signals(house):
    house.push("agents")
    house.cleanup.run()
    assert house.events("note") == []


def test_workers_in_progress_end_before_the_first_undo_step(house):
    begun, told = threading.Event(), threading.Event()

    def change():
        begun.set()
        told.wait(LONG)
        house.done.append("changed")

    house.inbox.submit(change)
    house.inbox.handler = lambda item: told.set()  # heard by the clean-up, while it waits
    assert begun.wait(LONG)
    house.inbox.listen("h0", {"event": "exit"}, 0.0)
    house.push("circuits")
    house.cleanup.run()
    assert house.done == ["changed", "circuits"]
    assert house.ended() == [("what was under way", ""), ("circuits", "")]


def test_a_worker_that_never_ends_delays_the_clean_up_to_its_limit_and_is_noted(house, monkeypatch):
    monkeypatch.setattr("testbed.run.cleanup._UNDER_WAY", 0.05)
    house.inbox.submit(lambda: house.over.wait(LONG))
    house.push("circuits")
    house.cleanup.run()
    assert house.done == ["circuits"] and house.cleanup.failures == []
    (note,) = house.events("note")
    assert note.data["text"].startswith("what was under way did not end in time")


def test_after_two_earlier_signals_every_step_is_limited(house):
    limits = []
    house.cleanup.push("instruments", lambda deadline: limits.append(deadline.left), LONG)
    house.inbox.interrupt(signal.SIGINT)
    with pytest.raises(Interrupted):
        house.inbox.check()
    house.inbox.interrupt(signal.SIGINT)
    house.cleanup.run()
    assert limits[0] <= 2.0 and house.cleanup.failures == []


def test_a_signal_cancels_a_wait_in_an_undo_step_that_has_changed_nothing(house):
    touched = threading.Event()

    def act(deadline):
        with house.cleanup.wait.waiting():
            house.inbox.interrupt(signal.SIGINT)
            house.over.wait(LONG)
        touched.set()

    house.push("first")
    house.cleanup.push("a box that never answers", act, LONG)
    house.cleanup.run()
    (failure,) = house.cleanup.failures
    assert failure == (
        "a box that never answers: SIGINT ended the wait for it; nothing of it was touched"
    )
    assert house.done == ["first"]
    house.over.set()
    assert not touched.wait(0.2)
