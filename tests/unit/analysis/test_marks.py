"""Marks and values of trials whose answer is known by arithmetic."""

import hashlib
from dataclasses import replace

import pytest

from testbed.events.origin import Origin
from tests.unit.analysis.logs_by_hand import Log, recovery

AT = {
    "t0": 0.0,
    "t1": 0.010,
    "t2": 0.020,
    "t3": 0.030,
    "t4": 0.035,
    "t5": 0.040,
    "t6": 0.080,
    "t7": 0.050,
    "t8": 0.205,
    "t9": 0.305,
    "t10": 0.5,
    "t11": 1.0,
}
"""When the recovery written by hand reaches each mark."""


def about(expected):
    return pytest.approx(expected, abs=2e-6)


def test_a_recovery_has_every_mark_and_every_span_between_them():
    trial = recovery().trial()
    assert trial.valid
    assert trial.recovered
    assert trial.marks.relative() == about(AT)
    assert trial.values == about(
        {
            "recovery_time": 0.5,
            "return_to_service": 1.0,
            "caught_up": 0.5,
            "fabric_ready": 0.08,
            "detection": 0.02,
            "fencing": 0.01,
            "planning": 0.005,
            "commanding": 0.005,
            "reconfiguration": 0.045,
            "leaving": 0.02,
            "waiting": 0.0,
            "joining": 0.125,
            "resuming": 0.42,
            "restoring": 0.1,
            "first_step": 0.195,
            # until t11 four steps were finished, which would have taken 0.4 s
            "dip": 1.0 - 0.4,
            "plateau": 1.0,
            "step_time": 0.1,
            "busbw": 1_000_000 * 8 / 0.04,
            "steps": 20,
            "lost_steps": 0,
            "loss": 5.0 - 1.9,
        }
    )
    assert trial.lost_steps == 0
    assert trial.receipt == {"observer": "h0.p1 carrier", "at": about(0.010)}
    assert trial.witnesses == about({"carrier": 0.010})


def test_a_recovery_includes_the_wait_for_the_spare():
    log = recovery()
    log.on("h4", 2.15, "rank.ready", rank=1)
    values = log.trial().values
    assert values["waiting"] == about(0.07)
    assert values["joining"] == about(0.055)
    assert values["resuming"] == about(0.35)


def test_host_clocks_a_thousand_seconds_apart_give_the_same_marks():
    apart, together = recovery(ahead=1000.0).trial(), recovery().trial()
    assert apart.marks.relative() == about(together.marks.relative())
    assert apart.values == pytest.approx(together.values, rel=1e-6, abs=2e-6)


def test_clock_uncertainty_never_shortens_a_recovery():
    exact, loose = recovery().trial(), recovery(ahead=1000.0, bound=0.003).trial()
    difference = {
        name: t - exact.marks.relative()[name] for name, t in loose.marks.relative().items()
    }
    by_hosts = {"t1", "t6", "t7", "t8", "t9", "t10", "t11"}
    assert difference == about({name: 0.003 if name in by_hosts else 0.0 for name in AT})
    assert loose.marks.errors() == about({name: 0.006 if name in by_hosts else 0.0 for name in AT})


def test_a_fault_that_takes_effect_over_an_interval_counts_from_its_beginning():
    log = recovery()
    log.events = [event for event in log.events if event.kind != "fault.inject"]
    log.fault(2.0, until=2.008)
    trial = log.trial()
    assert trial.marks.relative() == about(AT)
    assert trial.marks.errors()["t0"] == about(0.008)


def test_a_fault_on_a_host_is_an_interval_of_that_hosts_clock():
    log = recovery(ahead=1000.0, bound=0.002)
    log.events = [event for event in log.events if event.kind != "fault.inject"]
    sent, done = (t + log.ahead["h1"] for t in (2.0, 2.001))
    log.write(2.05, "fault.inject", "h1", fault="rank-kill", host="h1", mono=[sent, done])
    trial = log.trial()
    # 2 ms earlier than it was sent, at the earliest; every other mark 2 ms late
    assert trial.values["recovery_time"] == about(0.5 + 0.002 + 0.002)
    assert trial.values["detection"] == about(0.02 + 0.002)
    assert trial.marks.errors()["t0"] == about(0.001 + 2 * 0.002)


def test_a_fault_on_a_host_whose_clock_was_never_measured_has_no_instant():
    log = recovery()
    log.events = [event for event in log.events if event.kind != "fault.inject"]
    log.ahead["h9"] = 0.0
    log.write(2.0, "fault.inject", "h9", fault="rank-kill", host="h9", mono=[2.0, 2.0])
    trial = log.trial()
    assert trial.marks.relative() == {}
    assert not trial.recovered
    assert "recovery_time" not in trial.values


def test_a_job_that_never_recovers_has_only_the_marks_it_reached():
    log = Log()
    log.begin()
    log.measure(0.5)
    log.steps(1.0, range(10))
    log.fault(2.0)
    log.receipt(2.010)
    log.on("h0", 2.010, "symptom", source="carrier", port="p1", up=False)
    log.write(2.020, "recovery.decided", "h1")
    log.end(60.0, recovered=False, reason="not recovered within 60 s")
    trial = log.trial()
    assert trial.valid
    assert trial.recovered is False
    assert trial.marks.relative() == about({"t0": 0.0, "t1": 0.010, "t2": 0.020})
    assert trial.values.keys() == {"detection", "step_time", "busbw", "steps", "loss"}
    assert trial.lost_steps is None
    assert trial.reason == "not recovered within 60 s"


def test_no_steps_count_as_lost_before_the_ranks_agree_on_one():
    log = Log()
    log.begin()
    for rank in range(4):
        log.on(f"h{rank}", 0.1, "state.restored", rank=rank, step=0)
    log.measure(0.5)
    log.steps(1.0, range(10))
    log.fault(2.0)
    log.on("h0", 2.05, "rank.left", rank=0, committed=10)
    log.end(60.0, recovered=False)
    assert log.trial().lost_steps is None


def test_steps_that_some_rank_had_committed_and_all_do_again_are_lost():
    log = recovery()
    log.on("h3", 2.051, "rank.left", rank=3, committed=11)
    log.on("h5", 2.052, "rank.left", rank=None, committed=None)
    assert log.trial().lost_steps == 1


def test_a_job_that_repeats_steps_has_caught_up_once_a_new_step_is_done():
    log = recovery()
    log.events = [  # the newcomers go on from step 8; ten steps were done before the fault
        replace(e, data=e.data | {"step": e.data["step"] - 2})
        if e.kind in ("step", "state.restored") and e.t > 2.0
        else e
        for e in log.events
    ]
    values = log.trial().values
    assert values["lost_steps"] == 2
    # steps 8 and 9 end 0.5 and 0.7 s after the fault, step 10 after 0.9 s
    assert (values["recovery_time"], values["caught_up"]) == about((0.5, 0.9))


def test_steps_before_a_checkpoint_whose_last_reports_were_lost_are_not_lost_steps():
    log = recovery()
    log.events = [
        replace(e, data=e.data | {"step": 12}) if e.kind == "state.restored" else e
        for e in log.events
        if e.kind != "rank.left"
    ]
    assert log.trial().lost_steps == 0


def test_a_job_that_recovers_and_fails_again_did_not_recover():
    log = recovery()
    log.events = [e for e in log.events if e.kind != "trial.end" and e.t < 2.8]
    log.measure(2.75)
    log.write(2.8, "recovery.decided", "h3")
    log.on("h3", 2.81, "symptom", source="exit")
    log.end(60.0, recovered=False, reason="no spare host is left")
    trial = log.trial()
    assert trial.recovered is False
    assert trial.marks.relative() == about({k: v for k, v in AT.items() if k != "t11"})
    assert trial.reason == "no spare host is left"


def test_a_second_recovery_changes_no_mark_but_that_of_throughput():
    log = recovery()
    log.write(3.3, "recovery.decided", "h3")
    log.write(3.31, "recovery.fenced", "h3")
    log.write(3.4, "fabric.change", "recovery", commanded=3.35, read_back=3.4)
    log.on("h3", 3.5, "link.good", "elsewhere")
    assert log.trial().marks.relative() == about(AT)


def test_a_trial_without_any_step_has_only_the_mark_of_the_fault():
    log = Log()
    log.begin()
    log.measure(0.5)
    log.fault(1.0)
    log.end(60.0, recovered=False)
    trial = log.trial()
    assert trial.recovered is False
    assert trial.marks.relative() == {"t0": 0.0}
    assert trial.values == {}


def test_without_a_fault_there_is_nothing_to_recover_from():
    log = Log()
    log.begin()
    log.measure(0.5)
    log.steps(1.0, range(10))
    log.end(3.0)
    trial = log.trial()
    assert trial.recovered is None
    assert trial.marks is None
    assert trial.receipt is None
    assert trial.lost_steps is None
    assert trial.values["step_time"] == about(0.1)


def test_a_fault_before_the_first_step_is_over_only_in_a_new_generation():
    log = Log()
    log.begin()
    log.measure(0.5)
    log.fault(0.9)
    log.receipt(0.910)
    log.on("h0", 0.910, "symptom", source="carrier", port="p1", up=False)
    log.step(0.95, 0)  # the step that was under way, finished by all before they left
    log.splice(0.9)
    log.steps(1.4, range(1, 9), generation=2)
    log.end(3.0)
    trial = log.trial()
    assert trial.recovered
    assert trial.marks.relative()["t10"] == about(0.5)
    assert "t11" not in trial.marks.at
    assert "dip" not in trial.values
    assert "step_time" not in trial.values


LED = {
    "recovery.decided": "symptom",
    "recovery.fenced": "recovery.decided",
    "fabric.change": "recovery.decided",
    "link.good": "recovery.decided",
}
"""What led to the events of a recovery, kind by kind."""


def with_causes(job="main"):
    """Return the recovery, in which each event names its cause and nothing is named for it."""
    log = recovery()
    first = {event.kind: event.seq for event in reversed(log.events)}
    log.events = [
        replace(event, origin=Origin(job, cause=first[LED[event.kind]]), subject="main")
        if event.kind in LED
        else event
        for event in log.events
    ]
    log.events = [
        changed(event, added=["ocs.1→18"]) if event.kind == "fabric.change" else event
        for event in log.events
    ]
    return log, Origin(cause=first["recovery.decided"])


def test_marks_are_found_by_cause():
    log, _ = with_causes()
    assert log.trial().marks.relative() == about(AT)


def test_a_change_that_something_else_led_to_reaches_no_mark():
    log, _ = with_causes()
    other = Origin(cause=log.write(2.1, "note", "a timer of another controller").seq)
    times = {"commanded": 2.2, "read_back": 2.3, "added": ["ocs.5→22"]}
    log.write(2.3, "fabric.change", "recovery", origin=other, **times)
    log.write(2.3, "recovery.fenced", "h5", origin=other)
    log.write(2.4, "link.good", "h5.p0–h6.p1", origin=other)
    assert log.trial().marks.relative() == about(AT)


def test_a_change_by_which_a_victim_is_fenced_is_no_command_of_new_circuits():
    log, decision = with_causes()
    times = {"commanded": 2.041, "read_back": 2.042, "added": []}
    log.write(2.042, "fabric.change", "fence", origin=decision, **times)
    assert log.trial().marks.relative() == about(AT)


def test_reports_of_another_job_reach_no_mark():
    log, _ = with_causes()
    for kind in ("rank.left", "generation", "state.restored"):
        log.write(2.45, kind, "rank 0", origin=Origin("other"), rank=0, generation=2, step=10)
    assert log.trial().marks.relative() == about(AT)
    log.write(2.45, "generation", "rank 0", origin=Origin("main"), rank=0, generation=2)
    assert log.trial().marks.relative()["t8"] == about(0.45)


def test_a_step_whose_sums_are_wrong_ends_no_recovery():
    log = recovery()
    log.events = [
        changed(event, verified=False)
        if event.kind == "step" and event.data["step"] == 10 and event.data["rank"] == 2
        else event
        for event in log.events
    ]
    assert log.trial().marks.relative()["t10"] == about(0.7)


def test_a_step_after_which_ranks_differ_ends_no_recovery():
    log = recovery()
    log.events = [
        changed(event, digest="other")
        if event.kind == "step" and event.data["step"] == 10 and event.data["rank"] == 2
        else event
        for event in log.events
    ]
    assert log.trial().marks.relative()["t10"] == about(0.7)


def test_a_step_that_some_rank_never_finished_does_not_count_as_a_step():
    log = recovery()
    log.events = [
        event
        for event in log.events
        if not (event.kind == "step" and event.data["step"] == 10 and event.data["rank"] == 3)
    ]
    assert log.trial().marks.relative()["t10"] == about(0.7)


def changed(event, **data):
    return replace(event, data=event.data | data)


def test_a_report_of_returning_light_is_not_a_symptom_of_the_fault():
    log = recovery()
    log.on("h3", 2.005, "symptom", source="carrier", port="p0", up=True)
    trial = log.trial()
    assert trial.marks.relative()["t1"] == about(0.010)
    assert trial.witnesses == about({"carrier": 0.010})


def test_observations_before_the_fault_give_no_marks_of_the_recovery():
    log = recovery()
    log.on("h3", 1.5, "symptom", source="carrier", port="p0", up=False)
    log.write(1.6, "fabric.change", "job", commanded=1.6, read_back=1.6)
    assert log.trial().marks.relative() == about(AT)


def test_every_detector_is_listed_with_its_first_observation():
    log = recovery()
    log.on("h1", 2.004, "rank.exit", code=-9)
    log.on("h2", 2.006, "symptom", source="peer-lost", neighbour="previous")
    log.on("h0", 2.009, "symptom", source="peer-lost", neighbour="next")
    log.write(2.015, "host.lost", "h1", reason="its agent's link ended")
    trial = log.trial()
    assert trial.witnesses == about(
        {"carrier": 0.010, "rank.exit": 0.004, "peer-lost": 0.006, "host.lost": 0.015}
    )
    assert trial.marks.relative()["t1"] == about(0.004)


def test_carrier_losses_caused_by_the_recovery_are_not_detections_of_the_fault():
    log = recovery()
    log.on("h2", 2.021, "symptom", source="peer-lost", neighbour="previous")
    assert log.trial().witnesses.keys() == {"carrier"}


def test_throughput_is_back_with_the_first_of_five_steps_as_fast_as_before():
    log = Log()
    log.begin()
    log.measure(0.5)
    log.steps(1.0, range(10))
    log.fault(2.0)
    log.splice(2.0)
    log.steps(2.5, range(10, 30), generation=2, every=0.106)
    log.end(6.0)
    assert "t11" not in log.trial().marks.at  # 94 % of the rate before
    log = Log()
    log.begin()
    log.measure(0.5)
    log.steps(1.0, range(10))
    log.fault(2.0)
    log.splice(2.0)
    log.steps(2.5, range(10, 30), generation=2, every=0.105)
    log.end(6.0)
    assert log.trial().marks.relative()["t11"] == about(0.605)


def test_throughput_is_not_back_after_only_four_fast_steps():
    log = recovery()
    last = 2.5 + 2 * 0.2 + 4 * 0.1 + 0.05
    log.events = [event for event in log.events if event.t < last or event.kind != "step"]
    assert "t11" not in log.trial().marks.at


def test_a_late_report_of_a_replaced_host_changes_no_mark():
    log = recovery()
    log.on("h1", 1.999, "step", "h1", rank=None, generation=1, step=9, bytes=1)
    assert log.trial().marks.relative() == about(AT)


def test_collectives_shorter_than_the_clock_error_have_no_bandwidth():
    log = Log()
    log.begin()
    log.measure(0.5)
    for number in range(5):
        log.step(1.0 + number / 10, number, collective=[1.0, 1.0])
    log.end(3.0)
    assert "busbw" not in log.trial().values


def test_predicted_values_of_a_trial_are_paired_with_measured_ones():
    log = recovery()
    log.write(1.99, "prediction", "warm", total=0.45, noticing=0.002, state=0.08, settle=0.025)
    assert log.trial().predicted == {
        "recovery_time": 0.45,
        "detection": 0.002,
        "restoring": 0.08,
    }


def test_the_digest_of_a_trial_is_the_final_digest_that_all_ranks_share():
    log = recovery()
    for rank in range(4):
        log.on(f"h{rank}", 3.95, "job.done", rank=rank, digest="abc")
    assert log.trial().values["digest"] == "abc"
    log.on("h3", 3.96, "job.done", rank=3, digest="abd")
    assert "digest" not in log.trial().values


def test_the_digest_of_a_split_model_is_made_of_those_of_its_parts():
    def ended(*digests):
        log = recovery()
        for rank, digest in enumerate(digests):
            log.on(f"h{rank}", 3.95, "job.done", rank=rank, part=rank % 2, digest=digest)
        return log.trial().values.get("digest")

    digest = ended("a", "b", "a", "b")
    assert digest == hashlib.sha256(b"ab").hexdigest() != ended("b", "a", "b", "a")
    assert ended("a", "b", "a", "c") is None


def test_wire_overhead_compares_bytes_sent_with_those_of_the_collective():
    log = Log()
    log.begin()
    log.measure(0.5)
    for number in range(5):
        log.step(1.0 + number / 10, number, wire=7_000 + number * 1_100_000)
    log.end(3.0)
    assert log.trial().values["wire_overhead"] == pytest.approx(10)


def test_a_trial_cut_off_in_the_record_is_invalid():
    log = recovery()
    log.events = [event for event in log.events if event.kind != "trial.end"]
    trial = log.trial()
    assert not trial.valid
    assert trial.recovered
    assert trial.reason == "the record ends before the trial does"


@pytest.mark.parametrize(
    ("second", "recovered_after"),
    [
        (2.04, 0.5),  # during the recovery: the next step is one after both
        (2.45, 0.7),  # a step had begun by then, so the one after it counts
        (2.75, 0.9),  # after a step of the new generation had been finished
    ],
)
def test_of_several_faults_a_recovery_lasts_from_the_first_to_a_step_after_the_last(
    second, recovered_after
):
    log = recovery()
    log.fault(second, until=second + 0.01, rank=2)
    trial = log.trial()
    assert trial.marks.relative()["t0"] == 0
    assert trial.values["recovery_time"] == about(recovered_after)
