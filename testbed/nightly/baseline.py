"""What this machine measured before, metric by metric, and whether it has become slower.

A metric is slower when its whole 95 % interval lies beyond the whole interval of its baseline, by
more than a margin. Both intervals are of order statistics and assume no distribution, so that the
rate of false positives is known (`false_positive_rate`: 1 in 924 for six trials against six, 1 in
1829 for ten). The margin is for what differs from night to night on one machine.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from typing import Any

from testbed.analysis.grouping import grouped
from testbed.analysis.machine_load import BUSY
from testbed.analysis.statistics import order_statistic
from testbed.errors import UsageError
from testbed.record.rundir import RunDirectory

FORMAT = 1

MARGIN = 0.05
"""How far beyond its baseline's interval an interval must lie, as a share."""

FLOOR = 1e-3
"""And by how many seconds, for a time: less is the machine's scheduler."""

_MEASURED = ("s", "bit/s")
"""Units of what can be slow: times and rates."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a time depends on besides the code."""

    cpu: str
    cores: int
    kernel: str

    @property
    def name(self) -> str:
        """Return a name for files."""
        text = f"{self.cpu}-{self.cores}-cores-{self.kernel}"
        return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")[:120]


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    try:
        facts = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        facts = ""
    model = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
    cpu = model[1].strip() if model else platform.machine()
    return Machine(cpu, len(os.sched_getaffinity(0)), platform.release())


@dataclass(frozen=True, slots=True)
class Slower:
    """A metric that has become slower: its interval now, and that of its baseline."""

    arm: str
    metric: str
    unit: str
    interval: tuple[float, float]
    baseline: tuple[float, float]


def with_load(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a summary, each with whether the machine was `busy` in its arm.

    It was where other programs had much of it in more than a third of the arm's trials.
    """
    busy = {
        arm
        for arm, trials in grouped(summary["trials"], lambda trial: trial["variant"]).items()
        if sum((trial["others"] or 0.0) >= BUSY for trial in trials) > len(trials) / 3
    }
    return {
        name: metric | {"busy": name.rpartition(".")[0] in busy}
        for name, metric in summary["metrics"].items()
    }


class Baselines:
    """The baselines of one machine, by experiment and lab, in a file of JSON.

    Metrics are those of `with_load`.
    """

    def __init__(self, directory: Path, machine: Machine) -> None:
        self.file = directory / f"{machine.name}.json"
        self._machine = machine
        self._found: dict[str, dict[str, Any]] = {}
        if self.file.exists():
            self._found = _read(self.file)

    def slower(self, of: str, metrics: Mapping[str, Any]) -> Iterator[Slower]:
        """Yield each metric that is slower than its baseline.

        One of a busy machine is held against no baseline of an idle one.
        """
        for name, now in _judged(metrics):
            before = self._found.get(of, {}).get(name)
            if (
                before is not None
                and is_slower(now, before)
                and (before["busy"] or not now["busy"])
            ):
                arm, _, metric = name.rpartition(".")
                new, old = tuple(now["ci95"]), tuple(before["ci95"])
                yield Slower(arm, metric, now["unit"], new, old)

    def compared(self, of: str, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Return which of these metrics have a baseline, and how often each is slower by chance."""
        mine = self._found.get(of, {})
        pairs = [(name, now, mine[name]) for name, now in _judged(metrics) if name in mine]
        return {name: false_positive_rate(now["n"], before["n"]) for name, now, before in pairs}

    def take(self, of: str, metrics: Mapping[str, Any], run: str, commit: str) -> int:
        """Take as baselines what has none yet or is faster, and write the file; return how many.

        Faster is what its baseline would be slower than: so an improvement is kept, too. What an
        idle machine measured takes the place of what a busy one did.
        """
        mine = self._found.setdefault(of, {})
        new = {
            name: metric
            for name, metric in _judged(metrics)
            if name not in mine
            or is_slower(mine[name], metric)
            or (mine[name]["busy"] and not metric["busy"])
        }
        for name, metric in new.items():
            kept = {key: metric[key] for key in ("unit", "better", "n", "median", "ci95", "busy")}
            mine[name] = kept | {"run": run, "commit": commit}
        if new:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            whole = {"format": FORMAT, "machine": asdict(self._machine), "baselines": self._found}
            RunDirectory(self.file.parent).write_json(self.file.name, whole)
        return len(new)


def _read(file: Path) -> dict[str, dict[str, Any]]:
    found: Any = RunDirectory(file.parent).read_json(file.name)
    baselines: Any = found.get("baselines") if isinstance(found, dict) else None
    if not _are_baselines(baselines) or found.get("format") != FORMAT:
        what = f"{file} holds no baselines of format {FORMAT}"
        raise UsageError(what, hint="move it away; the next figures make a new one")
    return dict(baselines)


def _are_baselines(value: Any) -> bool:
    """Return whether a value is what `add` writes."""
    return isinstance(value, dict) and all(
        isinstance(mine, dict) and all(map(_is_baseline, mine.values())) for mine in value.values()
    )


def _is_baseline(value: Any) -> bool:
    ends = value.get("ci95") if isinstance(value, dict) else None
    return (
        isinstance(ends, list)
        and len(ends) == 2
        and all(isinstance(end, (int, float)) for end in ends)
        and isinstance(value.get("n"), int)
        and isinstance(value.get("unit"), str)
        and isinstance(value.get("busy"), bool)
        and value.get("better") in ("lower", "higher")
    )


def _judged(metrics: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the times and rates that have an interval, which a single trial has not."""
    for name, metric in metrics.items():
        if metric["ci95"] and metric["unit"] in _MEASURED and metric["better"] != "neither":
            yield name, metric


def is_slower(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether a metric's interval lies wholly beyond another on the bad side, and by enough.

    A metric that has changed its unit or its direction is another one.
    """
    if (now["unit"], now["better"]) != (before["unit"], before["better"]):
        return False
    if now["better"] == "lower":
        beyond = now["ci95"][0] - before["ci95"][1]
        return bool(beyond > max(MARGIN * before["ci95"][1], FLOOR if now["unit"] == "s" else 0.0))
    return bool(now["ci95"][1] * (1 + MARGIN) < before["ci95"][0])


def false_positive_rate(n: int, before: int) -> float:
    """Return how often a metric is slower by chance where nothing changed, without the margin.

    `n` trials against `before`, all from one continuous distribution: the chance that the lower
    end of the new interval, its k-th smallest value, is above the j-th largest of the old ones.
    """
    k, j = order_statistic(n), order_statistic(before)
    above = range(before - j + 1, before + 1)
    return sum(
        comb(k - 1 + below, below) * comb(n - k + before - below, before - below) for below in above
    ) / comb(n + before, n)
