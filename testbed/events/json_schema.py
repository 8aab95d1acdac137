"""The JSON Schema of a line of `events.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.events.kind import EventKind, integer, number, text

LINE = {
    "seq": integer("the number of the event in its run, from 0"),
    "t": number("s", "when it was written or received, on the run's monotonic clock"),
    "kind": text("what happened"),
    "subject": text("what it is about: a host, a port, a rank, a switch, an arm"),
    "trial": integer("the trial's number, from 0", optional=True),
    "job": text("the job that it is about", optional=True),
    "owner": text("whose circuits it is about: a job or a controller", optional=True),
    "controller": text("the controller that decided on it", optional=True),
    "cause": integer("the `seq` of the event that led to it", optional=True),
}
"""What every line has besides `data`."""


def json_schema(kinds: Mapping[str, EventKind]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an event of these kinds, by name."""
    properties = {name: field.json_schema() for name, field in LINE.items()}
    properties["kind"]["enum"] = sorted(kinds)
    properties["data"] = {"type": "object"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of events.jsonl",
        "type": "object",
        "properties": properties,
        "required": [*(name for name, field in LINE.items() if not field.optional), "data"],
        "additionalProperties": False,
        "allOf": [_of_kind(name, kind) for name, kind in sorted(kinds.items())],
    }


def _of_kind(name: str, kind: EventKind) -> dict[str, Any]:
    described = {"description": kind.what, "properties": {"data": kind.json_schema()}}
    return {"if": {"properties": {"kind": {"const": name}}}, "then": described}
