"""Predict what circuits that take time cost a job on rails, by a replay of what it did without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from testbed.analysis.grouping import grouped
from testbed.analysis.metric_definitions import RAILS
from testbed.analysis.rail_profile import rail_profile
from testbed.analysis.rail_times import control_of
from testbed.analysis.settings import Settings, settings_of
from testbed.analysis.trial import TrialResult
from testbed.events import Event
from testbed.fabric.topologies import RING
from testbed.rails.optimum import optimum
from testbed.rails.profile import Profile
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.requests import Mode
from testbed.rails.stalls import Stall, stalls
from testbed.rails.workload import workload_of
from testbed.schema import Arm

Measured = tuple[Arm, str]
"""An arm, and one of its jobs."""

_OF_A_PROFILE = frozenset(
    {
        *("host.ready", "clock.offset", "settings", "trial.begin"),
        *("sample", "operations", "stage.lit"),
    }
)
"""Kinds of the events that the profile of a run is made of."""


def with_replays(
    measured: Mapping[str, Measured],
    trials: Sequence[TrialResult],
    settings: Mapping[str, Settings],
) -> list[TrialResult]:
    """Return the trials, with `control_time` and a predicted `iteration_time` for those on rails.

    `measured` are the arms and their jobs by the names that trials have. `control_time` is what a
    change took beyond the switch and the link. The prediction is a replay of the arm with the least
    delay of these: of arms with the same job, that on demand. Windows and control are that arm's
    alone; the n-th trial of an arm is predicted from its n-th trial. `change_error` and
    `over_optimum` hold an iteration against its prediction, and against the best that there is.
    """
    on_rails, dark = _on_rails(measured, trials, settings)
    found = {id(trial): trial for trial in trials}
    of_arm = grouped([t for t in trials if t.arm in on_rails], lambda trial: trial.arm)
    for trial in (trial for mine in of_arm.values() for trial in mine):
        arm = on_rails[trial.arm]
        rails = Rails(dark[trial.arm], _mode(*arm), forward=_forwards(*arm))
        values = dict(trial.values)
        if (took := values.get("change_time")) is not None:
            values["control_time"] = float(took) - rails.delay
        found[id(trial)] = replace(trial, values=values, rails=rails)
    for base, others in _sweeps(on_rails, dark):
        for name in others:
            for source, trial in zip(of_arm[base], of_arm[name], strict=False):
                profile = replayable(source, dark[base]) if source.counts else None
                was = found[id(trial)]
                if profile is not None and was.rails is not None:
                    found[id(trial)] = _beside_replay(was, profile, was.rails)
    return [found[id(trial)] for trial in trials]


def _beside_replay(trial: TrialResult, source: Profile, rails: Rails) -> TrialResult:
    """Return a trial with what its rails lead to by the replay of the profile of another."""
    trial = replace(trial, replayed_from=source)
    try:
        workload = workload_of(source)
        found = replay(workload, rails)
    except ValueError:
        return trial
    names = {"iteration_time", *({"mean_step_time"} & {*trial.values})}
    predicted = {**trial.predicted, **dict.fromkeys(names, found.iteration)}
    took, values = trial.values.get("iteration_time"), dict(trial.values)
    changes = Counter(rank for change in found.changes for rank in change.stage.ranks)
    if isinstance(took, float) and changes:
        in_turn = max(changes.values()) / len(workload.iterations)
        values["change_error"] = abs(took - found.iteration) / in_turn
        with suppress(ValueError):  # of too many schedules the best is not known
            values["over_optimum"] = took / optimum(workload, replace(rails, mode="on-demand"))
    return replace(trial, values=values, predicted=predicted)


@dataclass(frozen=True, slots=True)
class SweepArm:
    """An arm on rails among those with the same job, which differ in delay or mode."""

    arm: str
    mode: Mode
    delay: float
    """How long a new circuit carries nothing, in seconds."""


def delay_sweeps(
    measured: Mapping[str, Measured],
    trials: Sequence[TrialResult],
    settings: Mapping[str, Settings],
) -> list[tuple[SweepArm, ...]]:
    """Return the arms on rails with the same job, each set that has several delays, by delay."""
    on_rails, dark = _on_rails(measured, trials, settings)
    found = []
    for base, others in _sweeps(on_rails, dark):
        arms = [SweepArm(arm, _mode(*on_rails[arm]), dark[arm]) for arm in (base, *others)]
        if len({arm.delay for arm in arms}) > 1:
            found.append(tuple(sorted(arms, key=lambda arm: arm.delay)))
    return found


def _on_rails(
    measured: Mapping[str, Measured],
    trials: Sequence[TrialResult],
    settings: Mapping[str, Settings],
) -> tuple[dict[str, Measured], dict[str, float]]:
    """Return the arms whose circuits were changed in trials, and the delay of each."""
    names = {trial.arm for trial in trials if "change_time" in trial.values}
    on_rails = {name: measured[name] for name in measured if name in names}
    return on_rails, {name: _dark(settings, arm.name) for name, (arm, _) in on_rails.items()}


def _sweeps(
    on_rails: Mapping[str, Measured], dark: Mapping[str, float]
) -> list[tuple[str, list[str]]]:
    """Return arms on rails with the same job, each set with the one that it is predicted from."""
    sweeps = []
    for base, (arm, job) in on_rails.items():
        spec = arm.experiment.jobs[job]
        same = [
            name
            for name, (other, of) in on_rails.items()
            if of == job and other.experiment.jobs[job] == spec
        ]
        on_demand = [name for name in same if _mode(*on_rails[name]) == "on-demand"]
        if on_demand and base == min(on_demand, key=lambda name: dark[name]):
            sweeps.append((base, [name for name in same if name != base]))
    return sweeps


def replayable(source: TrialResult, dark: float) -> Profile | None:
    """Return the profile of a trial for a replay with other delays, where it has one.

    `dark` is the delay in that trial; what a change took beyond it is the control's own.
    """
    profile = source.rail_profile
    if profile is None:
        return None
    control = replace(profile.control, change=max(0.0, profile.control.change - dark))
    return replace(profile, control=control)


def replayed(profile: Profile, rails: Rails) -> float | None:
    """Return an iteration on rails by the replay of a profile; None where it gives none."""
    try:
        return replay(workload_of(profile), rails).iteration
    except ValueError:
        return None


def profile_of_run(events: Iterable[Event], source: str, trial: int | None = None) -> Profile:
    """Return the profile of one trial of a run, the first without a number, with its control.

    The control is what the ranks saw of it, without the delay of the switch; none where circuits
    were not re-pointed. Raise NoProfile for a log that gives none.
    """
    kept = [event for event in events if event.kind in _OF_A_PROFILE]
    profile = rail_profile(kept, source, trial)
    timed = (e.trial for e in kept if e.kind == "operations" or e.data.get("dimension"))
    number = next(timed) if trial is None else trial
    lit = [event for event in kept if event.kind == "stage.lit" and event.trial == number]
    arms = [e.subject for e in kept if e.kind == "trial.begin" and e.trial == number]
    control = control_of(profile, lit)
    beyond = control.change - sum(_dark(settings_of(kept), arm) for arm in arms)
    return replace(profile, control=replace(control, change=max(0.0, beyond)))


def planned_stalls(
    arms: Iterable[Arm], settings: Mapping[str, Settings], profile: Profile
) -> list[tuple[str, Stall]]:
    """Return what the rails of each arm will cost its jobs, by the replay of a kept profile.

    Jobs count whose circuits a controller of rails re-points and which have as many ranks as the
    profile. `settings` are those of the arms. Raise ValueError where the profile has no replay.
    """
    workload = workload_of(profile)
    found = []
    for arm in arms:
        for job in rail_jobs(arm):
            if getattr(arm.experiment.jobs[job].options, "ranks", None) == profile.ranks:
                name = arm.name if len(arm.experiment.jobs) == 1 else f"{arm.name}.{job}"
                delay, mode = _dark(settings, arm.name), _mode(arm, job)
                rails = Rails(forward=_forwards(arm, job))
                found += [(name, stall) for stall in stalls(workload, [delay], [mode], rails)]
    return found


def rail_jobs(arm: Arm) -> list[str]:
    """Return the jobs of an arm whose circuits a controller of rails re-points.

    A job in a mesh brings one along where circuits join its hosts; with a topology they stand.
    """
    jobs = arm.experiment.jobs
    named = [spec.job for spec in arm.experiment.reacting() if spec.kind == RAILS]
    on_circuits = arm.experiment.needs.fabric == "circuit"
    in_mesh = [name for name, job in jobs.items() if getattr(job.options, "mesh", None)]
    found = dict.fromkeys([*named, *(in_mesh if on_circuits else ())])
    return [name for name in found if getattr(jobs[name].options, "topology", RING) == RING]


def _mode(arm: Arm, job: str) -> Mode:
    """Return how a job requests circuits; it brings the controller along on demand."""
    specs = [one for one in arm.experiment.reacting() if (one.kind, one.job) == (RAILS, job)]
    mode: Mode = specs[0].options.mode if specs else "on-demand"
    return mode


def _forwards(arm: Arm, job: str) -> bool:
    """Tell whether groups of a job may be forwarded over other rails."""
    specs = [one for one in arm.experiment.reacting() if (one.kind, one.job) == (RAILS, job)]
    return bool(specs and specs[0].options.forward)


def _dark(settings: Mapping[str, Settings], arm: str) -> float:
    """Return how long a new circuit carries nothing, by the settings of an arm, in seconds."""
    of_arm = settings.get(arm, {})
    return float(of_arm.get("settle", 0.0)) + float(of_arm.get("link_up", 0.0))
