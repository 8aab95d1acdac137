"""The last page of a run on the terminal: what was measured, what failed, where time went."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from testbed import commands
from testbed.analysis.rail_monitor import RemovedCircuits
from testbed.analysis.recover_attempts import RecoverAttempt
from testbed.analysis.summary import Retry, Summary
from testbed.errors import EXIT_BUG, EXIT_BUSY, EXIT_LAB, EXIT_UNSAFE
from testbed.report.anatomy import anatomies
from testbed.report.arms import print_arms
from testbed.report.console import plain_table
from testbed.report.model_section import print_model
from testbed.report.recovery_section import print_recoveries
from testbed.report.settings_section import print_foundations
from testbed.report.short_arm_names import shortened
from testbed.report.throughput_section import print_throughput
from testbed.report.trial_section import print_trials
from testbed.report.wording import check_rows, explain, retries

STYLES = {
    "passed": "green",
    "failed": "bold red",
    "error": "bold red",
    "aborted": "yellow",
    "inconclusive": "yellow",
    "unknown": "yellow",
}
"""How a verdict or an outcome stands out."""

_OPENER = "open" if sys.platform == "darwin" else "xdg-open"


def print_page(
    summary: Summary,
    run_dir: Path,
    console: Console,
    *,
    lab: str = "",
    twin: str = "",
    will_be_drawn: bool = True,
) -> None:
    """Print a run's last page, which ends with verdict, reason, directory and next command.

    The next command opens report.html, or makes it where it will not be drawn now. `lab` is the
    lab as an argument of a command, where its name alone would not find its file, and `twin` the
    name of the run's twin while that is up.
    """
    full, summary = summary, shortened(summary)
    _print_head(summary, console)
    if summary.label != "model":
        print_arms(full, console)
    if summary.checks:
        _print_checks(summary, console)
    if found := anatomies(summary):
        print_recoveries(summary, found, console)
    if summary.label == "model":
        print_model(summary, console)
    else:
        print_throughput(summary, console)
    print_foundations(summary, console)
    if summary.trials:
        print_trials(summary, console)
    _print_removed_circuits(summary.removed_circuits, console)
    _print_list(Text("\nNot as it should be", "bold yellow"), summary.health, console)
    _print_list(Text("\nTried once more", "bold"), map(_in_words, summary.retries), console)
    for recovered in summary.recovered:
        _print_recovered(recovered, console)
    _print_list(Text("\nNot taken back:", "bold red"), summary.left, console, "red")
    where = [lab or summary.lab]
    if summary.label == "measured-twin":
        where += ["--twin", twin] if twin else ["--twin"]
    next_command = _next_command(summary, _short(run_dir), where, will_be_drawn)
    _print_verdict(summary, _short(run_dir), console, next_command)


def last_lines(run_dir: Path, reason: str, cleanup: str, left: Sequence[str]) -> list[str]:
    """Return the last lines of the page of a run whose results were not computed."""
    place = _short(run_dir)
    return [
        *(f"not taken back: {what}" for what in left),
        f"verdict aborted, clean-up {cleanup}",
        f"reason  {reason}",
        f"run     {place}",
        f"next    testbed {'report' if cleanup == 'verified' else 'recover'} {place}",
    ]


def _print_head(summary: Summary, console: Console) -> None:
    title = f"{summary.experiment} on {summary.lab or 'no lab'}, seed {summary.seed}"
    console.print(Text(title, style="bold"))
    label = summary.label or "no label"
    console.print(Text.assemble((f"{label}: ", "bold"), explain(summary.label)))
    if summary.admission:
        console.print(Text.assemble(("admitted ", "bold"), str(summary.admission)))


def _print_checks(summary: Summary, console: Console) -> None:
    console.print(Text("\nChecks", style="bold"))
    table = plain_table("verdict", "check", "limit", "value", "")
    for verdict, *cells in check_rows(summary.checks):
        table.add_row(Text(verdict, STYLES[verdict]), *cells)
    console.print(table)


def _print_list(title: Text, lines: Iterable[str], console: Console, style: str = "") -> None:
    """Print lines below their title; nothing where there are none."""
    for number, line in enumerate(lines):
        if number == 0:
            console.print(title)
        console.print(Text(f"  {line}", style))


def _print_removed_circuits(removed: RemovedCircuits, console: Console) -> None:
    """Print what was looked at and found; nothing where no controller changed rails."""
    if removed.of_trials:
        console.print(Text("\nRemoved circuits", "bold"))
        console.print(Text(f"  {removed}"))
    for style, lines in (("bold red", removed.found), ("yellow", removed.gaps)):
        for line in lines:
            console.print(Text(f"  {line}", style))


def _in_words(retry: Retry) -> str:
    where = "" if retry.trial is None else f"trial {retry.trial}: "
    return f"{where}{retry.what} of {retry.subject}: {retry.why}"


def _print_recovered(recovered: RecoverAttempt, console: Console) -> None:
    title = f"\nTaken back by testbed recover at {recovered.at}"
    console.print(Text(title if recovered.exit_code is not None else f"{title}, unfinished"))
    for step in recovered.steps:
        row = f"  {step.what}: {step.problem or 'verified'}"
        console.print(Text("; ".join([row, *step.notes]), style="red" if step.problem else ""))


def _print_verdict(summary: Summary, place: str, console: Console, next_command: str) -> None:
    verdict = Text(summary.outcome, STYLES[summary.outcome])
    verdict.append(f", clean-up {summary.cleanup}", "bold red" if summary.left else "default")
    if summary.retries:
        verdict.append(f", {retries(len(summary.retries))}", "yellow")
    console.print()
    rows = (
        ("verdict", verdict),
        ("reason", Text(summary.reason)),
        ("run", Text(place)),
        ("next", Text(next_command)),
    )
    for name, value in rows:
        row = Text.assemble((f"{name:<8}", "dim"), value)
        console.print(row, soft_wrap=True, highlight=False)


def _short(path: Path) -> str:
    """Return a path as it is typed here: below the working directory where it is."""
    path, here = path.resolve(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _next_command(summary: Summary, place: str, where: Sequence[str], will_be_drawn: bool) -> str:
    code = summary.exit_code
    if summary.left or summary.cleanup == "unknown" or code == EXIT_UNSAFE:
        return shlex.join(["testbed", "recover", place])
    if code == EXIT_BUSY:
        return commands.typed("who")
    if code == EXIT_LAB:
        typed = shlex.join(["testbed", "doctor", *where])
        return commands.typed("doctor") if commands.has_context() else typed
    if code == EXIT_BUG:
        return shlex.join(["less", f"{place}/traceback.txt"])
    if will_be_drawn:
        return shlex.join([_OPENER, f"{place}/report.html"])
    return shlex.join(["testbed", "report", place])
