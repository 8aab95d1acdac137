"""Validate plain data as immutable models, with readable errors.

Every model of this package is closed: an unknown key is an error. Data goes through pydantic as
JSON in strict mode, where lists may become tuples but `"4"` is not a number and `1` is no boolean.
"""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from testbed.errors import FileError
from testbed.plugins import nearest
from testbed.schema.source import Place, Source, Steps
from testbed.units import written_alike

MAX_PROBLEMS = 20
"""Problems of one file that are reported at once; wording thousands would take minutes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a file, at a value or at its key."""

    steps: Steps
    message: str
    hint: str = ""
    at_key: bool = False

    @classmethod
    def unknown(
        cls, steps: Steps, message: str, name: str, known: Iterable[str], at_key: bool = False
    ) -> Problem:
        """Return the error for an unknown name; its hint is the nearest known name."""
        return cls(steps, message, nearest(name, list(known)), at_key)

    def under(self, *steps: str | int) -> Problem:
        """Return the same error with `steps` put before its path."""
        return replace(self, steps=(*steps, *self.steps))

    def place(self, source: Source) -> Place:
        """Return the place of the error in a file."""
        mark = source.mark(self.steps)
        return mark.key if self.at_key else mark.value

    def error(self, source: Source) -> FileError:
        """Return the error as a FileError."""
        name = ".".join(map(str, self.steps))
        message = f"{name}: {self.message}" if name else self.message
        return FileError(str(self.place(source)), message, hint=self.hint)


class Problems(ValueError):
    """An exception with all errors that a validator found in a value."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.all = tuple(islice(problems, MAX_PROBLEMS))
        super().__init__("; ".join(problem.message for problem in self.all))


class SchemaError(FileError):
    """The errors of a file: the first is the message, `others` has the rest."""

    def __init__(self, first: FileError, *others: FileError) -> None:
        super().__init__(first.where, first.args[0], hint=first.hint)
        self.others = others


def chosen_name(
    given: Mapping[str, Any], key: str, known: Collection[str], what: str, steps: Steps
) -> str:
    """Return the name that a mapping has under a key; raise Problems for none, or an unknown one.

    `what` are those known, and `steps` lead to the name.
    """
    if key not in given:
        message = f"the key {key!r} is missing"
        raise Problems([Problem.unknown((), message, "", known, at_key=True)])
    name = given[key]
    if not isinstance(name, str) or name not in known:
        message = f"{shown(name)} is not one of the {what}"
        raise Problems([Problem.unknown(steps, message, str(name), known)])
    return name


class StrictModel(BaseModel):
    """The base of models: immutable, without unknown keys, without type conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Document(StrictModel):
    """The base of a file's root model, which keeps the place of every value."""

    _source: Source = PrivateAttr()

    @classmethod
    def read(cls, source: Source) -> Self:
        """Validate a file; raise SchemaError with every error."""
        try:
            document = validated(cls, source.data)
        except Problems as problems:
            raise schema_error(source, problems.all) from None
        document._source = source
        if found := list(islice(document.inconsistencies(), MAX_PROBLEMS)):
            raise schema_error(source, found)
        return document

    def inconsistencies(self) -> Iterator[Problem]:
        """Yield contradictions between parts that are valid on their own."""
        return iter(())

    @property
    def source(self) -> Source:
        """Return the file from which the model was read, for the places of its values."""
        return self._source


_Model = TypeVar("_Model", bound=StrictModel)


def validated(model: type[_Model], data: object, *, hidden: str = "") -> _Model:
    """Convert plain data to a model; raise Problems.

    `hidden` is a field of the model whose keys are written in the file one level higher, without
    its name.
    """
    try:
        return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        found = _problems(error, model, data, hidden)
        raise Problems(replace(one, steps=_flat(one.steps, hidden)) for one in found) from None


def schema_error(source: Source, problems: Iterable[Problem]) -> SchemaError:
    """Combine the first errors of a file into one error, in the order of their places."""
    first = islice(problems, MAX_PROBLEMS)
    ordered = sorted(first, key=lambda problem: problem.place(source))
    return SchemaError(*(problem.error(source) for problem in ordered))


def shown(value: object) -> str:
    """Format a value for a message: on one line, and shortened."""
    if isinstance(value, Mapping):
        return "a mapping of keys"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- pydantic's words to ours --------------------------------------------------------------


def _problems(
    error: ValidationError, model: type[StrictModel], data: object, hidden: str
) -> Iterator[Problem]:
    errors = error.errors(include_url=False)
    unknown: defaultdict[Steps, list[str]] = defaultdict(list)
    for one in errors:
        if one["type"] in _UNKNOWN_KEY:
            *around, key = _flat(one["loc"], hidden)
            unknown[tuple(around)].append(str(key))
    for one in errors:
        if one["type"] != "missing" or not _is_misspelt(_flat(one["loc"], hidden), unknown):
            yield from _worded(one, model, data, hidden)


_UNKNOWN_KEY = {"extra_forbidden", "unexpected_keyword_argument"}


def _flat(steps: Steps, hidden: str) -> Steps:
    return steps[1:] if hidden and steps[:1] == (hidden,) else steps


def _is_misspelt(missing: Steps, unknown: Mapping[Steps, list[str]]) -> bool:
    """Return whether a missing key is there with another spelling: that is one problem, not two."""
    beside = unknown.get(missing[:-1], ())
    return bool(difflib.get_close_matches(str(missing[-1]), beside, n=1))


def _worded(
    error: Mapping[str, Any], model: type[StrictModel], data: object, hidden: str
) -> Iterator[Problem]:
    location: Steps = error["loc"]
    at_key = location[-1:] == ("[key]",)
    steps = _present(data, location)
    match error["type"]:
        case "value_error" if isinstance(cause := error["ctx"]["error"], Problems):
            yield from (problem.under(*steps) for problem in cause.all)
        case "value_error":
            yield Problem(steps, str(error["ctx"]["error"]), at_key=at_key)
        case "missing" if isinstance(number := location[-1], int):
            yield Problem(steps, f"element {number + 1} of the list is missing")
        case "missing":
            yield Problem(steps, f"the key {location[-1]!r} is missing", at_key=True)
        case unknown if unknown in _UNKNOWN_KEY:
            known = _known_keys(model, steps[:-1], hidden)
            yield Problem.unknown(steps, "no such key", str(steps[-1]), known, at_key=True)
        case _:
            yield _mismatch(steps, error)


def _present(data: Any, location: Steps) -> Steps:
    """Return the part of pydantic's location that is in the data.

    The rest is a missing key, a mark as `[key]`, or the name of an alternative.
    """
    for depth, step in enumerate(location):
        in_list = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if not in_list and not (isinstance(data, dict) and step in data):
            return location[:depth]
        data = data[step]
    return location


_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "float_type": "a number",
    "frozen_set_type": "a list",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "model_type": "a mapping of keys",
    "string_type": "text",
    "too_short": "at least {min_length} entry",
    "tuple_type": "a list",
}


def _mismatch(steps: Steps, error: Mapping[str, Any]) -> Problem:
    value, context = error["input"], error.get("ctx", {})
    if error["type"] == "literal_error" and isinstance(value, str):
        known = context["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return Problem.unknown(steps, f"unknown word {shown(value)}", value, known)
    default = error["msg"].removeprefix("Input should be ")
    bounds = {key: written_alike(bound, value) for key, bound in context.items()}
    expected = _EXPECTED.get(error["type"], default).format(**bounds)
    quoted = error["type"] == "string_type" and isinstance(value, (int, float))
    hint = "put it in quotes" if quoted else ""
    return Problem(steps, f"expected {expected}, got {shown(value)}", hint)


def _known_keys(model: type[StrictModel], steps: Steps, hidden: str) -> list[str]:
    """Return the keys that the file may have in the mapping at `steps`."""
    schema = _schema_of(model)
    if _flat(steps, hidden):
        return _keys_at(steps, schema)
    return [key for key in _keys_at((), schema) if key != hidden] + (
        _keys_at((hidden,), schema) if hidden else []
    )


@cache
def _schema_of(model: type[StrictModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _keys_at(steps: Steps, schema: Mapping[str, Any]) -> list[str]:
    node = _resolved(schema, schema)
    for step in steps:
        values = node.get("items") or node.get("additionalProperties")
        values = values or next(iter(node.get("patternProperties", {}).values()), {})
        node = _resolved(node.get("properties", {}).get(step, values), schema)
    return list(node.get("properties", {}))


def _resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema behind a reference, or behind `X or null`."""
    alternatives = [one for one in node.get("anyOf", ()) if one.get("type") != "null"]
    node = alternatives[0] if alternatives else node
    return schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
