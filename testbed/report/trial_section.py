"""The section of the page that lists every trial with its outcome."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis.fault_effect import BASELINE
from testbed.analysis.grouping import grouped
from testbed.analysis.summary import Summary
from testbed.analysis.trial import TrialResult
from testbed.report.wording import quantity, retries

MARKS = {"t2": "decided", "t6": "light", "t10": "step", "t11": "service"}
"""Marks that are listed for each trial, and what was reached with each."""

_STYLES = {
    "invalid": "yellow",
    "failed": "bold red",
    "not recovered": "bold red",
    "not known": "yellow",
}

UNREPAIRED = {
    "ridden out": "no step took longer than the longest before the fault",
    "not known": f"fewer than {BASELINE} steps before the fault do not tell how long one may take",
}
"""Why a trial that was broken has no recovery, by its outcome."""

_ALL_MARKS = 76
"""Columns of a terminal from which all of them fit."""


def print_trials(summary: Summary, console: Console) -> None:
    """Print one line for each trial, then the reasons of some outcomes."""
    faulty = any(trial.marks is not None for trial in summary.trials)
    marks = tuple(MARKS if console.width >= _ALL_MARKS else ("t10",)) if faulty else ()
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    table.add_column("variant", overflow="fold")
    table.add_column("result", no_wrap=True)
    for mark in marks:
        table.add_column(f"{MARKS[mark]} {mark}", justify="right", no_wrap=True)
    if faulty:
        table.add_column("lost", justify="right")
    for trial in summary.trials:
        table.add_row(*_row(trial, marks))
    console.print(Text("\nTrials", style="bold"))
    console.print(table)
    for words, trials in grouped(filter(remark, summary.trials), remark).items():
        which = "trials" if len(trials) > 1 else "trial"
        numbers = ", ".join(str(trial.number) for trial in trials)
        console.print(Text(f"{which} {numbers}: {words}"))


def _row(trial: TrialResult, marks: tuple[str, ...]) -> list[Text]:
    word = trial.outcome
    style = _STYLES.get(word, "")
    row = [Text(str(trial.number)), Text(trial.arm), Text(word, style)]
    if marks:
        reached = trial.marks.relative() if trial.marks else {}
        row += [Text(quantity(reached[m], "s") if m in reached else "–") for m in marks]
        row.append(Text("–" if trial.lost_steps is None else str(trial.lost_steps)))
    return row


def remark(trial: TrialResult) -> str:
    """Return the reason for a trial's outcome, and whether an operation was retried in it."""
    parts = (UNREPAIRED.get(trial.outcome, ""), trial.reason, retries(trial.retries))
    return "; ".join(filter(None, parts))
