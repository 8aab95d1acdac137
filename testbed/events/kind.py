"""What a kind of event is: one sentence, and the fields of its data with their types and units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

FieldType = Literal["text", "number", "integer", "flag", "list", "mapping"]

_PYTHON: dict[FieldType, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "integer": (int,),
    "flag": (bool,),
    "list": (Sequence,),
    "mapping": (Mapping,),
}
_JSON: dict[FieldType, str] = {
    "text": "string",
    "number": "number",
    "integer": "integer",
    "flag": "boolean",
    "list": "array",
    "mapping": "object",
}


@dataclass(frozen=True, slots=True)
class EventField:
    """Describe one field of an event's data."""

    type: FieldType
    what: str
    unit: str = ""
    """The unit of its numbers, as `s` or `bit/s`; empty for plain numbers and for what is none."""
    nullable: bool = False
    """It is null where there is no such value."""
    optional: bool = False
    """It may be missing."""

    def fits(self, value: Any) -> bool:
        """Tell whether a value is of the field's type."""
        if value is None:
            return self.nullable
        if isinstance(value, bool) or self.type == "flag":
            return isinstance(value, bool) and self.type == "flag"
        if isinstance(value, str) and self.type == "list":
            return False
        return isinstance(value, _PYTHON[self.type])

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its values; `unit` is an annotation of ours."""
        name = _JSON[self.type]
        schema: dict[str, Any] = {"type": [name, "null"] if self.nullable else name}
        schema["description"] = self.what
        return schema | ({"unit": self.unit} if self.unit else {})


@dataclass(frozen=True, slots=True)
class EventKind:
    """Describe a kind of event. A package registers its own under `testbed.events`, by name."""

    what: str
    fields: Mapping[str, EventField]
    more: str = ""
    """What further fields its data may have; empty where there are no others."""

    def problems(self, data: Mapping[str, Any]) -> Iterator[str]:
        """Yield in what an event's data differ from this description."""
        for name, field in self.fields.items():
            if name in data and not field.fits(data[name]):
                yield f"{name} is no {field.type}: {data[name]!r}"
            elif name not in data and not field.optional:
                yield f"{name} is missing"
        if not self.more:
            yield from (f"{name} is not registered" for name in data if name not in self.fields)

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its data."""
        return {
            "type": "object",
            "properties": {name: field.json_schema() for name, field in self.fields.items()},
            "required": [name for name, field in self.fields.items() if not field.optional],
            "additionalProperties": bool(self.more),
        }


def event_kind(what: str, more: str = "", /, **fields: EventField) -> EventKind:
    """Return a kind of event from a sentence, `more` if it has any, and its fields by name."""
    return EventKind(what, fields, more)


def text(what: str, /, *, nullable: bool = False, optional: bool = False) -> EventField:
    """Return a field of text."""
    return EventField("text", what, "", nullable, optional)


def number(
    unit: str, what: str, /, *, nullable: bool = False, optional: bool = False
) -> EventField:
    """Return a field of a number in some unit, `1` for a share or another plain number."""
    return EventField("number", what, "" if unit == "1" else unit, nullable, optional)


def integer(
    what: str, /, unit: str = "", *, nullable: bool = False, optional: bool = False
) -> EventField:
    """Return a field of a whole number."""
    return EventField("integer", what, unit, nullable, optional)


def flag(what: str, /, *, optional: bool = False) -> EventField:
    """Return a field that is true or false."""
    return EventField("flag", what, optional=optional)


def items(what: str, /, unit: str = "", *, optional: bool = False) -> EventField:
    """Return a field that is a list; `unit` is that of its numbers."""
    return EventField("list", what, unit, optional=optional)


def mapping(what: str, /, unit: str = "", *, optional: bool = False) -> EventField:
    """Return a field that is a mapping from names; `unit` is that of its values."""
    return EventField("mapping", what, unit, optional=optional)
