"""Two runs held against each other, metric by metric, with the interval of each ratio."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis.comparison import compare_metric, outcome
from testbed.analysis.summary import FORMAT
from testbed.analysis.trial import NO_RESULT
from testbed.errors import UsageError
from testbed.fabric.card import Card, Difference
from testbed.report.wording import by_arm, in_order, quantity

_STYLES = {"better": "green", "worse": "bold red"}


def print_comparison(a: Mapping[str, Any], b: Mapping[str, Any], console: Console) -> None:
    """Print two summaries as of `summary.json`, the second judged against the first.

    Nothing is called better or worse across two labels. Raise UsageError for another format.
    """
    _check_format(a, b)
    for name, summary in (("first", a), ("second", b)):
        words = f"{summary['experiment']} on {summary['lab']}, {summary['label']}"
        console.print(Text(f"{name:<7} {summary['run']}: {words}, {summary['outcome']}"))
    for warning in _warnings(a, b):
        console.print(warning)
    console.print()
    both = by_arm(a["metrics"].keys() & b["metrics"].keys())
    console.print(_table(both, a, b) if both else "The two runs have no metric in common.")
    for name, mine, other in (("first", a, b), ("second", b, a)):
        if only := _only(mine["metrics"].keys(), other["metrics"].keys()):
            console.print(Text(f"only in the {name}: {', '.join(only)}", style="yellow"))
    for line in (*_not_recovered(a, b), *_digests(a, b)):
        console.print(line)


def comparison_to_json(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `print_comparison` prints of every metric that both have, as plain values."""
    _check_format(a, b)
    names = by_arm(a["metrics"].keys() & b["metrics"].keys())
    runs = [{key: run[key] for key in ("run", "experiment", "lab", "label")} for run in (a, b)]
    metrics = {name: asdict(compare_metric(name, a, b)) for name in names}
    return {"first": runs[0], "second": runs[1], "metrics": metrics}


def _check_format(*summaries: Mapping[str, Any]) -> None:
    for summary in summaries:
        if summary.get("format") != FORMAT:
            found = summary.get("format")
            raise UsageError(f"a summary of format {found} cannot be compared, only of {FORMAT}")


def print_drift(
    one: Card, other: Card, differences: Sequence[Difference], console: Console
) -> None:
    """Print who two characterisation cards are of, and in what they differ."""
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


def _warnings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Text]:
    found = []
    if a["label"] != b["label"]:
        words = f"DIFFERENT LABELS: {a['label']} against {b['label']}. "
        words += "These numbers are not of one kind; nothing here is better or worse."
        found.append(Text(words, style="bold white on red"))
    for what in ("experiment", "lab"):
        if a[what] != b[what]:
            words = f"different {what}s: {a[what]} against {b[what]}"
            found.append(Text(words, style="bold yellow"))
    return found


def _only(mine: Set[str], others: Set[str]) -> list[str]:
    """Return the metrics that only one run has; an arm that the other lacks stands for all its."""
    arms = {name.rpartition(".")[0] for name in others}
    missing = by_arm(mine - others)
    return list(dict.fromkeys(n if (arm := n.rpartition(".")[0]) in arms else arm for n in missing))


def _table(names: list[str], a: Mapping[str, Any], b: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("metric", overflow="fold")
    for column in ("first", "second", "ratio", "95 % interval"):
        table.add_column(column, justify="right", overflow="fold")
    table.add_column("the second is", overflow="fold")
    for name in names:
        found, unit = compare_metric(name, a, b), a["metrics"][name]["unit"]
        ratio = "–" if found.ratio is None else f"{found.ratio:.3f}"
        interval = "–" if found.ci95 is None else f"{found.ci95[0]:.3f}–{found.ci95[1]:.3f}"
        first, second = (quantity(median, unit) for median in found.medians)
        verdict = Text(found.verdict, _STYLES.get(found.verdict, ""))
        table.add_row(name, first, second, ratio, interval, verdict)
    return table


def _not_recovered(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Text]:
    """Return where trials have no result, which no median of the others can show."""
    lines = []
    for name, summary in (("first", a), ("second", b)):
        found: dict[str, list[str]] = {}
        for trial in summary["trials"]:
            found.setdefault(trial["variant"], []).append(outcome(trial))
        for arm in in_order(set(found)):
            gone = Counter(word for word in found[arm] if word in NO_RESULT)
            if gone:
                words = ", ".join(f"{count} {word}" for word, count in sorted(gone.items()))
                text = f"{arm} of the {name}: of {len(found[arm])} trials {words}"
                lines.append(Text(f"{text}; its medians are of the others", style="bold red"))
    return lines


def _digests(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Text]:
    """Return, for each arm that both have, whether its jobs ended in the same state."""
    found: list[dict[str, set[str]]] = [{}, {}]
    for summary, ends in zip((a, b), found, strict=True):
        for trial in summary["trials"]:
            if "digest" in trial["values"]:
                ends.setdefault(trial["variant"], set()).add(trial["values"]["digest"])
    lines = []
    for arm in in_order(found[0].keys() & found[1].keys()):
        same = len(found[0][arm] | found[1][arm]) == 1
        words = "the same in both, bit for bit" if same else "NOT the same"
        lines.append(Text(f"{arm}: final state {words}", style="" if same else "bold red"))
    return lines
