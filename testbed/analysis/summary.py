"""The summary of a run: trials, metrics, checks and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from testbed.analysis.admission import Admission, admission_of
from testbed.analysis.arms import Arm, arms
from testbed.analysis.checks import VALID_SHARE, CheckResult, evaluate
from testbed.analysis.clocks import Clocks
from testbed.analysis.delay_sweep import with_crossings
from testbed.analysis.destroyed_receivers import destroyed_receivers
from testbed.analysis.machine_load import busy_in_words
from testbed.analysis.metric_definitions import NAMED_END, MetricDefinition, own_metrics
from testbed.analysis.metrics import Metric, metrics
from testbed.analysis.rail_monitor import RemovedCircuits, watched
from testbed.analysis.rail_prediction import SweepArm, delay_sweeps, with_replays
from testbed.analysis.recover_attempts import RecoverAttempt, recoveries
from testbed.analysis.settings import Profile, Settings, flags, profiles_of, settings_of
from testbed.analysis.side_by_side import analyse_jobs
from testbed.analysis.trial import TrialResult
from testbed.analysis.trial_events import TrialEvents
from testbed.analysis.verdict import Outcome, cleanup_of, left_of, verdict_of
from testbed.events import Event
from testbed.schema import Arm as ExperimentArm
from testbed.schema import Experiment

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Retry:
    """An operation that failed and was retried: its subject, its name, and how it failed."""

    trial: int | None
    subject: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a run and its verdict."""

    run: str
    experiment: str
    lab: str
    label: str
    seed: int
    outcome: Outcome
    reason: str
    cleanup: str
    left: Sequence[str]
    """What could not be taken back."""
    exit_code: int
    trials: Sequence[TrialResult]
    metrics: dict[str, Metric]
    checks: Sequence[CheckResult]
    retries: Sequence[Retry] = ()
    """What failed and was tried once more, in trials and around them."""
    recovered: Sequence[RecoverAttempt] = ()
    """What `testbed recover` did after the run."""
    destroyed: Sequence[str] = ()
    """The receivers of the twin that too much light has destroyed."""
    health: Sequence[str] = ()
    """What was not as it should be before the first trial, and of the machine during them."""
    settings: Mapping[str, Settings] = field(default_factory=dict)
    """By arm, what its numbers rest on: delays in seconds, rates in bit/s, sizes in bytes."""
    profiles: Sequence[Profile] = ()
    """What the model expects with switches and links as they are reported."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """By `arm.metric`, why it is not what it seems."""
    valid_share: float = VALID_SHARE
    """Of the trials of each arm, how many must be valid."""
    sweeps: Sequence[Sequence[SweepArm]] = ()
    """Arms on rails with the same job, which differ in the delay of their circuits."""
    removed_circuits: RemovedCircuits = field(default_factory=RemovedCircuits)
    """Those that controllers of rails removed, and whether they had traffic."""
    admission: Admission | None = None
    """How the queue of the lab let the run start, where it waited in one."""

    @property
    def arms(self) -> dict[str, Arm]:
        """Return the arms by name, in the order in which they began."""
        return arms(self.trials, self.valid_share)

    def to_json(self) -> dict[str, Any]:
        """Return the summary in its public file format, version 1."""
        keys = ("run", "experiment", "lab", "label", "seed", "outcome", "reason", "cleanup")
        return {
            "format": FORMAT,
            **{key: getattr(self, key) for key in keys},
            "left": list(self.left),
            "exit_code": self.exit_code,
            "valid_share": round(self.valid_share, 9),
            "arms": {name: arm.to_json() for name, arm in self.arms.items()},
            "trials": [_trial_json(trial) for trial in self.trials],
            "metrics": {name: metric.to_json() for name, metric in self.metrics.items()},
            "flags": dict(self.flags),
            "settings": {arm: dict(found) for arm, found in self.settings.items()},
            "profiles": [asdict(profile) for profile in self.profiles],
            "checks": [check.to_json() for check in self.checks],
            "retries": [asdict(retry) for retry in self.retries],
            "recovered": [asdict(attempt) for attempt in self.recovered],
            "destroyed": list(self.destroyed),
            "health": list(self.health),
            "removed_circuits": self.removed_circuits.to_json(),
            "admission": self.admission and self.admission.to_json(),
        }


_OF_RUNS = frozenset(
    {
        *(
            "run.begin",
            "run.end",
            "lease.taken",
            "retry",
            "health",
            "receiver.destroyed",
            "settings",
        ),
        *("prediction", "note", "cleanup.begin", "cleanup.end", "recover.begin", "recover.end"),
    }
)
"""Events that say something of a run besides its trials."""


def summarise(
    run: str,
    experiment: Experiment,
    events: Iterable[Event],
    others: Iterable[Event] | None = None,
) -> Summary:
    """Return the summary of a run from its events; a truncated log gives a partial summary.

    No more than one trial's events are in memory at once, where `events` come from a file. They
    are needed twice, the first time only `others`: those besides steps and samples. The second
    time they may lack the `UNREAD` ones of `TrialEvents`.
    """
    clocks, of_run = Clocks(), []
    for event in events if others is None else others:
        clocks.add(event)
        if event.kind in _OF_RUNS:
            of_run.append(event)
    removed = RemovedCircuits()
    watched_events = watched(events, clocks, removed.of_trials)
    each = sorted(_analysed(watched_events, clocks), key=attrgetter("number"))
    crossed = with_crossings(experiment.arms(), each)
    expected = list(_with_named_ends(experiment, crossed))
    trials = with_replays(experiment.measured(), expected, settings_of(of_run))
    return _of_trials(run, experiment, of_run, trials, removed)


def _with_named_ends(
    experiment: Experiment, trials: Iterable[TrialResult]
) -> Iterator[TrialResult]:
    """Yield the trials; one that ended by name has not failed, where a check of its arm asks so."""
    asked = {check.arm for check in experiment.all_checks() if check.metric == NAMED_END}
    for trial in trials:
        ended = trial.arm in asked and NAMED_END in trial.values
        yield replace(trial, ended_by_name=True) if ended else trial


def _analysed(events: Iterable[Event], clocks: Clocks) -> Iterator[TrialResult]:
    """Yield what each trial came to; a run does them one after the other."""
    seen: set[int | None] = set()
    of_trials = (event for event in events if event.trial is not None)
    for number, mine in groupby(of_trials, key=attrgetter("trial")):
        if number in seen:
            raise ValueError(f"the events of trial {number} are not together")
        seen.add(number)
        trial = TrialEvents(mine)
        if trial.is_begun:
            yield from analyse_jobs(number, trial, clocks)


def _of_trials(
    run: str,
    experiment: Experiment,
    events: Sequence[Event],
    trials: Sequence[TrialResult],
    removed: RemovedCircuits,
) -> Summary:
    """Return what a run came to by its trials, and its other events."""
    begin = next((event.data for event in events if event.kind == "run.begin"), {})
    end = next((event.data for event in events if event.kind == "run.end"), None)
    found, share = metrics(trials), experiment.valid_share
    settings, measured = settings_of(events), experiment.measured()
    own = {name: _own_metrics(arm, job) for name, (arm, job) in measured.items()}
    wanted = experiment.all_checks()
    checks = [evaluate(one, trials, found, share, own[one.arm]) for one in wanted]
    recovered, destroyed = recoveries(events), destroyed_receivers(events)
    outcome, reason, code = verdict_of(
        arms(trials, share), trials, checks, end, recovered, destroyed, removed
    )
    return Summary(
        run=run,
        experiment=experiment.experiment,
        lab=begin.get("lab", ""),
        label=begin.get("label", ""),
        seed=begin.get("seed", 0),
        outcome=outcome,
        reason=reason,
        cleanup=cleanup_of(end, recovered, begin.get("label", "")),
        left=left_of(end, recovered),
        exit_code=code,
        trials=trials,
        metrics=found,
        checks=checks,
        retries=_retries(events),
        recovered=recovered,
        destroyed=destroyed,
        health=_health(trials, events),
        settings=settings,
        profiles=profiles_of(events),
        flags=flags(found, settings),
        valid_share=share,
        admission=admission_of(events),
        sweeps=delay_sweeps(measured, trials, settings),
        removed_circuits=removed,
    )


def _retries(events: Sequence[Event]) -> list[Retry]:
    found = (event for event in events if event.kind == "retry")
    return [Retry(e.trial, e.subject, e.data["what"], e.data["why"]) for e in found]


def _own_metrics(arm: ExperimentArm, job: str) -> dict[str, MetricDefinition]:
    """Return the metrics that a job of an arm defines; not every trial prints them."""
    return own_metrics(arm.experiment.jobs[job].options)


def _health(trials: Sequence[TrialResult], events: Sequence[Event]) -> list[str]:
    """Return what was not as it should be before the run, and how busy the machine was in it."""
    said = (f"{e.subject}: {e.data['text']}" for e in events if e.kind == "health")
    found = [*destroyed_receivers(events), *dict.fromkeys(said)]
    busy = busy_in_words(trials)
    return [*found, f"{busy}; times are longer than on an idle one"] if busy else found


def _trial_json(trial: TrialResult) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "variant": trial.arm,
        "outcome": trial.outcome,
        "valid": trial.valid,
        "response": trial.response,
        "recovered": trial.recovered,
        "reason": trial.reason,
        "values": {k: round(v, 9) if isinstance(v, float) else v for k, v in trial.values.items()},
        "predicted": dict(trial.predicted),
        "marks": trial.marks.relative() if trial.marks else None,
        "mark_errors": trial.marks.errors() if trial.marks else None,
        "by_chance": trial.marks.by_chance if trial.marks else None,
        "witnesses": dict(trial.witnesses),
        "lost_steps": trial.lost_steps,
        "receipt": trial.receipt,
        "retries": trial.retries,
        "others": trial.others,
    }
