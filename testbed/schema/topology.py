"""The topology of a job in an experiment: a name, or its `kind` with options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import create_model
from pydantic_core import core_schema

from testbed.fabric.topologies import TOPOLOGIES, Topology, summary
from testbed.schema.validation import Problem, Problems, StrictModel, chosen_name, shown, validated

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class TopologyField:
    """Say of a field that its value is one of some topologies."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, value: object) -> Topology:
        given = {"kind": value} if isinstance(value, str) else value
        if not isinstance(given, Mapping):
            example = "{kind: torus, shape: [2, 2]}"
            message = f"expected a topology by name, or as {example}, got {shown(value)}"
            raise Problems([Problem((), message)])
        steps = () if isinstance(value, str) else ("kind",)
        return _made(chosen_name(given, "kind", self.names, "topologies", steps), given)

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        kinds = [self._alternative(name, handler) for name in self.names]
        alone = [kind["title"] for kind in kinds if kind["required"] == ["kind"]]
        return {"oneOf": [{"enum": alone}, *kinds]}

    def _alternative(self, name: str, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler.resolve_ref_schema(handler(_options(name).__pydantic_core_schema__))
        return {
            "type": "object",
            "title": name,
            "description": summary(name),
            "properties": found["properties"] | {"kind": {"const": name}},
            "required": found["required"],
            "additionalProperties": False,
        }


_ALL = tuple(TOPOLOGIES)

TopologyOption = Annotated[Topology, TopologyField(_ALL)]
"""How a job's ranks are joined: `ring`, or a kind with options, `{kind: torus, shape: [2, 2]}`."""

_WITHIN_RAIL = Annotated[Topology, TopologyField(tuple(name for name in _ALL if name != "rails"))]


def _made(name: str, given: Mapping[str, Any]) -> Topology:
    kind: Any = TOPOLOGIES[name]
    options = validated(_options(name), dict(given))
    made: Topology = kind(**{field.name: getattr(options, field.name) for field in fields(kind)})
    return made


@cache
def _options(name: str) -> type[StrictModel]:
    """Return the keys that a topology may have in a file."""
    kind: Any = TOPOLOGIES[name]
    types = get_type_hints(kind)
    found: dict[str, Any] = {"kind": (str, ...)}
    for field in fields(kind):
        of = _WITHIN_RAIL if types[field.name] is Topology else types[field.name]
        found[field.name] = (of, ... if field.default is MISSING else field.default)
    return create_model(f"topology {name}", __base__=StrictModel, **found)
