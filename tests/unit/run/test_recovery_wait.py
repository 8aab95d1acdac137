"""When a trial is over after its fault: told by the job's steps, or by the policy that repaired."""

import pytest

from testbed.analysis.clocks import Clocks
from testbed.clock import Deadline, now
from testbed.control.controller import View
from testbed.control.descriptors import SpliceOptions
from testbed.control.protocol import RankEnded
from testbed.control.splice import Splice
from testbed.events import Event
from testbed.run.controllers import ControllerExecutor
from testbed.run.inbox import Report
from testbed.run.planning.steps import FaultPlan
from testbed.run.recovery_wait import RecoveryWait
from testbed.run.response_tracker import ResponseTracker
from testbed.run.step_pace import StepPace
from tests.unit.run.policies_at_work import of_job, policy_at_work

LONG = 300.0
"""Seconds that no test takes, and a trial may."""


class Course:
    """The course of one trial of two ranks, told event by event; hosts share the log's clock."""

    def __init__(self, job, inbox, controllers, kind="rank-freeze", hold=0.1):
        self.inbox = inbox
        self.pace = StepPace(2)
        self.recovery_wait = RecoveryWait(job, controllers, self.pace, inbox, 60.0)
        offsets = [self.event(0.0, "clock.offset", h, ahead=0.0, bound=0.0) for h in ("h0", "h1")]
        self.responses = ResponseTracker(2, Clocks(offsets))
        self.plan = FaultPlan(kind, 0, 8, 0.5, hold)
        self.hold = hold

    @staticmethod
    def event(t, kind, subject="", **data):
        return Event(0, t, kind, subject, 0, data)

    def tell(self, t, kind, subject="", **data):
        self.responses.handle(self.event(t, kind, subject, **data))

    def steps(self, first, numbers, every=0.1, kind="step"):
        for count, number in enumerate(numbers):
            for rank in (0, 1):
                end = first + count * every
                said = {
                    "rank": rank, "generation": 1, "step": number, "host": f"h{rank}", "mono": end,
                    "begin": end - every, "end": end, "collective": [end - 0.01, end],
                    "verified": True, "digest": "0", "bytes": 1, "size": 4096,
                }  # fmt: skip
                self.pace.add_step(rank, said, end)
                self.tell(end, kind, f"rank {rank}", **said)

    def fault(self, t):
        self.tell(t, "fault.inject", "h0", sent=t, done=t, held=self.hold is not None)
        if self.hold is not None:
            self.tell(t + self.hold, "fault.undo", "h0", sent=t + self.hold, done=t + self.hold)

    def wait(self, seconds=LONG):
        return self.recovery_wait.wait((self.plan,), self.responses, Deadline.after(seconds))


@pytest.fixture
def spliced(bench, job, log):
    bench.open_fabric(())
    return policy_at_work(Splice(SpliceOptions()), job, log)


@pytest.fixture
def nothing(inbox, log):
    """Return what reacts where no controller is named."""
    return ControllerExecutor({}, View(0.0, {}), inbox, log, {}, {})


@pytest.mark.parametrize("kind", ["step", "sample"])
def test_a_trial_without_repair_is_over_with_the_first_complete_step(job, inbox, spliced, kind):
    course = Course(job, inbox, spliced)
    course.steps(1.0, range(25), kind=kind)  # up to 3.4 s
    course.fault(3.45)
    course.steps(3.5, range(25, 28), kind=kind)
    began = now()
    assert course.wait() == ""
    assert now() - began < LONG / 2
    assert course.recovery_wait.response == "ridden out"


def test_steps_before_the_undo_do_not_end_the_trial(job, inbox, nothing):
    course = Course(job, inbox, nothing, hold=3.0)
    course.steps(1.0, range(25))
    course.fault(3.45)
    course.steps(3.5, range(25, 50))
    assert course.wait(0.1) == "not recovered within 60 s"


def test_a_permanent_fault_is_observed_for_some_steps_before_it_counts_as_ridden_out(
    job, inbox, nothing
):
    course = Course(job, inbox, nothing, kind="attenuate", hold=None)
    course.steps(1.0, range(25))
    course.fault(3.45)
    course.steps(3.5, range(25, 40))
    assert course.wait(0.1) == "not recovered within 60 s"


def test_a_stall_that_ends_without_repair_is_a_recovery_also_with_a_policy(job, inbox, spliced):
    course = Course(job, inbox, spliced)
    course.steps(1.0, range(25))
    course.fault(3.45)
    course.steps(3.65, range(25, 28))
    assert course.wait() == ""
    assert course.recovery_wait.response == "recovered"


def test_a_trial_waits_for_a_recovery_in_progress(job, inbox, spliced):
    course = Course(job, inbox, spliced)
    course.steps(1.0, range(25))
    course.fault(3.45)
    spliced.observe(of_job(RankEnded(0, -9)))
    course.steps(3.5, range(25, 28))
    assert course.wait(0.1) == "not recovered within 60 s"


def test_a_trial_with_too_few_steps_before_the_fault_does_not_wait_for_throughput(
    job, inbox, spliced
):
    course = Course(job, inbox, spliced)
    course.steps(1.0, range(5))
    course.fault(1.45)
    course.steps(1.5, range(5, 9))
    assert course.wait() == ""
    assert course.recovery_wait.response == "not known"


def test_a_trial_waits_at_most_a_hundred_steps_for_the_throughput_after_a_recovery(
    job, inbox, nothing
):
    """Steps of the baseline do not count: where it was long, nothing would be waited for."""
    course = Course(job, inbox, nothing)
    course.steps(1.0, range(200))
    course.steps(25.0, [200])  # the one that was stalled
    job.generation = 1
    heard = []

    def slow_step(report):
        heard.append(report)
        course.steps(100.0 + len(heard), [200 + len(heard)], every=1.0)

    inbox.handler = slow_step
    for number in range(150):
        inbox.listen("h0", {"event": "tick", "number": number}, 0.0)
    assert course.recovery_wait.wait_for_throughput(0.1, Deadline.after(LONG)) == ""
    assert len(heard) == 100
    assert isinstance(heard[0], Report)
