"""JSON Schemas of the file formats, for editors; loading a file checks more than they do."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema, DictSchema, ModelSchema, WithDefaultSchema

from testbed.schema.circuits import CircuitList
from testbed.schema.experiment import Experiment
from testbed.schema.host_groups import GROUP
from testbed.schema.lab import Lab
from testbed.schema.validation import Document


class _Closed(GenerateJsonSchema):
    """Close mappings by name too, and leave out defaults that a file would write otherwise.

    Fields are described by the docstrings below them. pydantic could read these itself, but does so
    whenever a model is defined, which doubled the start of every command.
    """

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        return _with_descriptions(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: DataclassSchema) -> dict[str, Any]:
        return _with_descriptions(super().dataclass_schema(schema), schema["cls"])

    def dict_schema(self, schema: DictSchema) -> dict[str, Any]:
        made = super().dict_schema(schema)
        return made | ({"additionalProperties": False} if "patternProperties" in made else {})

    def default_schema(self, schema: WithDefaultSchema) -> dict[str, Any]:
        made = super().default_schema(schema)
        is_text = made.get("type") == "string" or "oneOf" in made
        if is_text and not isinstance(made.get("default", ""), str):
            del made["default"]
        return made


def json_schema(file: Literal["experiment", "lab", "circuits"]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file, with every installed plug-in's options."""
    models: dict[str, type[Document]] = {"experiment": Experiment, "lab": Lab}
    model = models.get(file, CircuitList)
    schema = model.model_json_schema(schema_generator=_Closed)
    if model is Lab:
        _add_groups(schema)
    return {"$schema": _Closed.schema_dialect} | schema


def _add_groups(schema: dict[str, Any]) -> None:
    """Describe groups of hosts: as hosts, but their texts may hold the host's number."""
    kinds = schema["$defs"]
    for name in ("Host", "Port"):
        kinds[f"{name}Group"] = _with_numbers(kinds[name])
    hosts = schema["properties"]["hosts"]["patternProperties"]
    hosts[f"^{GROUP}$"] = {"$ref": "#/$defs/HostGroup"}


def _with_numbers(node: Any) -> Any:
    """Return the schema of a part of a group, in which no text is spelt as in a single host."""
    if isinstance(node, list):
        return [_with_numbers(one) for one in node]
    if not isinstance(node, dict):
        return f"{node}Group" if node == "#/$defs/Port" else node
    return {key: _with_numbers(held) for key, held in node.items() if key != "pattern"}


def _with_descriptions(schema: dict[str, Any], model: type) -> dict[str, Any]:
    """Return the schema of a model with the docstring below each of its fields."""
    properties = schema.get("properties", {})
    fields = model.model_fields if issubclass(model, BaseModel) else {}
    for name, text in _field_docstrings(model).items():
        key = (fields[name].alias if name in fields else None) or name
        if key in properties:
            described = properties[key] | {"description": text}
            properties[key] = {part: described[part] for part in sorted(described)}
    return schema


@cache
def _field_docstrings(model: type) -> dict[str, str]:
    """Return the docstring below each field, those of base classes first."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base is BaseModel:
            continue
        try:
            (written,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError):  # made at run time of a plug-in's options, or built in
            continue
        assert isinstance(written, ast.ClassDef)
        for field, after in zip(written.body, written.body[1:], strict=False):
            match field, after:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = inspect.cleandoc(text)
    return found
