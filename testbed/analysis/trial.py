"""The result of one trial: measured and predicted values, and whether the trial counts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from testbed.analysis.bandwidth import bandwidths
from testbed.analysis.causes import DECISION
from testbed.analysis.clocks import Clocks, Instant
from testbed.analysis.collective_choice import choice_values
from testbed.analysis.collectives import beside_the_model, collective_values
from testbed.analysis.dips import dip, ridden_dip
from testbed.analysis.fault_effect import Response
from testbed.analysis.marks import MarkFinder, Marks
from testbed.analysis.metric_definitions import PREDICTED, MetricDefinition, in_percent
from testbed.analysis.named_end import named_end
from testbed.analysis.rail_times import profile_of, rail_values
from testbed.analysis.reach import reach_values
from testbed.analysis.steps import (
    Span,
    Step,
    collective_share,
    end_digest,
    ends,
    spans,
    step_time,
)
from testbed.analysis.time_slots import time_slot_values
from testbed.analysis.trial_events import TrialEvents
from testbed.events import Event
from testbed.rails.profile import Profile as RailProfile
from testbed.rails.rail_replay import Rails

_SPANS = {
    "recovery_time": ("t0", "t10"),
    "return_to_service": ("t0", "t11"),
    "fabric_ready": ("t0", "t6"),
    "detection": ("t0", "t2"),
    "fencing": ("t2", "t3"),
    "planning": ("t3", "t4"),
    "commanding": ("t4", "t5"),
    "reconfiguration": ("t4", "t6"),
    "leaving": ("t3", "t7"),
    "restoring": ("t8", "t9"),
    "first_step": ("t9", "t10"),
}
"""Values that are the time from one mark to another."""

NO_RESULT = ("failed", "invalid", "not recovered")
"""Outcomes of trials whose values are no results."""

NO_RECOVERY = (*NO_RESULT, "not known", "ridden out")
"""Outcomes of trials that have no recovery time."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of one trial.

    It is valid when an observer other than the injector confirmed its fault. `response` is the
    response of the job to the fault, None where nothing was injected; `recovered` is true only
    where there is a recovery with a known time, false where the job did not recover, else None.
    """

    number: int
    arm: str
    valid: bool
    response: Response | None
    reason: str
    values: Mapping[str, float | str]
    predicted: Mapping[str, float]
    marks: Marks | None
    lost_steps: int | None
    receipt: Mapping[str, Any] | None
    witnesses: Mapping[str, float]
    """Observers of the failure before the decision; the first time of each, in seconds after t0."""
    retries: int = 0
    """How often something that failed was tried once more."""
    others: float | None = None
    """Share of the machine's processor time that other programs took meanwhile, where known."""
    metric_definitions: Mapping[str, MetricDefinition] = field(default_factory=dict)
    """What the experiment itself says of metrics that are its own."""
    step_ends: Mapping[float, int] = field(default_factory=dict)
    """When the steps ended that figures show, in order, in the log's seconds; of each, how many it
    is since the one before it, where not all are in the record."""
    step_spans: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """The spans between its steps by kind, where it is of one of several jobs."""
    rail_profile: RailProfile | None = None
    """What its ranks computed and communicated in some iterations, where they are in groups."""
    rails: Rails | None = None
    """How circuits were requested and how long a change took, where some were re-pointed."""
    replayed_from: RailProfile | None = None
    """That of the trial from which its iteration is predicted, without the delay of its switch."""
    controller: str = ""
    """The kind of the controller that decided first; empty where none did."""
    ended_by_name: bool = False
    """Its job could not go on, the reason names what was broken, and its arm has a check on that:
    then it has not failed, and its values are results."""

    @property
    def recovered(self) -> bool | None:
        """Return whether the job recovered; None where there was nothing to recover from.

        A fault that was ridden out, or of which that is not known, has no recovery; nor has one
        after which the job was expected to end.
        """
        if self.ended_by_name:
            return None
        return {"recovered": True, "not recovered": False}.get(self.response or "")

    @property
    def job_failed(self) -> bool:
        """Return whether the trial is valid and its job had failed at the end."""
        if self.ended_by_name:
            return False
        return self.valid and (self.recovered is False or bool(self.reason))

    @property
    def counts(self) -> bool:
        """Return whether its values are results: the trial is valid and its job had not failed."""
        return self.valid and not self.job_failed

    @property
    def outcome(self) -> str:
        """Return the outcome of the trial in a word or two."""
        if not self.valid:
            return "invalid"
        if self.ended_by_name:
            return "ended by name"
        if self.response is None:
            return "failed" if self.job_failed else "done"
        return "not recovered" if self.job_failed else self.response


def analyse_trial(number: int, trial: TrialEvents, clocks: Clocks, job: str = "") -> TrialResult:
    """Compute the result of one trial from its events; `job` names theirs where it has several."""
    events, ranks = trial.others, trial.reports.ranks
    begin = next((e.subject for e in events if e.kind == "trial.begin"), "")
    end = _end(events, job)
    steps = trial.reports.finished(clocks, ranks)
    finder = MarkFinder(events, clocks, steps)
    injected = [event for event in events if event.kind == "fault.inject"]
    breaks = any(event.data.get("breaks", True) for event in injected)
    faulty = breaks or any(event.data.get("held", False) for event in injected)
    marks = finder.find() if faulty else None
    if marks and not breaks and marks.response == "not recovered":
        marks = None  # a job that was only slowed down had ended before it was let go
    fault = finder.fault()
    values = _job_values(trial, steps, clocks, marks.at.get("t0") if marks else fault)
    values |= collective_values(trial.samples, clocks, ranks, fault)
    values |= collective_share(steps, fault) if job else {}
    if fault is not None and not breaks:
        values |= choice_values([step for step in steps if not step.work], fault)
    predicted = _predictions(events)
    values |= beside_the_model(values, predicted)
    if marks is not None:
        values |= _recovery_values(finder, steps, marks)
    lost = _lost_steps(finder) if marks else None
    values |= named_end(events, end, fault) | ({} if lost is None else {"lost_steps": lost})
    return TrialResult(
        number=number,
        arm=f"{begin}.{job}" if job else begin,
        valid=end is not None and end.data["valid"],
        response=_response(marks, end) if marks else None,
        reason=end.data["reason"] if end else "the record ends before the trial does",
        values=in_percent(values),
        predicted=in_percent(predicted),
        marks=marks,
        lost_steps=lost,
        receipt=_receipt(events, finder),
        witnesses=_witnesses(events, finder, marks),
        controller=next((_kind(e) for e in events if e.kind == DECISION), ""),
        retries=sum(event.kind == "retry" for event in events),
        others=next((event.data["others"] for event in events if event.kind == "load"), None),
        metric_definitions={name: said for name, (_, said) in _readings(events).items()},
        step_ends=ends([step for step in steps if marks or not step.work]),
        step_spans=spans(steps) if job else {},
        rail_profile=profile_of(number, (*trial.samples, *trial.others), clocks),
    )


def _end(events: Sequence[Event], job: str) -> Event | None:
    """Return the event that ends a trial; of one of several jobs, it says how that one ended."""
    end = next((event for event in events if event.kind == "trial.end"), None)
    if end is None or not job:
        return end
    failed = end.data.get("failures", {}).get(job, "")
    reason = failed if end.data["valid"] else end.data["reason"]
    return replace(end, data={**end.data, "recovered": not failed, "reason": reason})


def _kind(event: Event) -> str:
    """Return the kind of the controller that an event names: "splice of main" is one of many."""
    return event.origin.controller.partition(" of ")[0]


def _readings(events: Sequence[Event]) -> dict[str, tuple[float, MetricDefinition]]:
    """Return what was read from the output of programs, with what the experiment says of it."""
    return {
        event.subject: (
            event.data["value"],
            MetricDefinition(event.data["unit"], event.data["better"], ""),
        )
        for event in events
        if event.kind == "reading"
    }


def _response(marks: Marks, end: Event | None) -> Response:
    """Return what the job did; a job that was not well at the end of its trial is not recovered."""
    is_well = end is None or bool(end.data["recovered"])
    return marks.response if is_well else "not recovered"


def _predictions(events: Sequence[Event]) -> dict[str, float]:
    """Return what the log predicted, by the name of the value: its last word about each."""
    terms: dict[str, Any] = {}
    values: dict[str, float] = {}
    for event in events:
        if event.kind == "prediction":
            terms |= event.data
            values |= event.data.get("values", {})
    return values | {name: terms[term] for name, term in PREDICTED.items() if term in terms}


def _recovery_values(finder: MarkFinder, steps: Sequence[Step], marks: Marks) -> dict[str, float]:
    t = marks.relative()
    values = {name: t[b] - t[a] for name, (a, b) in _SPANS.items() if a in t and b in t}
    ready = [at.late - marks.at["t0"].early for _, at in finder.seen("rank.ready")]
    ready += [t[name] for name in ("t5", "t6", "t7") if name in t]
    if {"t8", "t10"} <= t.keys() and ready:
        prepared = max(ready)
        since = max((t[name] for name in ("t2", "t3", "t6") if name in t), default=0.0)
        values |= {"waiting": prepared - since, "joining": t["t8"] - prepared}
        values |= {"resuming": t["t10"] - prepared}
    if "t10" in t and (ahead := finder.caught_up()) is not None:
        values["caught_up"] = ahead.late - marks.at["t0"].early
    if marks.response == "ridden out":
        return values | ridden_dip(steps, marks)
    return values | dip(steps, marks)


def _job_values(
    trial: TrialEvents, steps: Sequence[Step], clocks: Clocks, zero: Instant | None
) -> dict[str, float | str]:
    """Return what the job itself did, before the fault where there was one."""
    trained = [step for step in steps if not step.work]
    quiet = [step for step in trained if zero is None or step.end.late < zero.early]
    events, ranks = trial.others, trial.reports.ranks
    values: dict[str, float | str] = dict(bandwidths(trial.samples, clocks, ranks))
    values |= time_slot_values(trial.samples)
    values |= {name: value for name, (value, _) in _readings(events).items()}
    values |= reach_values(events)
    if (normal := step_time(quiet)) is not None:
        values["step_time"] = normal
    if rates := [step.bytes_sent * 8 / step.collective for step in quiet if step.collective > 0]:
        values["busbw"] = statistics.median(rates)
    if quiet:
        overhead = trial.reports.wire_overhead(quiet[-1].generation, quiet[-1].number)
        values |= {} if overhead is None else {"wire_overhead": overhead}
    counted = next((e.data["completed"] for e in events if e.kind == "steps.counted"), None)
    if steps:
        values["steps"] = counted or steps[-1].number + 1
    is_last = bool(trained) and counted in (None, trained[-1].number + 1)
    if is_last and trained[-1].loss is not None:
        values["loss"] = trained[-1].loss
    digest = end_digest(events)
    if digest and ranks:  # a program has no state that we could know
        values["digest"] = digest
    values |= rail_values(trial.samples, events)
    for event in events:
        values |= event.data if event.kind == "model" else {}
    return values


def _lost_steps(finder: MarkFinder) -> int | None:
    """Return how many steps that some rank had committed were done again.

    Where the ranks did not leave but were ended, those count that all had finished, as before a
    checkpoint all were, although the last reports may be lost with a host.
    """
    left = {event.data["committed"] for event, _ in finder.seen("rank.left")} - {None}
    agreed: list[int] = [event.data["step"] for event, _ in finder.seen("state.restored")]
    return max(0, max(left or finder.finished_before()) - agreed[-1]) if agreed else None


def _receipt(events: Sequence[Event], finder: MarkFinder) -> dict[str, Any] | None:
    event = next((event for event in events if event.kind == "fault.receipt"), None)
    zero = finder.fault()
    if event is None or zero is None:
        return None
    at = finder.instant(event).late - zero.early
    return {"observer": event.subject, "at": round(at, 6)}


def _witnesses(
    events: Sequence[Event], finder: MarkFinder, marks: Marks | None
) -> dict[str, float]:
    """Return the observers of the failure before the decision; later ones may see the repair."""
    if marks is None or "t0" not in marks.at:
        return {}
    decided = marks.at["t2"].late if "t2" in marks.at else math.inf
    seen: dict[str, float] = {}
    for event in events:
        if event.kind in ("symptom", "rank.exit", "host.lost"):
            source = event.data.get("source", event.kind)
            instant = finder.instant(event)
            at = instant.late - marks.at["t0"].early
            if at >= 0 and instant.early <= decided and not event.data.get("up", False):
                seen[source] = round(min(at, seen.get(source, at)), 6)
    return seen
