"""Arms by short names: `settle=10 ms` for `lab.twin.settle=10 ms`, wherever people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from testbed.analysis.summary import Summary

_KEY = re.compile(r"(?:^|(?<=[/,]))[A-Za-z_][\w-]*(?:\.[\w-]+)+(?==)")
"""A dotted key, as a matrix puts it into the name of an arm."""


def short_keys(arms: Iterable[str]) -> dict[str, str]:
    """Return, for each dotted key in the names of arms, its shortest end that no other has."""
    keys = list(dict.fromkeys(key for arm in arms for key in _KEY.findall(arm)))
    return {key: _end(key, [other for other in keys if other != key]) for key in keys}


def short_names(arms: Iterable[str]) -> dict[str, str]:
    """Return the short name of each arm; its own where two arms would share one."""
    names = list(dict.fromkeys(arms))
    keys = short_keys(names)
    short = {name: _KEY.sub(lambda found: keys[found[0]], name) for name in names}
    taken = list(short.values())
    return {name: s if taken.count(s) == 1 else name for name, s in short.items()}


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
    )


def in_text(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the short name of each arm in the place of its own."""
    longer = sorted((name for name in names if names[name] != name), key=len, reverse=True)
    if not longer:
        return text
    return re.sub(rf"({'|'.join(map(re.escape, longer))})(?![\w-])", lambda m: names[m[1]], text)


def of_arm(metric: str, names: Mapping[str, str]) -> str:
    """Return `arm.metric` with the short name of its arm."""
    arm, _, what = metric.rpartition(".")
    return f"{names.get(arm, arm)}.{what}"


def _end(key: str, others: Sequence[str]) -> str:
    parts = key.split(".")
    for count in range(1, len(parts)):
        end = ".".join(parts[-count:])
        if not any(other == end or other.endswith(f".{end}") for other in others):
            return end
    return key
