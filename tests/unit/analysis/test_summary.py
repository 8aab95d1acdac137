"""The summary of a run: its verdict, its exit code, and what is left of a log that breaks off."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.analysis.metric_definitions import METRICS, meaning
from testbed.analysis.metrics import metrics
from testbed.analysis.summary import summarise
from testbed.events import Event
from testbed.events.origin import Origin
from testbed.record.log import read_events
from testbed.schema import load_experiment
from tests.unit.analysis.logs_by_hand import Log, recovery

RECORDED = Path(__file__).parent / "data" / "faults.jsonl"
"""Three trials on a twin: a killed rank, a dark circuit, a frozen rank; all recovered."""

ROOT = Path(__file__).parents[3]
EXPERIMENT = """\
experiment: lumion
question: How soon does the job complete its next step?
needs: {hosts: 6, fabric: circuit}
jobs: {main: {kind: train, ranks: 4, spares: 2}}
faults: [{kind: power-cut, target: random, at: {step: 8}}]
policy: {kind: splice}
variants: {warm: {policy.standby: warm}, cold: {policy.standby: cold}}
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """Read the experiment with other checks."""
    path = tmp_path_factory.mktemp("experiment") / "lumion.yaml"

    def read(*checks):
        path.write_text(EXPERIMENT + "checks: {" + ", ".join(checks) + "}\n")
        return load_experiment(path)

    return read


MET = 'warm.recovery_time: {every: "< 1 s"}'
MISSED = 'warm.recovery_time: {every: "< 10 ms"}'
UNKNOWN = 'cold.recovery_time: {every: "< 1 s"}'


def run_end(code=0, cleanup="verified", error="", left=()):
    data = {"error": error, "exit_code": code, "cleanup": cleanup, "left": list(left)}
    return Event(9999, 9.0, "run.end", "", None, data)


def trial_events(*, valid=True, recovered=True, reason=""):
    log = recovery()
    log.events = [event for event in log.events if event.kind != "trial.end"]
    log.end(4.0, valid=valid, recovered=recovered, reason=reason)
    return log.events


def verdict(experiment, checks, events, **end):
    found = summarise("run", experiment(*checks), [*events, run_end(**end)])
    return found.outcome, found.exit_code


GOOD = trial_events()
NO_RECEIPT = trial_events(valid=False)
EMPTY = [event for event in GOOD if event.kind in ("trial.begin", "trial.end")]
LOST = trial_events(recovered=False, reason="no spare host is left")


def frozen(steps):
    """Return the events of a freeze that a job rode out after so many steps."""
    log = Log()
    log.begin()
    log.measure(0.5)
    log.steps(1.0, range(steps))
    zero = 1.0 + steps / 10 - 0.05
    log.fault(zero, fault="rank-freeze", held=True)
    log.undo(zero + 0.01)
    log.steps(1.0 + steps / 10, range(steps, steps + 3))
    log.end(1.5 + steps / 10)
    return log.events


RIDDEN, NOT_KNOWN = frozen(25), frozen(5)


@pytest.mark.parametrize(
    ("checks", "events", "outcome", "code"),
    [
        ([], GOOD, "passed", 0),
        ([MET], GOOD, "passed", 0),
        ([MISSED], GOOD, "failed", 1),
        ([MET, UNKNOWN], GOOD, "inconclusive", 3),
        ([MISSED, UNKNOWN], GOOD, "failed", 1),
        ([MET], LOST, "failed", 1),
        ([], LOST, "failed", 1),
        ([], RIDDEN, "passed", 0),
        ([MET], RIDDEN, "inconclusive", 3),
        ([MISSED], RIDDEN, "inconclusive", 3),
        ([], NOT_KNOWN, "inconclusive", 3),
        ([MET], NOT_KNOWN, "inconclusive", 3),
        ([MET], NO_RECEIPT, "inconclusive", 3),
        ([], NO_RECEIPT, "inconclusive", 3),
        ([], EMPTY, "inconclusive", 3),
        ([], [], "inconclusive", 3),
    ],
)
@pytest.mark.parametrize("unsafe", [False, True])
def test_the_outcome_of_a_run_is_that_of_its_checks_unless_the_clean_up_failed(
    experiment, checks, events, outcome, code, unsafe
):
    cleanup = "failed" if unsafe else "verified"
    found = verdict(experiment, checks, events, cleanup=cleanup)
    assert found == (outcome, 6 if unsafe else code)


@pytest.mark.parametrize(
    ("code", "outcome", "with_unsafe"),
    [
        (2, "error", 2),
        (4, "error", 6),
        (5, "error", 5),
        (6, "error", 6),
        (70, "error", 70),
        (130, "aborted", 6),
        (143, "aborted", 6),
    ],
)
def test_an_error_takes_precedence_over_measurements(experiment, code, outcome, with_unsafe):
    for events in (GOOD, LOST, []):
        assert verdict(experiment, [MISSED], events, code=code) == (outcome, code)
        unsafe = verdict(experiment, [MISSED], events, code=code, cleanup="failed")
        assert unsafe == (outcome, with_unsafe)


def test_retries_are_listed_by_trial_and_before_the_first_trial(experiment):
    early = Event(0, 0.1, "retry", "ocs", None, {"what": "a read", "why": "it did not answer"})
    late = Event(1, 2.1, "retry", "ocs", 0, {"what": "a change", "why": "it answered half"})
    found = summarise("run", experiment(MET), [early, *GOOD, late, run_end()])
    assert found.outcome == "passed" and [trial.retries for trial in found.trials] == [1]
    assert found.to_json()["retries"] == [
        {"trial": None, "subject": "ocs", "what": "a read", "why": "it did not answer"},
        {"trial": 0, "subject": "ocs", "what": "a change", "why": "it answered half"},
    ]


@pytest.mark.parametrize(("cleanup", "code"), [("verified", 143), ("failed", 6)])
def test_a_signal_keeps_measurements_and_open_changes_in_the_summary(experiment, cleanup, code):
    end = run_end(cleanup=cleanup)
    end.data["signals"] = [15, 2]
    found = summarise("run", experiment(MET), [*GOOD, end])
    assert (found.outcome, found.exit_code, found.cleanup) == ("passed", code, cleanup)
    assert found.reason == "1 of 1 trials are valid; SIGTERM came during the clean-up"


def test_the_reason_is_the_first_deciding_cause(experiment):
    def reason(checks, events, **end):
        return summarise("run", experiment(*checks), [*events, run_end(**end)]).reason

    assert reason([MET], GOOD) == "1 of 1 trials are valid"
    assert reason([MISSED], GOOD) == ("warm.recovery_time: 500 ms, not < 10 ms; 0 of 1 trials")
    assert reason([], LOST) == "1 of 1 trials did not recover: no spare host is left"
    assert reason([UNKNOWN], GOOD) == "cold.recovery_time every: no trial has a value"
    assert reason([], []) == "no trial is valid"
    assert reason([MET], GOOD, code=4, error="ocs: no reply") == "ocs: no reply"


def test_the_summary_of_an_incomplete_log_is_an_error_with_the_results_so_far(experiment):
    found = summarise("run", experiment(MET), GOOD)
    assert (found.outcome, found.exit_code, found.cleanup) == ("error", 4, "unknown")
    assert found.metrics["warm.recovery_time"].median == pytest.approx(0.5, abs=1e-6)


def test_the_summary_lists_changes_that_were_not_undone(experiment):
    left = ["circuits: ocs could not be brought back"]
    found = summarise("run", experiment(), [*GOOD, run_end(cleanup="failed", left=left)])
    assert found.to_json()["left"] == left
    assert found.to_json()["cleanup"] == "failed"


def test_invalid_trials_are_listed_and_not_counted(experiment):
    later = [
        Event(e.seq, e.t + 10, e.kind, e.subject, 1, e.data) for e in trial_events(valid=False)
    ]
    found = summarise("run", experiment(), [*GOOD, *later, run_end()])
    assert [trial.valid for trial in found.trials] == [True, False]
    metric = found.to_json()["metrics"]["warm.recovery_time"]
    assert (metric["n"], metric["trials"], metric["missing"]) == (1, 2, {"invalid": 1})
    outcomes = {"invalid": 1, "recovered": 1}
    assert found.to_json()["arms"]["warm"] == {"trials": 2, "valid": 1, "outcomes": outcomes}


def copies(count, **changes):
    """Return the events of so many trials more, numbered from 1."""
    return [
        Event(e.seq, e.t + 10 * number, e.kind, e.subject, number, e.data)
        for number in range(1, count + 1)
        for e in trial_events(**changes)
    ]


@pytest.mark.parametrize(
    ("invalid", "share", "outcome"),
    [
        (1, "", "inconclusive"),
        (1, "valid_share: 50 %", "passed"),
        (2, "valid_share: 50 %", "inconclusive"),
    ],
)
def test_checks_of_an_arm_with_too_few_valid_trials_are_unknown(tmp_path, invalid, share, outcome):
    """There is no check, or one that the valid trials pass: both are as little proven."""
    path = tmp_path / "lumion.yaml"
    for checks in ("", f"checks: {{{MET}}}\n"):
        if outcome == "passed" and checks:  # a trial that is invalid counts against `every`
            continue
        path.write_text(EXPERIMENT + checks + share + "\n")
        events = [*GOOD, *copies(invalid, valid=False, reason="no receipt"), run_end()]
        found = summarise("run", load_experiment(path), events)
        assert found.outcome == outcome
        if outcome != "passed":
            least = "50" if share else "67"
            assert found.reason == (
                f"warm: 1 of {invalid + 1} trials are valid, and {least} % must be: no receipt"
            )


def test_a_busy_machine_is_reported_among_the_health_findings(experiment):
    before = Event(0, 0.1, "health", "h1", None, {"text": "its disk is full"})
    load = Event(900, 4.5, "load", "this machine", 0, {"others": 0.5})
    found = summarise("run", experiment(MISSED), [before, *GOOD, load, run_end()])
    busy = "the machine was busy in 1 of 1 trials: up to 50 % of its processors' time went to "
    assert found.health == [
        "h1: its disk is full",
        f"{busy}other programs; times are longer than on an idle one",
    ]
    assert found.to_json()["trials"][0]["others"] == 0.5
    assert busy in found.checks[0].reason and busy in found.reason
    idle = Event(900, 4.5, "load", "this machine", 0, {"others": 0.1})
    assert summarise("run", experiment(MISSED), [*GOOD, idle, run_end()]).health == []


def test_a_destroyed_receiver_fails_the_run(experiment):
    data = {"dbm": 3.04, "max_dbm": -3.0}
    burnt = [
        Event(902, 4.6, "receiver.destroyed", "h2.p1", 0, data),
        Event(901, 4.5, "receiver.destroyed", "h1.p0", 0, data),
    ]
    words = "the receiver of h1.p0 was destroyed: it got 3.0 dBm and withstands -3 dBm"
    for end in (run_end(), run_end(4, error="no light"), run_end(0, cleanup="failed")):
        found = summarise("run", experiment(MET), [*GOOD, *burnt, end])
        assert found.outcome == "failed"
        assert found.reason == f"{words}; {words.replace('h1.p0', 'h2.p1')}"
        assert found.health == found.destroyed == found.reason.split("; ")
        assert found.to_json()["destroyed"] == found.destroyed
        assert found.exit_code == (6 if end.data["cleanup"] == "failed" else 1)


def removals(until=1.05, ranks=(0, 1)):
    """Return events of a stage on rails in trial 0, and of a circuit that goes at 1.02 s."""
    rails, log = Origin(controller="rails"), Log()
    stage = {"generation": 1, "stage": ["dp0", 0, [0, 1], 0]}
    times = {"read_back": 1.02, "commanded": 1.02}
    log.write(0.8, "fabric.change", "rails", origin=rails, circuits=[REMOVED], **times)
    for rank in ranks:
        log.on(f"h{rank}", 0.9, "stage.reached", f"rank {rank}", rank=rank, **stage)
    lit = {"changed": True, "seconds": 0.1, "stage": stage["stage"]}
    log.write(1.0, "stage.lit", "dp0", origin=rails, **lit)
    for rank in ranks:
        log.on(f"h{rank}", until, "stage.left", f"rank {rank}", rank=rank, **stage)
    log.write(1.2, "fabric.change", "rails", origin=rails, circuits=[], **times)
    return log.events


REMOVED = "h0.p0–h1.p0"


def test_a_circuit_that_was_removed_under_traffic_fails_the_run(experiment):
    words = f"trial 0: circuit {REMOVED} went at 1.020000 s (event 6) while ranks 0 and 1 were in "
    for end in (run_end(), run_end(4, error="no light"), run_end(0, cleanup="failed")):
        found = summarise("run", experiment(MET), [*GOOD, *removals(), end])
        assert found.outcome == "failed"
        assert found.reason.startswith(words)
        assert found.exit_code == (6 if end.data["cleanup"] == "failed" else 1)
        said = {"looked_at": 1, "under_traffic": 1, "not_judged": 0}
        assert found.to_json()["removed_circuits"] == said | {"found": [found.reason], "gaps": []}


def test_a_circuit_that_was_removed_between_stages_leaves_the_verdict_as_it_is(experiment):
    events = [*GOOD, *removals(until=1.01), run_end()]
    found = summarise("run", experiment(MET), events)
    assert (found.outcome, found.exit_code) == ("passed", 0)
    assert found.to_json()["removed_circuits"]["looked_at"] == 1
    assert str(found.removed_circuits).endswith("were looked at, none of them had traffic")


def test_a_removed_circuit_that_cannot_be_judged_makes_a_good_run_inconclusive(experiment):
    why = f"the first {REMOVED} at 1.020000 s: no rank at h1.p0 told of a stage or a collective"
    lonely = removals(ranks=[0])
    found = summarise("run", experiment(), [*GOOD, *lonely, run_end()])
    words = f"trial 0: 1 of 1 circuits that were removed cannot be judged, {why}"
    assert (found.outcome, found.reason, found.exit_code) == ("inconclusive", words, 3)
    said = {"looked_at": 0, "under_traffic": 0, "not_judged": 1, "found": [], "gaps": [words]}
    assert found.to_json()["removed_circuits"] == said
    assert verdict(experiment, [MISSED], [*GOOD, *lonely]) == ("failed", 1)


def test_a_run_without_changes_of_rails_says_nothing_of_removed_circuits(experiment):
    found = summarise("run", experiment(MET), [*GOOD, run_end()])
    assert found.to_json()["removed_circuits"] is None


def test_checks_are_evaluated_when_two_of_three_trials_are_valid(experiment):
    events = [*GOOD, *copies(2), run_end()]
    assert summarise("run", experiment(), events).outcome == "passed"
    two = [
        *GOOD,
        *copies(1),
        *[Event(e.seq, e.t + 30, e.kind, e.subject, 2, e.data) for e in trial_events(valid=False)],
        run_end(),
    ]
    assert summarise("run", experiment(), two).outcome == "passed"


def test_a_metric_states_unit_direction_and_interval(experiment):
    found = summarise("run", experiment(), [*GOOD, run_end()])
    assert found.metrics["warm.recovery_time"].to_json() == {
        "unit": "s",
        "better": "lower",
        "n": 1,
        "trials": 1,
        "missing": {},
        "median": pytest.approx(0.5, abs=1e-6),
        "ci95": None,
        "min": pytest.approx(0.5, abs=1e-6),
        "max": pytest.approx(0.5, abs=1e-6),
        "predicted": None,
    }


def test_every_value_of_a_trial_is_a_defined_metric():
    for name in [*METRICS, "time_4kib", "algbw_1mib", "busbw_16mib"]:
        assert meaning(name).what
    with pytest.raises(KeyError):
        meaning("recoverytime")
    for name in metrics([recovery().trial()]):
        assert meaning(name.rpartition(".")[2]).what


# --- a real record --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def faults():
    return load_experiment(ROOT / "experiments" / "faults.yaml")


def test_the_summary_of_a_real_record_agrees_with_its_marks(faults):
    found = summarise("run", faults, list(read_events(RECORDED)))
    assert [trial.arm for trial in found.trials] == ["rank-kill", "dark-circuit", "rank-freeze"]
    for trial in found.trials:
        marks = trial.marks.relative()
        assert trial.valid
        assert trial.recovered
        assert trial.lost_steps == 0
        order = ["t0", "t1", "t2", "t4", "t5", "t6", "t8", "t9", "t10", "t11"]
        assert [marks[name] for name in order] == sorted(marks[name] for name in order)
        assert 0 < trial.values["recovery_time"] < 1
        assert max(trial.marks.errors().values()) < 0.02
        assert 0 <= trial.receipt["at"] <= marks["t2"]
    kill, dark, freeze = (trial.marks.relative() for trial in found.trials)
    assert freeze["t1"] > 0.1 > kill["t1"]
    assert "t3" not in dark
    assert found.trials[2].witnesses.keys() == {"heartbeat-missed"}


def test_the_same_record_gives_the_same_summary(faults):
    first, again = (summarise("run", faults, list(read_events(RECORDED))) for _ in range(2))
    assert first.to_json() == again.to_json()


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_record_cut_at_any_byte_still_gives_a_summary(faults, tmp_path, data):
    whole = RECORDED.read_bytes()
    cut = data.draw(st.integers(0, len(whole) - 2))
    path = tmp_path / "events.jsonl"
    path.write_bytes(whole[:cut])
    found = summarise("run", faults, list(read_events(path)))
    assert (found.outcome, found.exit_code) == ("error", 4)
    assert all(row["variant"] for row in found.to_json()["trials"])
    ended = whole[:cut].count(b'"kind": "trial.end"')
    assert sum(trial.valid for trial in found.trials) in (ended, ended - 1)


def test_a_trial_with_another_number_of_ranks_has_its_own_steps():
    log = Log()
    log.begin()
    log.measure(0.0)
    for number in range(5):
        log.step(1.0 + number / 10, number, ranks=2)
    assert log.trial().values["steps"] == 5


def test_a_run_that_waited_in_a_queue_says_how_it_was_let_in(experiment):
    said = {"policy": "irs", "waited": 34.2, "expected": 41.0, "behind": "a0: held by them: other"}

    def with_lease(**data):
        taken = Event(1, 0.5, "lease.taken", data={"resources": ["a0"], **data})
        return summarise("run", experiment(MET), [GOOD[0], taken, *GOOD[1:], run_end()])

    found = with_lease(**said)
    assert found.to_json()["admission"] == said
    assert str(found.admission) == "by irs, after 34 s (expected 41 s): a0: held by them: other"
    found = with_lease(policy="irs", waited=0.0, expected=0.0, behind="")
    assert str(found.admission) == "by irs, at once: nothing was in its way"
    assert with_lease().to_json()["admission"] is None, "it waited in no queue"
