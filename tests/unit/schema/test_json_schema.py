"""The JSON Schema that editors use."""

from __future__ import annotations

import pytest

from testbed.schema.json_schema import json_schema


def mappings(node):
    """Yield every schema of a mapping."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for child in node.values():
            yield from mappings(child)
    elif isinstance(node, list):
        for child in node:
            yield from mappings(child)


@pytest.mark.parametrize("file", ["lab", "experiment"])
def test_every_mapping_in_a_json_schema_forbids_unknown_keys_or_describes_its_values(file):
    schema = json_schema(file)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for mapping in mappings(schema):
        open_to = mapping.get("additionalProperties")
        assert open_to is False or {"type", "$ref"} & set(open_to)


def test_each_kind_of_plug_in_is_an_alternative_with_its_own_keys():
    jobs = json_schema("experiment")["properties"]["jobs"]["patternProperties"]
    (entry,) = jobs.values()
    train = next(one for one in entry["oneOf"] if one["title"] == "toy-train")
    assert train["properties"]["kind"] == {"const": "toy-train", "description": "train a toy"}
    assert train["properties"]["ranks"]["description"] == "Number of ranks that compute."
    assert {"hosts", "topology", "weights"} < set(train["properties"])
    assert "options" not in train["properties"]
    assert set(train["required"]) == {"kind", "ranks"}


def test_a_json_schema_offers_only_the_drivers_of_each_kind_of_instrument():
    schema = json_schema("lab")["properties"]
    offered = {
        section: {one["title"] for entry in schema[section]["patternProperties"].values()
                  for one in entry["oneOf"]}
        for section in ("switches", "power")
    }  # fmt: skip
    assert "toy-ocs" in offered["switches"]
    assert "toy-ocs" not in offered["power"]
    assert "toy-pdu" in offered["power"]


def test_a_quantity_in_a_json_schema_is_text_with_a_unit():
    rate = json_schema("lab")["$defs"]["TwinSettings"]["properties"]["rate"]
    assert (rate["type"], rate["examples"]) == ("string", ["500 Mbit/s"])
    assert "default" not in rate
