"""Shorten the names of arms in reports: `settle=10 ms` for `lab.twin.settle=10 ms`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from testbed.analysis.summary import Summary
from testbed.schema.arm_names import short_names


def shortened(summary: Summary) -> Summary:
    """Return a summary in which every arm has its short name."""
    names = short_names(trial.arm for trial in summary.trials)
    if all(name == short for name, short in names.items()):
        return summary
    return replace(
        summary,
        reason=in_text(summary.reason, names),
        trials=[replace(trial, arm=names[trial.arm]) for trial in summary.trials],
        settings={names.get(arm, arm): found for arm, found in summary.settings.items()},
        profiles=[
            replace(one, predicted={names.get(arm, arm): t for arm, t in one.predicted.items()})
            for one in summary.profiles
        ],
        flags={of_arm(name, names): why for name, why in summary.flags.items()},
        metrics={of_arm(name, names): metric for name, metric in summary.metrics.items()},
        checks=[
            replace(check, name=in_text(check.name, names), limit=in_text(check.limit, names))
            for check in summary.checks
        ],
        sweeps=[
            [replace(one, arm=names.get(one.arm, one.arm)) for one in sweep]
            for sweep in summary.sweeps
        ],
    )


def in_text(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the full name of each arm replaced by its short name."""
    longer = sorted((name for name in names if names[name] != name), key=len, reverse=True)
    if not longer:
        return text
    return re.sub(rf"({'|'.join(map(re.escape, longer))})(?![\w-])", lambda m: names[m[1]], text)


def of_arm(metric: str, names: Mapping[str, str]) -> str:
    """Return `arm.metric` with the short name of its arm."""
    arm, _, what = metric.rpartition(".")
    return f"{names.get(arm, arm)}.{what}"
