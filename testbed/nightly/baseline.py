"""Compare metrics with this machine's earlier measurements, to find those that got slower.

A metric is slower when its whole 95 % interval lies beyond the whole interval of its baseline, by
more than a margin. Both intervals are of order statistics and assume no distribution, so that the
rate of false positives is known (`false_positive_rate`: 1 in 924 for six trials against six, 1 in
1829 for ten). The margin allows for differences from night to night on one machine.
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
    """The properties of a machine on which times depend, besides the code."""

    cpu: str
    cores: int
    kernel: str

    @property
    def name(self) -> str:
        """Return the name of the machine's baseline file."""
        text = f"{self.cpu}-{self.cores}-cores-{self.kernel}"
        return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")[:120]


def this_machine() -> Machine:
    """Return the properties of the machine that this process runs on."""
    try:
        facts = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        facts = ""
    model = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
    cpu = model[1].strip() if model else platform.machine()
    return Machine(cpu, len(os.sched_getaffinity(0)), platform.release())


@dataclass(frozen=True, slots=True)
class Slower:
    """A metric that has become slower: its present interval, and that of its baseline."""

    arm: str
    metric: str
    unit: str
    interval: tuple[float, float]
    baseline: tuple[float, float]


def with_load(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a summary, each with a flag `busy` for its arm.

    An arm is busy where other programs used much of the machine in more than a third of its trials.
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
    """The baselines of one machine, by experiment and lab, in a JSON file.

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

        A metric of a busy machine is not compared with a baseline of an idle one.
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
        """Return the metrics that have a baseline, each with its probability of a false alarm."""
        mine = self._found.get(of, {})
        pairs = [(name, now, mine[name]) for name, now in _judged(metrics) if name in mine]
        return {name: false_positive_rate(now["n"], before["n"]) for name, now, before in pairs}

    def take(self, of: str, metrics: Mapping[str, Any], run: str, commit: str) -> int:
        """Store metrics that have no baseline yet or are faster, and return their number.

        A metric is faster where its baseline would count as slower than it; so improvements become
        the new baselines. Metrics of an idle machine replace those of a busy one.
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
        raise UsageError(what, hint="move it away; the next nightly run writes a new one")
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
    """Return whether a metric's interval is entirely worse than another, by the margin or more.

    A metric whose unit or direction has changed is not comparable.
    """
    if (now["unit"], now["better"]) != (before["unit"], before["better"]):
        return False
    if now["better"] == "lower":
        beyond = now["ci95"][0] - before["ci95"][1]
        return bool(beyond > max(MARGIN * before["ci95"][1], FLOOR if now["unit"] == "s" else 0.0))
    return bool(now["ci95"][1] * (1 + MARGIN) < before["ci95"][0])


def false_positive_rate(n: int, before: int) -> float:
    """Return the probability that an unchanged metric counts as slower, without the margin.

    `n` trials against `before`, all from one continuous distribution: the probability that the
    lower end of the new interval, its k-th smallest value, is above the j-th largest of the old
    values.
    """
    k, j = order_statistic(n), order_statistic(before)
    above = range(before - j + 1, before + 1)
    return sum(
        comb(k - 1 + below, below) * comb(n - k + before - below, before - below) for below in above
    ) / comb(n + before, n)
