"""The tables of event kinds and their fields in docs/events.md.

Run it to write the page: `.venv/bin/python -m tests.docs.event_tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from testbed.events.json_schema import LINE
from testbed.events.kind import EventField, EventKind
from testbed.events.lab_kinds import LAB_KINDS
from testbed.events.rank_kinds import RANK_KINDS
from testbed.events.run_kinds import RUN_KINDS
from testbed.events.trial_kinds import TRIAL_KINDS

PAGE = Path(__file__).parents[2] / "docs" / "events.md"

_INTRODUCTION = """\
# Events

Generated from the registry of event kinds (`testbed/events/`) by `tests/docs/event_tables.py`;
`testbed schema events` prints the same as a JSON Schema, with the kinds that installed packages
register.

`events.jsonl` in a run directory has one event a line, in the order in which they were written. It
is the only truth about a run: every number of its report is computed from it, and can be again.
Records of older versions lack fields that came later, and are read all the same.
"""

_OWN_KINDS = """\
## Kinds of other packages

A package registers its own kinds of events under the entry-point group `testbed.events`: the entry
point's name is that of the kind, and it names a `testbed.events.kind.EventKind`, made with
`event_kind(sentence, field=number("s", "what it says"))`. The log refuses a kind that is not
registered.
"""

_SECTIONS: dict[str, Mapping[str, EventKind]] = {
    "The run": RUN_KINDS,
    "The lab": LAB_KINDS,
    "Trials": TRIAL_KINDS,
    "What hosts report": RANK_KINDS,
}


def page() -> str:
    """Return the whole page as it must be."""
    line = ["## A line", "", *_table(LINE), "| `data` | mapping | the fields of the kind |", ""]
    parts = [_INTRODUCTION, "\n".join(line)]
    for title, kinds in _SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_kind(name, kind) for name, kind in kinds.items()]
    return "\n".join([*parts, _OWN_KINDS])


def _kind(name: str, kind: EventKind) -> str:
    lines = [f"### `{name}`", "", f"{kind.what[0].upper()}{kind.what[1:]}.", ""]
    if kind.fields:
        lines += [*_table(kind.fields), ""]
    if kind.more:
        lines += [f"Further fields: {kind.more}.", ""]
    return "\n".join(lines)


def _table(fields: Mapping[str, EventField]) -> list[str]:
    rows = [(f"`{name}`", _type(field), field.what) for name, field in fields.items()]
    lines = [("field", "value", "meaning"), ("---", "---", "---"), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _type(field: EventField) -> str:
    unit = f" in {field.unit}" if field.unit else ""
    null = " or null" if field.nullable else ""
    optional = ", optional" if field.optional else ""
    return f"{field.type}{unit}{null}{optional}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
