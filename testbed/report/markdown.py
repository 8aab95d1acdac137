"""A run as Markdown, for a page of notes or the summary of a CI pipeline."""

from __future__ import annotations

import re
from collections.abc import Sequence

from testbed.analysis.summary import Summary
from testbed.report.arms import HEADINGS, arm_tables, cells, notes
from testbed.report.short_arm_names import shortened
from testbed.report.wording import check_value

_LEFT = ("metric", "arm", "verdict", "check", "limit", "reason")


def markdown(summary: Summary) -> str:
    """Return a run's verdict, its table of arms and its checks as Markdown."""
    short = shortened(summary)
    where = f"{short.experiment} on {short.lab or 'no lab'} ({short.label or 'no label'})"
    parts = [
        f"**{_escaped(where)}**: {short.outcome}, {_escaped(short.reason)}; "
        f"clean-up {short.cleanup}"
    ]
    if rows := [(of.name, row.arm, *cells(row)) for of in arm_tables(short) for row in of.rows]:
        parts += [_table(HEADINGS, rows), *map(_escaped, notes(summary))]
    parts += [_escaped(f"{name}: {why}") for name, why in short.flags.items()]
    if checks := [(c.verdict, c.name, c.limit, check_value(c), c.reason) for c in short.checks]:
        parts.append(_table(("verdict", "check", "limit", "value", "reason"), checks))
    return "\n\n".join(parts) + "\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    sides = ["---" if heading in _LEFT else "---:" for heading in headings]
    lines = [headings, sides, *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*|<])", r"\\\1", " ".join(text.split()))
