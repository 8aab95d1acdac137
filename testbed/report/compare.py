"""Compare runs with the first of them, metric by metric, with the settings that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis.comparison import compare_metric, outcome
from testbed.analysis.grouping import grouped
from testbed.analysis.summary import FORMAT
from testbed.analysis.trial import NO_RESULT
from testbed.errors import UsageError
from testbed.fabric.card import Card, Difference
from testbed.report.console import plain_table
from testbed.report.setting_differences import Setup, differing
from testbed.report.short_arm_names import of_arm
from testbed.report.wording import by_arm, in_order, quantity
from testbed.schema.arm_names import short_names

_MOST_WIRING = 3
"""Settings of addresses and wiring that are listed one by one."""

_STYLES = {"better": "green", "worse": "bold red"}
_TWO = ("first", "second")
_ORDINALS = (*_TWO, "third")


def print_comparison(
    runs: Sequence[Mapping[str, Any]], setups: Sequence[Setup], console: Console
) -> None:
    """Print a comparison of summaries (`summary.json`) with the first one, and their settings.

    Runs with different labels get no verdict of better or worse. Raise UsageError for another
    format.
    """
    _check_format(runs)
    arms = short_names(trial["variant"] for run in runs for trial in run["trials"])
    named = _named([with_arms(run, arms) for run in runs])
    for name, run in named.items():
        words = f"{run['experiment']} on {run['lab']}, {run['label']}"
        console.print(Text(f"{name:<7} {run['run']}: {words}, {run['outcome']}"))
    for warning in _warnings(named):
        console.print(warning)
    _print_settings(list(named), setups, console)
    console.print()
    common = by_arm(set.intersection(*(set(run["metrics"]) for run in named.values())))
    table = _table if len(named) == len(_TWO) else _wide_table
    many = "The two runs have" if len(named) == len(_TWO) else "The runs have"
    console.print(table(common, named) if common else f"{many} no metric in common.")
    for line in (*_flags(named), *_only(named), *_not_recovered(named), *_digests(named)):
        console.print(line)


def comparison_to_json(
    runs: Sequence[Mapping[str, Any]], setups: Sequence[Setup]
) -> dict[str, Any]:
    """Return the comparison of every metric that all runs have, as JSON values.

    Of two runs they are `first` and `second`, with `metrics`; of more there is a list of `runs`,
    and each but the first has its `metrics` compared with the first.
    """
    _check_format(runs)
    about = ("run", "experiment", "lab", "label")
    shown = [{key: run[key] for key in about} | {"flags": run.get("flags", {})} for run in runs]
    settings = {row.key: list(row.values) for row in differing(setups)}
    first, *others = runs
    found = [
        {name: asdict(compare_metric(name, first, other)) for name in by_arm(names)}
        for other in others
        for names in [first["metrics"].keys() & other["metrics"].keys()]
    ]
    if len(runs) == len(_TWO):
        pair = dict(zip(_TWO, shown, strict=True))
        return {**pair, "settings": settings, "metrics": found[0]}
    judged = [one | {"metrics": metrics} for one, metrics in zip(shown[1:], found, strict=True)]
    return {"runs": [shown[0], *judged], "settings": settings}


def with_arms(run: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the contents of a `summary.json` with arms renamed by the mapping `names`."""
    metrics = {of_arm(name, names): metric for name, metric in run["metrics"].items()}
    trials = [{**trial, "variant": names[trial["variant"]]} for trial in run["trials"]]
    flags = {of_arm(name, names): why for name, why in run.get("flags", {}).items()}
    return {**run, "metrics": metrics, "trials": trials, "flags": flags}


def _named(runs: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return runs by what they are called here: first, second, third and so on."""
    numbers = range(len(_ORDINALS) + 1, len(runs) + 1)
    return dict(zip([*_ORDINALS, *(f"{n}th" for n in numbers)], runs, strict=False))


def _print_settings(names: Sequence[str], setups: Sequence[Setup], console: Console) -> None:
    rows = differing(setups)
    if not rows:
        same = "The settings are the same in all." if setups else "Their settings cannot be read."
        console.print(Text(same, style="dim"))
        return
    table = plain_table("setting", *names)
    wiring = [row for row in rows if row.is_wiring]
    hidden = wiring if len(wiring) > _MOST_WIRING else []
    shown = [row for row in rows if row not in hidden]
    for row in shown:
        table.add_row(Text(row.key), *map(Text, row.values))
    console.print(Text("\nSettings that differ", style="bold"))
    if shown:
        console.print(table)
    if hidden:
        words = f"{len(hidden)} of addresses and wiring; --json lists them"
        console.print(Text(f"{'and ' if shown else ''}{words}", style="dim"))


def _check_format(summaries: Sequence[Mapping[str, Any]]) -> None:
    for summary in summaries:
        if summary.get("format") != FORMAT:
            found = summary.get("format")
            raise UsageError(f"a summary of format {found} cannot be compared, only of {FORMAT}")


def print_drift(
    one: Card, other: Card, differences: Sequence[Difference], console: Console
) -> None:
    """Print the origins of two characterisation cards, and in what they differ."""
    for name, card in (("first", one), ("second", other)):
        who = " ".join(card.identity.values())
        console.print(Text(f"{name:<7} {who}, {card.label}, {card.made}"))
    if not differences:
        console.print("no drift: they behave alike as far as the probe tells")
        return
    table = Table("what", "first", "second", box=None)
    for difference in differences:
        table.add_row(difference.what, difference.one, difference.other)
    console.print(table)


def _warnings(named: Mapping[str, Mapping[str, Any]]) -> list[Text]:
    """Return what two runs do not have in common, of those that must be known first."""
    found = []
    labels = dict.fromkeys(run["label"] for run in named.values())
    if len(labels) > 1:
        words = f"DIFFERENT LABELS: {' against '.join(labels)}. "
        words += "These numbers are not of one kind; nothing here is better or worse."
        found.append(Text(words, style="bold white on red"))
    for what in ("experiment", "lab"):
        values = dict.fromkeys(run[what] for run in named.values())
        if len(values) > 1:
            words = f"different {what}s: {' against '.join(values)}"
            found.append(Text(words, style="bold yellow"))
    return found


def _flags(named: Mapping[str, Mapping[str, Any]]) -> Iterator[Text]:
    """Yield the flags of each run's metrics, such as a bandwidth above the rate of a port."""
    for name, run in named.items():
        for metric, why in run["flags"].items():
            yield Text(f"{metric} of the {name}: {why}", style="yellow")


def _only(named: Mapping[str, Mapping[str, Any]]) -> Iterator[Text]:
    """Yield what a run has and another has not; an arm that it lacks stands for all of its."""
    for name, run in named.items():
        others = [set(other["metrics"]) for key, other in named.items() if key != name]
        mine, common = set(run["metrics"]), set.intersection(*others)
        arms = {metric.rpartition(".")[0] for metric in common}
        missing = by_arm(mine - common)
        words = (n if (arm := n.rpartition(".")[0]) in arms else arm for n in missing)
        if only := ", ".join(dict.fromkeys(words)):
            many = "only in" if len(named) == len(_TWO) else "not in all, but in"
            yield Text(f"{many} the {name}: {only}", style="yellow")


def _table(names: Sequence[str], named: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the metrics of two runs, with the interval of each ratio."""
    first, second = named.values()
    numbers = ("first", "second", "ratio", "95 % interval")
    table = plain_table("metric", *numbers, "the second is", right=numbers)
    for name in names:
        found, unit = compare_metric(name, first, second), first["metrics"][name]["unit"]
        ratio = "–" if found.ratio is None else f"{found.ratio:.3f}"
        interval = "–" if found.ci95 is None else f"{found.ci95[0]:.3f}–{found.ci95[1]:.3f}"
        medians = (quantity(median, unit) for median in found.medians)
        verdict = Text(found.verdict, _STYLES.get(found.verdict, ""))
        table.add_row(name, *medians, ratio, interval, verdict)
    return table


def _wide_table(names: Sequence[str], named: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the medians of three runs or more, each with its ratio to the first and a verdict."""
    first, *others = named.values()
    table = plain_table("metric", *named)
    for name in names:
        unit = first["metrics"][name]["unit"]
        row = [Text(quantity(first["metrics"][name]["median"], unit))]
        for other in others:
            found = compare_metric(name, first, other)
            ratio = "" if found.ratio is None else f" × {found.ratio:.3f}"
            cell = Text(f"{quantity(found.medians[1], other['metrics'][name]['unit'])}{ratio} ")
            row.append(cell.append(found.verdict, _STYLES.get(found.verdict, "dim")))
        table.add_row(name, *row)
    return table


def _not_recovered(named: Mapping[str, Mapping[str, Any]]) -> list[Text]:
    """Return where trials have no result, which no median of the others can show."""
    lines = []
    for name, summary in named.items():
        trials = grouped(summary["trials"], lambda trial: trial["variant"])
        for arm in in_order(set(trials)):
            outcomes = Counter(map(outcome, trials[arm]))
            gone = [f"{outcomes[word]} {word}" for word in sorted(NO_RESULT) if outcomes[word]]
            if gone:
                text = f"{arm} of the {name}: of {len(trials[arm])} trials {', '.join(gone)}"
                lines.append(Text(f"{text}; its medians are of the others", style="bold red"))
    return lines


def _digests(named: Mapping[str, Mapping[str, Any]]) -> list[Text]:
    """Return, for each arm that all have, whether its jobs ended in the same state."""
    found: list[dict[str, set[str]]] = [{} for _ in named]
    for summary, ends in zip(named.values(), found, strict=True):
        for trial in summary["trials"]:
            if "digest" in trial["values"]:
                ends.setdefault(trial["variant"], set()).add(trial["values"]["digest"])
    lines = []
    every = "both" if len(named) == len(_TWO) else "all"
    for arm in in_order(set.intersection(*(set(ends) for ends in found))):
        same = len(set[str]().union(*(ends[arm] for ends in found))) == 1
        words = f"the same in {every}, bit for bit" if same else "NOT the same"
        lines.append(Text(f"{arm}: final state {words}", style="" if same else "bold red"))
    return lines
