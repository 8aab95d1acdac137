"""Predict what circuits that take time cost a job on rails, by a replay of what it did without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from testbed.analysis.grouping import grouped
from testbed.analysis.metric_definitions import RAILS
from testbed.analysis.settings import Settings
from testbed.analysis.trial import TrialResult
from testbed.rails.profile import ControlCost
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.requests import Mode
from testbed.rails.workload import workload_of
from testbed.schema import Arm


def with_replays(
    arms: Sequence[Arm], trials: Sequence[TrialResult], settings: Mapping[str, Settings]
) -> list[TrialResult]:
    """Return the trials, with `control_time` and a predicted `iteration_time` for those on rails.

    `control_time` is what a change took beyond the switch and the link. The prediction is a replay
    of the arm with the least delay of these: of arms with the same jobs, that on demand. Windows
    and control are that arm's alone; the n-th trial of an arm is predicted from its n-th trial.
    """
    on_rails = {trial.arm for trial in trials if "change_time" in trial.values}
    modes = {arm.name: _mode(arm) for arm in arms if arm.name in on_rails}
    found = {id(trial): trial for trial in trials}
    of_arm = grouped([t for t in trials if t.arm in modes], lambda trial: trial.arm)
    for trial in (trial for mine in of_arm.values() for trial in mine):
        if (took := trial.values.get("change_time")) is not None:
            control = float(took) - _dark(settings, trial.arm)
            found[id(trial)] = replace(trial, values={**trial.values, "control_time": control})
    for base, others in _sweeps(arms, modes, settings):
        least = of_arm.get(base.name, [])
        for arm in others:
            delay = _dark(settings, arm.name) - _dark(settings, base.name)
            for source, trial in zip(least, of_arm.get(arm.name, []), strict=False):
                source = found[id(source)]
                if source.counts and (seconds := _replayed(source, delay, modes[arm.name])):
                    was = found[id(trial)]
                    predicted = {**was.predicted, "iteration_time": seconds}
                    found[id(trial)] = replace(was, predicted=predicted)
    return [found[id(trial)] for trial in trials]


def _sweeps(
    arms: Sequence[Arm], modes: Mapping[str, Mode], settings: Mapping[str, Settings]
) -> list[tuple[Arm, list[Arm]]]:
    """Return arms on rails with the same jobs, each set with the one that it is predicted from."""
    sweeps = []
    for base in arms:
        same = [a for a in arms if a.name in modes and a.experiment.jobs == base.experiment.jobs]
        on_demand = [arm for arm in same if modes[arm.name] == "on-demand"]
        if on_demand and base is min(on_demand, key=lambda arm: _dark(settings, arm.name)):
            sweeps.append((base, [arm for arm in same if arm is not base]))
    return sweeps


def _replayed(source: TrialResult, delay: float, mode: Mode) -> float | None:
    """Return an iteration at a delay by the replay of a trial; None where it gives none."""
    profile, control = source.rail_profile, source.values.get("control_time")
    if profile is None or control is None:
        return None
    cost = ControlCost(change=max(0.0, float(control)))
    try:
        found = replay(workload_of(replace(profile, control=cost)), Rails(delay, mode))
    except ValueError:
        return None
    return found.iteration


def _mode(arm: Arm) -> Mode:
    """Return how circuits are requested in an arm; a job brings the controller along on demand."""
    specs = [spec for spec in arm.experiment.reacting() if spec.kind == RAILS]
    mode: Mode = specs[0].options.mode if specs else "on-demand"
    return mode


def _dark(settings: Mapping[str, Settings], arm: str) -> float:
    """Return how long a new circuit carries nothing, by the settings of an arm, in seconds."""
    of_arm = settings.get(arm, {})
    return float(of_arm.get("settle", 0.0)) + float(of_arm.get("link_up", 0.0))
