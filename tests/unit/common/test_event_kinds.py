"""What is written to the log is what the registry of event kinds says."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.events import Event
from testbed.events.json_schema import json_schema
from testbed.events.kind import event_kind, flag, integer, items, mapping, number, text
from testbed.events.kinds import KINDS
from testbed.record.event_kinds import event_kinds, is_registered
from testbed.record.log import EventLog, read_events
from testbed.run import agent_reports

ROOT = Path(__file__).parents[3]
OLD = ROOT / "tests" / "unit" / "analysis" / "data" / "faults.jsonl"
"""The record of an older version, whose events have fewer fields."""
RECORDED = Path(__file__).parent / "data" / "faults.jsonl"
"""Some events of each kind of a run of `faults.yaml` on a twin."""
_numbers = count()

Written = tuple[str, str, set[str]]
"""Where an event is written, its kind, and the fields that are named there."""


def calls(package: str, method: str) -> Iterator[tuple[str, str, set[str]]]:
    """Yield where a method is called with a literal first, that, and the keywords of the call."""
    for path in sorted((ROOT / package).rglob("*.py")):
        source = path.read_text()
        if f"{method}(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            first = node.args[0] if node.args else None
            if node.func.attr == method and isinstance(first, ast.Constant):
                names = {keyword.arg for keyword in node.keywords if keyword.arg}
                yield f"{path.relative_to(ROOT)}:{node.lineno}", str(first.value), names


def written() -> Iterator[Written]:
    """Yield every event that code writes by a literal name."""
    for where, kind, names in (*calls("testbed", "append"), *calls("testbed/run", "_append")):
        if kind in KINDS:
            yield where, kind, names - {"at"}
    for where, event, names in calls("testbed/onhost", "emit"):
        yield where, agent_reports._KINDS.get(event, "symptom"), names - {"mono"}


def test_code_writes_registered_fields_only():
    wrong = [
        f"{where}: {name} of {kind}"
        for where, kind, names in written()
        for name in sorted(names - KINDS[kind].fields.keys())
        if not KINDS[kind].more and kind != "output"
    ]
    assert not wrong
    assert {"recovery.decided", "step", "fault.undo"} <= {kind for _, kind, _ in written()}


def problems(path):
    return {
        f"{event.kind}: {problem}"
        for event in read_events(path)
        for problem in KINDS[event.kind].problems(event.data)
    }


def test_a_recorded_run_has_all_registered_fields_of_their_types():
    assert not problems(RECORDED)


def test_what_an_old_record_has_is_still_registered():
    assert {problem for problem in problems(OLD) if not problem.endswith("is missing")} == set()


TYPES = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def accepts(schema, value):
    """Tell whether a JSON Schema accepts a value, by the keywords that ours uses."""
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    numbers = {"number", "integer"}
    if not any(
        isinstance(value, TYPES[kind]) and not (isinstance(value, bool) and kind in numbers)
        for kind in kinds
    ):
        return False
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        if not set(schema.get("required", [])) <= value.keys():
            return False
        if not schema.get("additionalProperties", True) and not value.keys() <= known.keys():
            return False
        if not all(accepts(known[name], held) for name, held in value.items() if name in known):
            return False
    branches = [one for one in schema.get("allOf", []) if accepts(one["if"], value)]
    return all(accepts(one["then"], value) for one in branches)


def test_the_schema_accepts_a_recorded_run_and_refuses_what_differs():
    schema = json_schema(KINDS)
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        assert accepts(schema, row), line
        assert accepts(schema, row | {"job": "main", "cause": 3})
        assert not accepts(schema, row | {"cause": "the fault"})
        assert not accepts(schema, row | {"kind": "other"})
        if not KINDS[row["kind"]].more:
            assert not accepts(schema, row | {"data": row["data"] | {"other": 1}})
        for name, field in KINDS[row["kind"]].fields.items():
            missing = {key: held for key, held in row["data"].items() if key != name}
            assert accepts(schema, row | {"data": missing}) == field.optional


EXAMPLE = event_kind(
    "an example",
    name=text("its name"),
    size=integer("its size", "B"),
    lasts=number("s", "how long", nullable=True),
    is_new=flag("whether it is new", optional=True),
    parts=items("its parts", optional=True),
    facts=mapping("its facts", optional=True),
)
FITS = {"name": "a", "size": 3, "lasts": 0.5}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"lasts": None, "is_new": True, "parts": [1], "facts": {"a": 1}}, None),
        ({"lasts": 2}, None),
        ({"name": None}, "name is no text: None"),
        ({"size": 1.5}, "size is no integer: 1.5"),
        ({"size": True}, "size is no integer: True"),
        ({"is_new": 1}, "is_new is no flag: 1"),
        ({"parts": "abc"}, "parts is no list: 'abc'"),
        ({"facts": [1]}, "facts is no mapping: [1]"),
        ({"other": 1}, "other is not registered"),
    ],
)
def test_data_are_checked_against_the_fields_of_a_kind(changes, problem):
    assert list(EXAMPLE.problems(FITS | changes)) == ([problem] if problem else [])


def test_a_missing_field_is_a_problem_unless_it_is_optional():
    assert list(EXAMPLE.problems({"name": "a", "size": 1})) == ["lasts is missing"]


def test_further_fields_are_accepted_where_a_kind_has_some():
    assert not list(event_kind("open", "anything").problems({"other": 1}))


def test_the_schema_accepts_events_as_they_are_written(tmp_path):
    schema = json_schema(KINDS)
    assert json.loads(json.dumps(schema)) == schema
    (fault,) = [
        branch["then"]["properties"]["data"]
        for branch in schema["allOf"]
        if branch["if"]["properties"]["kind"]["const"] == "fault.undo"
    ]
    assert fault["required"] == ["fault", "sent", "done"]
    assert fault["properties"]["sent"] == {
        "type": "number",
        "description": "when the undo began, in `t`",
        "unit": "s",
    }
    assert fault["additionalProperties"] is False
    line = json.loads(Event(0, 0.0, "note", trial=3).to_json())
    assert line.keys() <= schema["properties"].keys()
    assert set(schema["required"]) <= line.keys()


def test_every_sentence_is_one_that_a_table_can_hold():
    for kind in KINDS.values():
        for said in (kind.what, *(field.what for field in kind.fields.values())):
            assert said and not re.search(r"[|\n]|\.$", said), said


@pytest.fixture
def register(tmp_path, monkeypatch):
    """Install a package that registers a kind of event under a name."""

    def register(name):
        package = f"events{next(_numbers)}lab"
        code = (
            "from testbed.events.kind import event_kind, number\n"
            "KIND = event_kind('a value was measured', dbm=number('dBm', 'the value'))\n"
        )
        (tmp_path / f"{package}.py").write_text(code)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[testbed.events]\n{name} = {package}:KIND\n")
        monkeypatch.syspath_prepend(tmp_path)

    return register


def test_a_package_registers_kinds_that_the_log_then_takes(register, tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    with pytest.raises(ValueError, match=r"'toy\.measured' is not a kind of event"):
        log.append("toy.measured", dbm=-3.0)
    register("toy.measured")
    assert log.append("toy.measured", dbm=-3.0).seq == 0
    log.close()
    assert is_registered("toy.measured")
    assert event_kinds()["toy.measured"].fields["dbm"].unit == "dBm"
    assert "toy.measured" in json_schema(event_kinds())["properties"]["kind"]["enum"]


def test_a_package_cannot_register_a_kind_that_is_there(register):
    register("step")
    with pytest.raises(TestbedError, match="registers the event kind 'step'"):
        event_kinds()
