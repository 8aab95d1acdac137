"""Write a run as JUnit XML for CI servers: a case for the run, each check and each trial."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from testbed.analysis.checks import CheckResult
from testbed.analysis.summary import Summary
from testbed.analysis.trial import TrialResult
from testbed.printable import printable
from testbed.record.rundir import RunDirectory
from testbed.report.trial_section import remark
from testbed.report.wording import check_value, supports

Fate = Literal["passed", "failure", "error", "skipped"]

_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, such as escapes in what a host printed."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test case of a CI report: a failed check is a failure, a lab problem an error."""

    group: str
    name: str
    fate: Fate
    reason: str = ""


def write_junit(summary: Summary, path: Path) -> None:
    """Write a run as one JUnit suite; a run without any measured trial has an error.

    The flags of metrics, such as a bandwidth above the rate of a port, are properties of the suite.
    """
    named = ("run", "seed", "lab", "label", "outcome")
    properties = {name: str(getattr(summary, name)) for name in named} | dict(summary.flags)
    suite = suite_of(summary.experiment, list(_cases(summary)), properties)
    RunDirectory(path.parent).write_text(path.name, document(suite))


def document(root: ET.Element) -> str:
    """Return an XML element as a complete document."""
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def suite_of(name: str, cases: Sequence[Case], properties: Mapping[str, str]) -> ET.Element:
    """Return cases as one JUnit suite, with the counts of failures, errors and skipped cases."""
    suite = ET.Element("testsuite", name=_clean(name), tests=str(len(cases)))
    for fate, plural in _COUNTED.items():
        suite.set(plural, str(sum(case.fate == fate for case in cases)))
    if properties:
        kept = ET.SubElement(suite, "properties")
        for key, value in properties.items():
            ET.SubElement(kept, "property", name=key, value=_clean(value))
    for case in cases:
        suite.append(_element(case, name))
    return suite


_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
"""Fates that a suite counts, and the attribute that each is counted in."""


def _cases(summary: Summary) -> Iterator[Case]:
    yield Case("run", "run", *_run(summary))
    left = "; ".join(summary.left)
    cleanup: dict[str, Fate] = {"verified": "passed", "unknown": "skipped"}
    yield Case("run", "clean-up", cleanup.get(summary.cleanup, "error"), left or summary.cleanup)
    for check in summary.checks:
        yield Case("checks", f"{check.name} {check.limit}", *_check(check))
    for trial in summary.trials:
        yield Case("trials", f"trial {trial.number} {trial.arm}", *_trial(trial))


def _run(summary: Summary) -> tuple[Fate, str]:
    if summary.destroyed or summary.removed_circuits.found:
        return "failure", summary.reason
    is_broken = summary.outcome in ("error", "aborted")
    if is_broken or not any(trial.valid and trial.values for trial in summary.trials):
        return "error", f"{summary.outcome}: {summary.reason}"
    return ("skipped" if summary.outcome == "inconclusive" else "passed"), summary.reason


def _check(check: CheckResult) -> tuple[Fate, str]:
    fates: dict[str, Fate] = {"passed": "passed", "failed": "failure", "unknown": "skipped"}
    words = (check_value(check), check.reason, supports(check))
    return fates[check.verdict], "; ".join(filter(None, words))


def _trial(trial: TrialResult) -> tuple[Fate, str]:
    if not trial.valid:
        return "skipped", f"invalid: {trial.reason or 'no observer but the injector saw the fault'}"
    if trial.job_failed:
        how = "not well at its end" if trial.recovered is None else "not recovered"
        return "failure", f"{how}: {trial.reason}"
    if trial.outcome == "not known":
        return "skipped", f"not known: {remark(trial)}"
    word = "ridden out: " if trial.outcome == "ridden out" else ""
    return "passed", word + remark(trial)


def _element(case: Case, experiment: str) -> ET.Element:
    group = f"{experiment}.{case.group}"
    element = ET.Element("testcase", classname=_clean(group), name=_clean(case.name))
    if case.fate != "passed":
        ET.SubElement(element, case.fate, message=_clean(case.reason))
    elif case.reason:
        ET.SubElement(element, "system-out").text = _clean(case.reason)
    return element


def _clean(text: str) -> str:
    return _NO_XML.sub("�", printable(text, kept="\n\t"))
