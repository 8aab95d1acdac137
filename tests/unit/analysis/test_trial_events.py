"""Which reports and generations of a trial belong to which of its jobs."""

from dataclasses import replace

from testbed.analysis.clocks import Clocks
from testbed.analysis.trial_events import TrialEvents
from testbed.events.origin import Origin
from tests.unit.analysis.logs_by_hand import Log


def events_of(job, *steps):
    """Return the reports of steps of a job; each is its end, generation and number of ranks."""
    log = Log()
    for number, (end, generation, ranks) in enumerate(steps):
        log.step(end, number, generation, ranks=ranks)
    return [replace(event, origin=Origin(job=job)) for event in log.events]


def test_a_membership_counts_for_its_own_job_only():
    log = Log()
    log.measure(0.1)
    begin = log.write(0.0, "trial.begin", "only", jobs=["left", "right"])
    shrunk = log.write(1.5, "membership", "right", generation=2, hosts=["h0", "h1"])
    left = events_of("left", (1.0, 1, 3), (2.0, 2, 3))
    right = events_of("right", (1.1, 1, 3), (2.1, 2, 2))
    trial = TrialEvents(sorted([begin, shrunk, *left, *right], key=lambda event: event.t))
    clocks = Clocks(log.events)
    for job in ("left", "right"):
        found = trial.of(job).reports.finished(clocks, 3)
        assert len(found) == 2


def test_a_membership_before_the_first_report_of_a_trial_counts():
    log = Log()
    log.measure(0.1)
    log.begin()
    log.write(0.5, "membership", "main", generation=2, hosts=["h0", "h1"])
    log.step(1.0, 0, 1, ranks=3)
    log.step(2.0, 1, 2, ranks=2)
    trial = TrialEvents(sorted(log.events, key=lambda event: event.t))
    assert len(trial.reports.finished(Clocks(log.events), 3)) == 2
