"""Entries of a file that refer to a plug-in: a driver, a job, a fault, a policy, a controller.

Such an entry names its kind under one key (`kind`, `driver`). The keys that every entry of its
sort has are fields of a model here; all others belong to the options dataclass of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import create_model
from pydantic_core import core_schema

from testbed.errors import TestbedError
from testbed.plugins import Kind, kinds
from testbed.schema.validation import Problem, Problems, StrictModel, chosen_name, shown, validated

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema


class PluginEntry(StrictModel):
    """An entry of a file about one plug-in: `options` is an instance of its dataclass."""

    options: Any


@dataclass(frozen=True, slots=True)
class PluginField:
    """Annotates a field whose value refers to a plug-in of a group, named under `key`."""

    group: str
    key: str = "kind"
    role: str = ""

    def __get_pydantic_core_schema__(self, source: type[PluginEntry], handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: self._read(source, value), metadata={"sort": source}
        )

    def _known(self) -> dict[str, Kind]:
        return {n: k for n, k in kinds(self.group).items() if self.role in {"", k.role}}

    def _read(self, sort: type[PluginEntry], value: object) -> PluginEntry:
        if not isinstance(value, Mapping):
            raise Problems([Problem((), f"expected a mapping of keys, got {shown(value)}")])
        known, what = self._known(), f"{self.role} {self.group}".strip()
        name = chosen_name(value, self.key, known, what, (self.key,))
        return validated_entry(sort, name, known[name], value)

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        sort = schema["metadata"]["sort"]
        alternatives = [
            self._alternative(_model(sort, name, kind), name, kind, handler)
            for name, kind in self._known().items()
        ]
        return {"oneOf": alternatives} if alternatives else {"not": {}}

    def _alternative(
        self, model: type[PluginEntry], name: str, kind: Kind, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema of one kind: its options lie beside the common keys in a file."""
        common = handler.resolve_ref_schema(handler(model.__pydantic_core_schema__))
        properties = dict(common["properties"])
        options = handler.resolve_ref_schema(properties.pop("options"))
        properties[self.key] = {"const": name, "description": kind.summary}
        required = [key for key in common["required"] if key != "options"]
        return {
            "type": "object",
            "title": name,
            "description": kind.summary,
            "properties": properties | options.get("properties", {}),
            "required": required + options.get("required", []) + list(kind.needs),
            "additionalProperties": False,
        }


def validated_entry(
    sort: type[PluginEntry], name: str, kind: Kind, value: Mapping[str, Any]
) -> PluginEntry:
    """Return an entry about a plug-in as a file gives it; raise Problems for a wrong one."""
    common = [key for key in sort.model_fields if key != "options"]
    options = {key: held for key, held in value.items() if key not in common}
    nested = {key: held for key, held in value.items() if key in common}
    model = _model(sort, name, kind)
    return validated(model, nested | {"options": options}, hidden="options")


@cache
def _model(sort: type[PluginEntry], name: str, kind: Kind) -> type[PluginEntry]:
    clashes = {field.name for field in fields(kind.options)} & set(sort.model_fields)
    if clashes:
        raise TestbedError(
            f"plug-in {name!r} has an option {min(clashes)!r}, which every {sort.__name__} has",
            hint="rename the option",
        )
    options: Any = (kind.options, ...)
    return create_model(f"{sort.__name__} {name}", __base__=sort, options=options)
