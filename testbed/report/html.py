"""Write the report of a run as one HTML file that opens offline; the only importer of jinja2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from testbed.analysis.marks import NAMES
from testbed.analysis.metrics import Metric
from testbed.analysis.rail_spans import KINDS as RAIL_EVENTS
from testbed.analysis.summary import Summary
from testbed.analysis.trial import TrialResult
from testbed.events import Event
from testbed.printable import printable
from testbed.record.rundir import RunDirectory
from testbed.report.anatomy import Anatomy, anatomies
from testbed.report.arms import HEADINGS, arm_tables, columns_of, notes, rows_in_words
from testbed.report.canvas import NARROW, WIDE, svg
from testbed.report.claims import claim_of
from testbed.report.drawings import Drawing, drawings
from testbed.report.lane_figure import lane_drawings
from testbed.report.rail_figure import rail_drawings
from testbed.report.settings_section import HEADINGS as HEADINGS_OF_PROFILES
from testbed.report.settings_section import PROFILES_NOTE, profile_rows, settings_lines
from testbed.report.short_arm_names import shortened
from testbed.report.trial_section import remark
from testbed.report.wording import (
    by_arm,
    check_rows,
    explain,
    quantity,
    statistics_in_words,
)


def write_html(summary: Summary, events: Iterable[Event], path: Path) -> None:
    """Write the report of a run; of its `events`, those of steps are not needed."""
    jinja = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = jinja.get_template("report.html.j2").render(_page(summary, events))
    RunDirectory(path.parent).write_text(path.name, text)


def _shown(value: object) -> object:
    """Return a value as the page shows it; figures, which were drawn here, as they are."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return printable(value, "\n\t")


def _page(summary: Summary, events: Iterable[Event]) -> dict[str, Any]:
    of_page = ("run.begin", "fault.inject", *RAIL_EVENTS)
    needed = [event for event in events if event.kind in of_page]
    begin = next((event.data for event in needed if event.kind == "run.begin"), {})
    full, summary = summary, shortened(summary)
    arms, tables = anatomies(summary), arm_tables(summary)
    columns = columns_of(tables)
    return {
        "arm_headings": [HEADINGS[column] for column in columns],
        "arm_rows": list(rows_in_words(tables, columns)),
        "arm_notes": list(notes(full)),
        "summary": summary,
        "question": begin.get("question", ""),
        "label_means": explain(summary.label),
        "claim": claim_of(summary.experiment) if arms else None,
        "checks": check_rows(summary.checks),
        "anatomies": [(arm, list(_parts(arm))) for arm in arms],
        "figures": dict(_figures(drawings(summary))),
        "lanes": dict(_figures(lane_drawings(summary, needed))),
        "rails": dict(_figures(rail_drawings(summary, needed))),
        "mark_names": NAMES[1:] if arms else (),
        "settings": list(settings_lines(summary.settings)),
        "profile_headings": HEADINGS_OF_PROFILES,
        "profiles": list(profile_rows(summary.profiles)),
        "profiles_note": PROFILES_NOTE,
        "flags": [f"{name}: {why}" for name, why in summary.flags.items()],
        "trials": list(_trials(summary, needed)),
        "metrics": [_metric(name, summary.metrics[name]) for name in by_arm(summary.metrics)],
        "facts": list(_facts(begin)),
        "command": begin.get("command", ""),
        "repeat": _repeat(begin),
    }


def _parts(arm: Anatomy) -> Iterator[dict[str, str]]:
    for duration in arm.parts:
        part = {"name": duration.part.name, "what": duration.part.what}
        yield part | statistics_in_words(duration, "s")


def _figures(found: Iterable[Drawing]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each figure that there is something to draw for, in every form."""
    for drawing in found:
        drawn = ((form, drawing.draw(form)) for form in (WIDE, NARROW))
        yield drawing.name, [(form.name, svg(figure, drawing.name, form)) for form, figure in drawn]


def _trials(summary: Summary, events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    faults = {e.trial: e for e in events if e.kind == "fault.inject"}
    for trial in summary.trials:
        fault = faults.get(trial.number)
        yield {
            "number": trial.number,
            "arm": trial.arm,
            "result": trial.outcome,
            "fault": f"{fault.data['fault']} of {fault.subject}" if fault else "",
            "marks": _marks(trial),
            "lost": "" if trial.lost_steps is None else str(trial.lost_steps),
            "receipt": _receipt(trial),
            "reason": remark(trial),
        }


def _marks(trial: TrialResult) -> list[str]:
    """Return t1 … t11 in milliseconds, one unit for the whole table."""
    reached = trial.marks.relative() if trial.marks else {}
    return [f"{reached[n] * 1e3:.1f}" if n in reached else "" for n in NAMES[1:]]


def _receipt(trial: TrialResult) -> str:
    if trial.receipt is None:
        return ""
    return f"{trial.receipt['observer']}, {quantity(trial.receipt['at'], 's')}"


def _metric(name: str, metric: Metric) -> dict[str, str]:
    arrow = {"lower": "↓", "higher": "↑", "neither": ""}[metric.meaning.better]
    meaning = {"name": name, "what": metric.meaning.what, "better": arrow}
    return meaning | statistics_in_words(metric, metric.meaning.unit)


def _facts(begin: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the record says about where and from what the run was made."""
    for name, title in (("started", "started"), ("plan", "plan"), ("bundle", "code on hosts")):
        if name in begin:
            yield title, str(begin[name])
    git = begin.get("git") or {}
    if git:
        yield "commit", git["commit"] + (", with changes" if git["dirty"] else "")
    for group in ("versions", "machine"):
        for name, value in begin.get(group, {}).items():
            yield name, str(value)


def _repeat(begin: Mapping[str, Any]) -> str:
    """Return the command that makes the same draws again."""
    command, seed = str(begin.get("command", "")), begin.get("seed")
    if not command or seed is None or "--seed" in command:
        return command
    return f"{command} --seed {seed}"
