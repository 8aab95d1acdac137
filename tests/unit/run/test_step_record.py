"""Which steps are recorded near a fault and elsewhere, and what is computed from such a record."""

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.trial import analyse_trial
from testbed.analysis.trial_events import TrialEvents
from testbed.errors import FileError
from testbed.record.log import EventLog, read_events
from testbed.run.step_record import NEAR, StepRecord
from testbed.schema import load_experiment
from tests.unit.analysis.logs_by_hand import RANKS, Log
from tests.unit.run.conftest import EXPERIMENT

EVERY = 7
FAULT = 251
"""The step during which a fault comes."""
LAST = 700


class Recorder:
    """A log to which the steps of a job are written that are recorded."""

    def __init__(self, path, every=EVERY, last=None):
        self.path = path
        self.log = EventLog(path)
        self.log.started = 0.0
        self.log.trial = 0
        self.record = StepRecord(self.log, every, last)

    def step(self, number, t=None, *, elements=10, sent=1_000_000, ranks=RANKS):
        for rank in range(ranks):
            data = {"rank": rank, "generation": 1, "step": number}
            data |= {"elements": elements, "bytes": sent}
            self.record.append_data("step", f"rank {rank}", t or number, data)

    def of(self, kind):
        return [event for event in read_events(self.path) if event.kind == kind]

    @property
    def steps(self):
        return sorted({event.data["step"] for event in self.of("step")})


@pytest.fixture
def recorder(tmp_path):
    recorder = Recorder(tmp_path / "events.jsonl")
    yield recorder
    recorder.log.close()


def test_every_so_many_steps_one_is_recorded_and_all_are_counted(recorder):
    for number in range(100):
        recorder.step(number, elements=number)
    recorder.record.note_counts("main", 100)
    assert recorder.steps == list(range(0, 100, EVERY))
    (counted,) = recorder.of("steps.counted")
    assert counted.data == {
        "every": EVERY,
        "completed": 100,
        "reports": 100 * RANKS,
        "recorded": len(range(0, 100, EVERY)) * RANKS,
        "elements": sum(range(100)) * RANKS,
    }
    later = [event.data for event in recorder.of("step") if event.data["step"] > 0]
    assert {(one["skipped"], one["skipped_bytes"]) for one in later} == {(6, 6_000_000)}


def test_what_ranks_communicated_is_recorded_of_the_same_steps(recorder):
    for number in range(30):
        data = {"rank": 0, "step": number}
        recorder.record.append_data("operations", "rank 0", number, data)
        recorder.step(number)
    assert [event.data["step"] for event in recorder.of("operations")] == recorder.steps


def test_the_last_step_that_a_job_makes_is_recorded(tmp_path):
    recorder = Recorder(tmp_path / "events.jsonl", last=16)
    for number in range(17):
        recorder.step(number)
    recorder.log.close()
    assert recorder.steps == [0, 7, 14, 16]


def test_all_steps_near_a_fault_are_recorded(recorder):
    recorder.record.note_fault(FAULT)
    for number in range(LAST):
        if number == 300:
            recorder.record.let_go()
        recorder.step(number)
    near = range(FAULT - NEAR, 299 + NEAR + 1)
    assert recorder.steps == sorted({*near, *range(0, LAST, EVERY)})


def test_all_steps_after_a_symptom_that_no_fault_explains_are_recorded(recorder):
    for number in range(LAST):
        if number == 300:
            recorder.record.append_data("host.lost", "h1", 300.0, {"reason": "it said nothing"})
        recorder.step(number)
    assert {*range(300, 300 + NEAR)} <= {*recorder.steps}
    assert recorder.steps[-1] == 693 and 600 not in recorder.steps


def test_steps_that_are_not_recorded_reach_those_who_follow_the_log(recorder):
    followed = []
    recorder.log.subscribe(followed.append)
    for number in range(10):
        recorder.step(number, ranks=1)
    assert [event.data["step"] for event in followed] == list(range(10))
    assert [event.is_recorded for event in followed[:8]] == [True, *[False] * 6, True]


def test_without_the_key_every_step_is_recorded_and_nothing_is_counted(tmp_path):
    recorder = Recorder(tmp_path / "events.jsonl", every=1)
    for number in range(10):
        recorder.step(number)
    recorder.record.note_counts("main", 10)
    recorder.log.close()
    assert recorder.steps == list(range(10))
    assert not recorder.of("steps.counted")
    assert not any("skipped" in event.data for event in recorder.of("step"))


def long_recovery(faulty):
    """Return a log of many steps, whose ports send 5 % more than data, with a fault or none."""
    log = Log()
    log.begin()
    log.measure(0.5)
    zero = 1.0 + 0.1 * (FAULT - 1) + 0.05
    for number in range(FAULT if faulty else LAST):
        log.step(1.0 + 0.1 * number, number, wire=1_050_000 * number)
    if faulty:
        log.fault(zero)
        log.receipt(zero + 0.01)
        log.splice(zero)
        log.measure(zero + 0.5)
        for number in range(FAULT, LAST):
            log.step(zero + 0.5 + 0.1 * (number - FAULT), number, generation=2)
    log.end(zero + 0.1 * LAST)
    return sorted(log.events, key=lambda event: event.t)


def decimated(tmp_path, events, every):
    """Return the result of a trial whose log keeps some of the steps of another."""
    recorder = Recorder(tmp_path / f"{every}.jsonl", every)
    if any(event.kind == "fault.inject" for event in events):
        recorder.record.note_fault(FAULT)
    for event in events:
        if event.kind == "step" and event.data["step"] == FAULT + 20:
            recorder.record.let_go()
        if event.kind == "trial.end":
            recorder.record.note_counts("main", LAST)
        recorder.record.append_data(event.kind, event.subject, event.t, event.data)
    recorder.log.close()
    found = list(read_events(recorder.path))
    return len(found), analyse_trial(0, TrialEvents(found), Clocks(found, slew=0.0))


@pytest.mark.parametrize("faulty", [True, False])
def test_what_is_computed_from_fewer_steps_is_what_all_of_them_give(tmp_path, faulty):
    events = long_recovery(faulty)
    count, whole = decimated(tmp_path, events, 1)
    fewer, result = decimated(tmp_path, events, EVERY)
    assert fewer < (0.6 if faulty else 0.2) * count
    assert result.marks == whole.marks and result.lost_steps == whole.lost_steps
    assert whole.values.keys() - result.values.keys() == {"loss"}, "its last step is not there"
    for name, value in result.values.items():
        assert value == pytest.approx(whole.values[name], rel=1e-9), name
    assert result.values["wire_overhead"] == pytest.approx(5.0)
    assert result.values["steps"] == LAST
    rates = [n / (b - a) for n, a, b in zip(*steps_of(result), strict=True)]
    assert all(rate == pytest.approx(10.0) for rate in rates[: FAULT // EVERY])


def steps_of(result):
    ends, counts = list(result.step_ends), list(result.step_ends.values())
    return counts[1:], ends[:-1], ends[1:]


def test_a_file_says_every_how_many_steps_one_is_recorded(tmp_path):
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT + "record: {steps: every 25}\n")
    assert load_experiment(path).record.steps == 25
    path.write_text(EXPERIMENT)
    assert load_experiment(path).record.steps == 1
    path.write_text(EXPERIMENT + "record: {steps: every 0}\n")
    with pytest.raises(FileError, match="'every 0' does not say which steps; write 'every 10'"):
        load_experiment(path)
