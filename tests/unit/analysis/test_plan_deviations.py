"""What a run did otherwise than planned, and the cause that its events name."""

import copy

import pytest

from testbed.analysis.plan_deviations import _named, deviations
from testbed.events import Event
from testbed.events.origin import Origin


def circuit(one, other):
    ends = [dict(zip(("host", "port"), end.split("."), strict=True)) for end in (one, other)]
    return dict(zip("ab", ends, strict=True))


RING, SPLICED = [circuit("h0.p1", "h1.p0")], [circuit("h0.p1", "h2.p0")]
RING_NAMES, SPLICED_NAMES = ["h0.p1–h1.p0"], ["h0.p1–h2.p0"]
CUT = {"kind": "power-cut", "rank": 1, "step": 8, "phase": 0.5, "hold": None, "port": ""}
RECOVERY = {
    "job": "main",
    "controller": "splice",
    "decisions": [{"victim": "h1", "replacement": "h2"}],
    "fences": [{"host": "h1", "means": "none"}],
    "circuits": [SPLICED],
    "hosts": ["h0", "h2"],
}
PLAN = {
    "steps": [
        {"do": "OpenInstruments", "switches": ["ocs"], "power": [], "attenuators": []},
        {"do": "OpenHosts", "hosts": ["h0", "h1", "h2"]},
        {
            "do": "RunTrial",
            "number": 0,
            "arm": "warm",
            "faults": [CUT],
            "far_end_faults": [{"kind": "switch-busy", "switch": "ocs", "step": 3, "entry": 1}],
            "recoveries": [RECOVERY],
        },
    ],
    "arms": [
        {
            "name": "warm",
            "jobs": [{"name": "main", "hosts": ["h0", "h1"], "circuits": RING, "asked": []}],
            "controllers": [{"name": "splice", "job": "main", "circuits": []}],
            "faults": [{"options": {}}, {"options": {"delay": 0.005}}],
        }
    ],
}


def event(seq, kind, subject, trial=0, cause=None, **data):
    origin = Origin("main", "main", cause=cause)
    return Event(seq, float(seq), kind, subject, trial, data, origin)


INJECTED = {"rank": 1, "fault": "power-cut", "held": False}
RUN = (
    event(1, "instrument.ready", "ocs", None),
    event(2, "host.ready", "h0", None),
    event(3, "fabric.change", "main", None, circuits=RING_NAMES),
    event(4, "generation", "rank 0", None, rank=0, generation=1, host="h0"),
    event(5, "generation", "rank 1", None, rank=1, generation=1, host="h1"),
    event(6, "trial.begin", "warm"),
    event(7, "far-end.fault", "ocs", fault="switch-busy", scope={"delay": 0.005}),
    event(8, "symptom", "rank 0", source="carrier"),
    event(9, "fault.inject", "h1", **INJECTED),
    event(10, "recovery.decided", "h1", cause=8, because="h1 is off", replacement="h2"),
    event(15, "recovery.fenced", "h1", cause=10, rank=1, by="none", means="its outlet reads off"),
    event(11, "fabric.change", "recovery", cause=10, circuits=SPLICED_NAMES),
    event(12, "membership", "main", cause=10, hosts=["h0", "h2"]),
    event(13, "trial.end", "warm", reason="", response="recovered"),
    event(14, "run.end", "", None, error="", signals=[]),
)


def told(plan, events):
    return [str(one) for one in deviations(plan, events)]


def run(**replaced):
    """Return the events of the run, some by number replaced, or left out with None."""
    changed = {int(name[1:]): one for name, one in replaced.items()}
    return [one for one in (changed.get(one.seq, one) for one in RUN) if one is not None]


def test_a_run_that_went_as_planned_has_no_deviations():
    assert told(PLAN, RUN) == []


def test_a_rank_on_another_host_than_planned_is_found_and_has_no_cause():
    moved = run(_5=event(5, "generation", "rank 1", None, rank=1, generation=1, host="h2"))
    assert told(PLAN, moved) == [
        "trial 0 begins with job main on h0, h2: nothing says why",
        "trial 0: power-cut hit rank 1 on h1, not rank 1: nothing says why",
    ]


def test_a_job_that_is_started_anew_with_fewer_ranks_has_no_places_from_before():
    plan = copy.deepcopy(PLAN)
    alone = {"name": "main", "hosts": ["h0"], "circuits": SPLICED, "asked": []}
    plan["arms"].append({"name": "alone", "jobs": [alone], "controllers": [], "faults": []})
    trial = {**plan["steps"][2], "number": 1, "arm": "alone", "faults": []}
    plan["steps"].append({**trial, "far_end_faults": [], "recoveries": []})
    later = (
        event(20, "generation", "rank 0", 1, rank=0, generation=1, host="h0"),
        event(21, "trial.begin", "alone", 1),
        event(22, "trial.end", "alone", 1, reason=""),
    )
    assert told(plan, [*RUN, *later]) == []
    because = "symptom 8 of rank 0 carrier"
    assert told(plan, [*RUN, *later[1:]]) == [f"trial 1 begins with job main on h0, h2: {because}"]


def test_other_circuits_at_the_beginning_of_a_trial_are_found():
    crossed = run(_3=event(3, "fabric.change", "main", None, circuits=SPLICED_NAMES))
    assert told(PLAN, crossed)[0] == (
        "trial 0 begins with job main on other circuits: nothing says why"
    )


def test_circuits_that_ranks_asked_for_before_a_trial_name_who_asked():
    asked = event(20, "circuits.asked", "rank 1", None, number=0, circuits=1, of=[0, 1])
    changed = event(21, "fabric.change", "circuit-requests", None, 20, circuits=SPLICED_NAMES)
    assert told(PLAN, [*RUN[:5], asked, changed, RUN[5]])[0] == (
        "trial 0 begins with job main on other circuits: circuits.asked 20 of rank 1"
    )


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"subject": "someone"}, "nothing says why"),
        ({"subject": "recovery", "cause": 8}, "symptom 8 of rank 0 carrier"),
        ({"subject": "light"}, "light above a limit"),
    ],
)
def test_circuits_beyond_the_plan_name_what_led_to_them(change, cause):
    extra = event(11, "fabric.change", **change, circuits=[])
    (first, *_) = told(PLAN, run(_11=extra))
    assert first == (
        f"trial 0: {change['subject']} gave job main other circuits than planned: {cause}"
    )


def test_circuits_that_a_planned_fault_takes_down_are_planned():
    plan = copy.deepcopy(PLAN)
    plan["steps"][2]["faults"][0]["kind"] = "dark-circuit"
    fault = event(9, "fault.inject", "h1", **INJECTED | {"fault": "dark-circuit"})
    dark = event(8, "fabric.change", "dark-circuit", circuits=[])
    assert told(plan, run(_8=dark, _9=fault)) == []


def test_circuits_of_a_controller_that_the_plan_lists_are_planned():
    plan = copy.deepcopy(PLAN)
    plan["steps"][2]["recoveries"] = []
    plan["arms"][0]["controllers"][0]["circuits"] = [SPLICED]
    assert told(plan, run(_10=None, _12=None, _15=None)) == []


def test_a_recovery_that_was_not_predicted_names_what_was_observed():
    plan = copy.deepcopy(PLAN)
    plan["steps"][2]["recoveries"] = []
    because = "symptom 8 of rank 0 carrier"
    assert told(plan, RUN) == [
        f"trial 0: h2 replaced h1, which was not predicted: {because}",
        f"trial 0: h1 was fenced by none, which was not predicted: {because}",
        f"trial 0: recovery gave job main other circuits than planned: {because}",
        f"trial 0: job main went on on h0, h2: {because}",
    ]


def test_a_predicted_recovery_that_did_not_come_names_what_the_job_did_instead():
    rode = event(13, "trial.end", "warm", reason="", response="rode out")
    assert told(PLAN, run(_10=None, _11=None, _12=None, _13=rode, _15=None)) == [
        "trial 0: h2 did not replace h1: rode out",
        "trial 0: h1 was not fenced by none: rode out",
    ]


def test_a_fence_by_other_means_than_predicted_names_what_was_observed():
    fenced = event(15, "recovery.fenced", "h1", cause=10, rank=1, by="network", means="no circuit")
    assert told(PLAN, run(_15=fenced)) == [
        "trial 0: h1 was fenced by network, which was not predicted: symptom 8 of rank 0 carrier",
        "trial 0: h1 was not fenced by none: recovered",
    ]


def test_a_fault_with_other_options_than_planned_has_no_cause():
    assert told(PLAN, run(_9=event(9, "fault.inject", "h1", **INJECTED, options={}))) == []
    given = event(9, "fault.inject", "h1", **INJECTED, options={"delay": 2.0})
    assert told(PLAN, run(_9=given)) == [
        "trial 0: power-cut hit rank 1 on h1 with {'delay': 2.0}, not with {}: nothing says why"
    ]


def test_a_fault_that_did_not_happen_names_why_the_trial_came_to_nothing():
    ended = event(13, "trial.end", "warm", reason="stood still for 9 s", response=None)
    assert told(PLAN, run(_9=None, _13=ended)) == [
        "trial 0: power-cut did not happen: stood still for 9 s"
    ]


def test_a_fault_of_another_rank_or_kind_or_held_otherwise_has_no_cause():
    other = event(9, "fault.inject", "h0", **INJECTED | {"rank": 0, "held": True})
    hit = "trial 0: power-cut hit rank 0 on h0"
    assert told(PLAN, run(_9=other)) == [
        f"{hit}, not rank 1: nothing says why",
        f"{hit}, and was held otherwise than planned: nothing says why",
    ]
    killed = event(9, "fault.inject", "h1", **INJECTED | {"fault": "rank-kill"})
    assert "trial 0: rank-kill hit rank 1 on h1: nothing says why" in told(PLAN, run(_9=killed))


def test_a_fault_of_a_far_end_with_other_options_is_found():
    armed = event(7, "far-end.fault", "ocs", fault="switch-busy", scope={"delay": 1.0})
    assert told(PLAN, run(_7=armed)) == [
        "trial 0: switch-busy of ocs with {'delay': 1.0}: nothing says why",
        "trial 0: switch-busy did not happen: recovered",
    ]


def test_a_trial_that_was_not_run_names_what_ended_the_run():
    broken = run(_14=event(14, "run.end", "", None, error="ocs: no reply", signals=[]))
    before = [one for one in broken if one.seq < 6 or one.seq == 14]
    assert told(PLAN, before) == ["trial 0 was not run: ocs: no reply"]
    assert told(PLAN, before[:-1]) == ["trial 0 was not run: the record has no end"]


def test_a_trial_of_another_arm_and_a_host_beyond_the_plan_are_found():
    assert told(PLAN, run(_6=event(6, "trial.begin", "cold")))[0] == (
        "trial 0 ran cold: nothing says why"
    )
    assert told(PLAN, run(_2=event(2, "host.ready", "h9", None))) == [
        "h9 was opened: nothing says why"
    ]


def test_a_job_that_lives_on_begins_a_trial_where_the_recovery_before_has_left_it():
    plan = copy.deepcopy(PLAN)
    second = {**plan["steps"][2], "number": 1, "faults": []}
    plan["steps"].append({**second, "far_end_faults": [], "recoveries": []})
    later = [event(20, "trial.begin", "warm", 1), event(21, "trial.end", "warm", 1, reason="")]
    assert told(plan, [*RUN, *later]) == []


def test_a_run_of_a_model_has_trials_only():
    trial = {"do": "RunTrial", "number": 0, "arm": "main", "faults": [], "far_end_faults": []}
    ends = event(2, "trial.end", "main", reason="", response=None)
    assert told({"steps": [trial]}, [event(1, "trial.begin", "main"), ends]) == []


def test_circuits_that_pass_fibres_are_compared_with_these():
    ends = {"a": {"host": "h0", "port": "p0"}, "b": {"host": "h2", "port": "p1"}}
    assert _named([ends, {**ends, "via": ["f01a", "f12a"]}]) == {
        "h0.p0–h2.p1",
        "h0.p0–f01a–f12a–h2.p1",
    }
