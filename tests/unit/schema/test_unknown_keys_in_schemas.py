"""The schemas are closed at every node, and loading refuses what they forbid, where it stands."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.schema import load
from testbed.schema.json_schema import json_schema
from testbed.schema.yaml12 import parse

BOGUS = "bogus key"
FILES = ("experiment", "lab", "circuits")
KEYS = {"[1-9]": "1", "faults|jobs": "faults", "(.+": "metric"}
"""A key for each pattern of keys, by how it begins; most are names."""


def objects(node, root, steps=(), held=None):
    """Yield each mapping that a schema describes: the way to it, data that holds it, itself.

    The data is right in shape only: it has all the keys on the way and whatever they must be.
    """
    if "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    held = held or (lambda inner: inner)
    for one in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from objects(one, root, steps, held)
    if node.get("type") == "array":
        for item in (node.get("items"), *node.get("prefixItems", ())):
            if isinstance(item, dict):
                yield from objects(item, root, (*steps, 0), lambda inner: held([inner]))
    if node.get("type") != "object":
        return
    fixed = {k: v["const"] for k, v in node.get("properties", {}).items() if "const" in v}
    yield steps, held(fixed), node
    for key, child in children(node):
        yield from objects(
            child, root, (*steps, key), lambda inner, key=key: held(fixed | {key: inner})
        )


def children(node):
    yield from node.get("properties", {}).items()
    for pattern, child in node.get("patternProperties", {}).items():
        start = pattern.removeprefix("^").removeprefix("(?:")
        yield next((KEYS[begin] for begin in KEYS if start.startswith(begin)), "name"), child
    if isinstance(node.get("additionalProperties"), dict):
        yield "name", node["additionalProperties"]


def at(data, steps):
    for step in steps:
        data = data[step]
    return data


@pytest.mark.parametrize("file", FILES)
def test_no_mapping_of_a_json_schema_accepts_an_unknown_key(file):
    schema = json_schema(file)
    found = list(objects(schema, schema))
    assert len(found) >= {"experiment": 50, "lab": 30, "circuits": 1}[file]
    for steps, _, node in found:
        more = node.get("additionalProperties", True)
        assert more is False or {"type", "$ref"} & set(more), steps


@pytest.mark.parametrize("file", FILES)
def test_loading_refuses_an_unknown_key_in_every_mapping_of_the_json_schema(
    file, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    schema = json_schema(file)
    marker = {"experiment": {"experiment": "x"}, "circuits": {"circuits": []}}.get(file, {})
    for steps, data, node in objects(schema, schema):
        wrong = marker | copy.deepcopy(data)
        at(wrong, steps)[BOGUS] = None
        text = json.dumps(wrong, indent=1)
        Path("f").write_text(text)
        with pytest.raises(FileError) as refusal:
            load("f")
        errors = (refusal.value, *getattr(refusal.value, "others", ()))
        _, marks = parse("f", text)
        bogus = marks[*steps, BOGUS]
        places = {str(bogus.key)}
        if node.get("additionalProperties"):  # any key, but only values of a type
            places = {str(bogus.value)}
        if {"env", "file"} & set(node.get("properties", {})) and len(node["properties"]) == 1:
            places = {str(marks[steps].value)}  # a secret is told about as a whole
        assert places & {error.where for error in errors}, (steps, [str(one) for one in errors])


def test_unknown_keys_set_by_an_arm_are_refused(refused_experiment):
    for old, new in (
        ("policy.standby: warm", f"policy: {{kind: toy-splice, {BOGUS}: 1}}"),
        ("policy.standby: warm", f"policy.{BOGUS}: 1"),
        ("policy.standby: warm", f"faults.0.at: {{step: 1, {BOGUS}: 1}}"),
        ("lab.twin.settle: 50 ms", f"lab.twin: {{{BOGUS}: 1}}"),
        ("lab.twin.settle: 50 ms", f"lab.twin.{BOGUS}: 1"),
    ):
        assert any("no such key" in error for error in refused_experiment(old, new)), new
