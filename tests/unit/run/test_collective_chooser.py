"""Who watches the steps of a job, and when ranks are told of another AllReduce."""

import pytest

from testbed.analysis.clocks import Clocks
from testbed.collectives.catalogue import all_reduce
from testbed.collectives.cost import Links
from testbed.control.collective_chooser import CollectiveChooser
from testbed.control.controller import ChosenCollective, JobObserved, JobView, View
from testbed.control.protocol import Tell
from testbed.events import Event
from testbed.events.origin import Origin, attributed
from testbed.record.log import read_events
from testbed.run.agent_reports import timed_step
from testbed.run.collective_choices import handlers
from testbed.run.controllers import ControllerExecutor

RANKS = 8
SIZE = 7 << 20
AHEAD = {f"h{rank}": 1000.0 * rank for rank in range(RANKS)}
"""Seconds by which each host's clock is ahead of the log's."""


class Watched:
    """A chooser at work, the log that is written, and what it told the ranks."""

    def __init__(self, job, log, path):
        self._path = path
        self.told = []
        ring = all_reduce("ring", RANKS)
        job.collective = ChosenCollective(ring, SIZE, Links(1e-3, 8 / 100e6))
        view = View(0.0, {"main": JobView((), (), collective=job.collective)})
        choosers = {"collective-choice": CollectiveChooser("main")}
        tell = {Tell: lambda command, sender: self.told.append(command)}
        self.executor = ControllerExecutor(
            choosers, view, job.inbox, log, handlers(job, log), {"main": tell}
        )
        self.job = job
        self.measure()
        self.step = 0

    def measure(self):
        offsets = [
            Event(0, 0.0, "clock.offset", host, 0, {"ahead": ahead, "bound": 1e-4})
            for host, ahead in AHEAD.items()
        ]
        self.clocks = Clocks(offsets)

    def report(self, event):
        with attributed(Origin(cause=event.seq)):
            timed = timed_step(event, self.clocks)
            self.executor.observe(JobObserved("main", timed))

    @property
    def choices(self):
        """The schedules that all ranks were told to follow, by number."""
        assert all(one.ranks == tuple(range(RANKS)) for one in self.told)
        return [one.message for one in self.told]

    def steps(self, count, late=None, choice=0, ranks=RANKS):
        """Do so many steps of two seconds; some ranks come late to their collectives."""
        for _ in range(count):
            begin = 2.0 * self.step
            for rank in range(ranks):
                host = f"h{rank}"
                entry = begin + 0.1 + (late or {}).get(rank, 0.0)
                stamps = {"begin": begin, "end": begin + 1.9}
                stamps = {name: at + AHEAD[host] for name, at in stamps.items()}
                data = {
                    "host": host,
                    "rank": rank,
                    "generation": 1,
                    "step": self.step,
                    "collective": [entry + AHEAD[host], begin + 1.8 + AHEAD[host]],
                    "choice": choice,
                    "verified": True,
                    "digest": "0",
                    "loss": 1.0,
                    "bytes": 1,
                    **stamps,
                }
                seq = 1000 + self.step
                self.report(Event(seq, begin + 1.9, "step", f"rank {rank}", 0, data))
            self.step += 1

    def written(self, kind):
        return [event for event in read_events(self._path) if event.kind == kind]


@pytest.fixture
def watched(job, log, tmp_path):
    return Watched(job, log, tmp_path / "log.jsonl")


def test_no_schedule_is_chosen_before_the_window_is_full(watched):
    watched.steps(4, {7: 0.6})
    assert not watched.told and not watched.written("collective.chosen")


def test_the_choice_to_keep_the_ring_is_logged_once(watched):
    watched.steps(30)
    assert not watched.told
    (chosen,) = watched.written("collective.chosen")
    assert chosen.origin.cause == 1004, "the fifth step fills the window"
    assert (chosen.subject, chosen.data["choice"]) == ("ring", 0)
    assert chosen.data["because"] == "no rank comes last persistently"


def test_a_straggler_is_found_despite_clock_offsets_and_ranks_are_notified_once(watched):
    watched.steps(5)
    watched.steps(6, {3: 0.6})
    (told,) = watched.choices
    assert (told["do"], told["number"]) == ("choose", 1)
    assert (told["schedule"]["name"], told["schedule"]["straggler"]) == ("stragglar", 3)
    assert watched.job.collective.number == 1
    chosen = watched.written("collective.chosen")[-1]
    assert (chosen.subject, chosen.data["straggler"]) == ("stragglar", 3)
    assert chosen.data["expected"]["stragglar"] < chosen.data["present"]


def test_the_predicted_gain_is_recorded_before_the_ranks_are_notified(watched):
    watched.steps(5, {3: 0.6})
    (prediction,) = watched.written("prediction")
    values, chosen = prediction.data["values"], watched.written("collective.chosen")[-1]
    assert prediction.origin.cause == chosen.seq
    assert values["communication_share"] == pytest.approx(chosen.data["present"] / 2.0)
    assert values["straggling_step_time"] < 2.0
    assert (prediction.data["alpha"], prediction.data["beta"]) == (1e-3, 8 / 100e6)


def test_only_steps_after_a_change_count_for_the_next_one(watched):
    watched.steps(5, {3: 0.6})
    watched.steps(3, {3: 0.6}, choice=0)  # begun before all had heard
    watched.steps(4, {5: 0.6}, choice=1)
    assert len(watched.told) == 1
    watched.steps(1, {5: 0.6}, choice=1)
    told = [(one["number"], one["schedule"]["straggler"]) for one in watched.choices]
    assert told == [(1, 3), (2, 5)]


def test_after_the_straggler_recovered_a_schedule_without_one_is_chosen(watched):
    watched.steps(5, {3: 0.6})
    watched.steps(5, choice=1)
    assert watched.choices[-1]["schedule"]["straggler"] is None


def test_without_a_measured_clock_no_schedule_is_chosen(watched):
    watched.clocks = Clocks(())
    watched.steps(10, {3: 0.6})
    assert not watched.told and not watched.written("collective.chosen")


def test_a_job_that_leaves_nothing_to_choose_is_refused():
    with pytest.raises(ValueError, match="write `collective: auto`"):
        CollectiveChooser("main").begin(View(0.0, {"main": JobView((), ())}))
