"""Reports of a nightly run: Markdown for people, JSON for scripts, JUnit XML for CI servers."""

from __future__ import annotations

import signal
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from testbed.nightly.baseline import MARGIN, Baselines, Machine
from testbed.nightly.night import Night
from testbed.nightly.verdict import Result
from testbed.printable import printable
from testbed.report.junit import Case, document, suite_of

FORMAT = 1


def outcome(night: Night) -> tuple[str, str]:
    """Return the outcome of a nightly run and its reason: the first failed check or error.

    The outcome is passed, failed, aborted or error.
    """
    for attribute, word in (("failures", "failed"), ("errors", "error")):
        for result in night.results:
            for case in getattr(result, attribute):
                return word, f"{result.task.pair.name}: {case.name}: {case.reason}"
    for one in night.excluded:
        if one.broken:
            return "error", f"{one.name}: {one.reason}"
    if night.signal:
        name = signal.Signals(night.signal).name
        return "aborted", f"{name} after {len(night.results)} runs"
    if not night.results:
        return "error", "nothing was run"
    return "passed", f"{len(night.results)} runs, {len(night.missed)} not reached"


def rows(night: Night) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: outcome, experiment, lab, trials of each arm, time, checks."""
    for result in night.results:
        experiment, lab = result.task.pair.key
        count, seconds = str(result.task.trials), f"{result.seconds:.0f} s"
        yield result.word, experiment, lab, count, seconds, _checks(result)


HEADINGS = ("", "experiment", "lab", "trials of each arm", "time", "checks")


def _checks(result: Result) -> str:
    wrong = [*result.failures, *result.errors]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return f"{wrong[0].name}: {wrong[0].reason}{more}"
    judged = [case for case in result.cases if case.group != "run"]
    held = sum(case.fate == "passed" for case in judged)
    open_ = len(judged) - held
    return f"{held} held" + (f", {open_} not judged" if open_ else "")


def to_json(night: Night, machine: Machine, baselines: Baselines) -> dict[str, Any]:
    """Return a nightly run as JSON values."""
    word, reason = outcome(night)
    return {
        "format": FORMAT,
        "begun": night.begun,
        "budget": night.budget,
        "spent": round(night.spent, 1),
        "outcome": word,
        "reason": reason,
        "machine": asdict(machine),
        "baselines": str(baselines.file),
        "new_baselines": night.new_baselines,
        "slower_by_chance": round(night.chance, 4),
        "runs": [_run(result) for result in night.results],
        "not_reached": [
            {"experiment": m.task.pair.key[0], "lab": m.task.pair.key[1], "trials": m.task.trials,
             "last": m.task.last, "reason": m.reason}
            for m in night.missed
        ],
        "cannot_run": [asdict(one) for one in night.excluded],
    }  # fmt: skip


def _run(result: Result) -> dict[str, Any]:
    experiment, lab = result.task.pair.key
    return {
        "experiment": experiment,
        "lab": lab,
        "trials": result.task.trials,
        "outcome": result.word,
        "seconds": round(result.seconds, 1),
        "run": result.run,
        "cases": [asdict(case) for case in result.cases],
    }


def markdown(night: Night, machine: Machine) -> str:
    """Return a nightly run as a page of Markdown."""
    word, reason = outcome(night)
    lines = [
        f"# Nightly: {word}",
        "",
        _cell(reason),
        "",
        f"{machine.cpu}, {machine.cores} cores, kernel {machine.kernel}; begun {night.begun}; "
        f"{night.spent:.0f} of {night.budget:.0f} s.",
        "",
        *_table(HEADINGS, rows(night)),
        "",
        f"{night.new_baselines} new baselines. A time or rate seems slower when its whole 95 % "
        f"interval is more than {100 * MARGIN:.0f} % beyond its baseline's, and is run again then. "
        f"Had nothing changed, {night.chance:.2g} of all compared would seem so by chance.",
    ]
    if night.missed:
        lines += ["", "## Not reached", "", *_table(
            ("experiment", "lab", "trials of each arm", "why", "last result"),
            ((*m.task.pair.key, str(m.task.trials), m.reason, m.task.last[:16] or "never")
             for m in night.missed),
        )]  # fmt: skip
    if night.excluded:
        kept = ((one.experiment, one.lab, one.reason) for one in night.excluded)
        lines += ["", "## Cannot run here", "", *_table(("experiment", "lab", "why"), kept)]
    return "\n".join(lines) + "\n"


def _table(headings: tuple[str, ...], body: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    for row in body:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    return (
        printable(text, kept="\n")
        .replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("\n", " ")
        .replace("<", "&lt;")
    )


def junit(night: Night) -> str:
    """Return a nightly run as JUnit XML: a suite per experiment, a case per check."""
    suites: dict[str, list[Case]] = {}
    for result in night.results:
        experiment, lab = result.task.pair.key
        group = f"{lab}, {result.task.trials} of each arm"
        suites.setdefault(experiment, []).extend(
            Case(group, case.name, case.fate, case.reason) for case in result.cases
        )
    for one in night.excluded:
        fate = Case(one.lab or "files", "can run", "error" if one.broken else "skipped", one.reason)
        suites.setdefault(one.experiment or one.lab, []).append(fate)
    for missed in night.missed:
        experiment, lab = missed.task.pair.key
        group = f"{lab}, {missed.task.trials} of each arm"
        reason = f"not reached: {missed.reason}"
        suites.setdefault(experiment, []).append(Case(group, "run", "skipped", reason))
    root = ET.Element("testsuites", name="nightly")
    for name, cases in suites.items():
        root.append(suite_of(name, cases, {}))
    return document(root)
