"""JSON Schema of both files, for editors; what it cannot say, loading still checks."""

from __future__ import annotations

from typing import Any, Literal

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DictSchema, WithDefaultSchema

from testbed.schema.check import Document
from testbed.schema.circuits import CircuitList
from testbed.schema.experiment import Experiment
from testbed.schema.lab import Lab


class _Closed(GenerateJsonSchema):
    """Close mappings by name too, and leave out defaults that a file would write otherwise."""

    def dict_schema(self, schema: DictSchema) -> dict[str, Any]:
        made = super().dict_schema(schema)
        return made | ({"additionalProperties": False} if "patternProperties" in made else {})

    def default_schema(self, schema: WithDefaultSchema) -> dict[str, Any]:
        made = super().default_schema(schema)
        if made.get("type") == "string" and not isinstance(made.get("default", ""), str):
            del made["default"]
        return made


def json_schema(file: Literal["experiment", "lab", "circuits"]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file, with every installed plug-in's options."""
    models: dict[str, type[Document]] = {"experiment": Experiment, "lab": Lab}
    model = models.get(file, CircuitList)
    schema = model.model_json_schema(schema_generator=_Closed)
    return {"$schema": _Closed.schema_dialect} | schema
