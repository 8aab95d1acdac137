"""Parse YAML text to plain data, with the place of every key and value in it.

The only importer of PyYAML. Scalars follow the core schema of YAML 1.2, so `on`, `no`, `12:30` and
dates stay text; infinities and NaN stay text too, because no quantity of ours has them. Keys are
always text, as written. Anchors and merge keys work; tags beyond the core schema, duplicate keys,
recursion, integers beyond 64 bits and text made to exhaust memory or patience are refused.
"""

from __future__ import annotations

import copy
import json
import math
import re
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.reader import ReaderError
from yaml.resolver import BaseResolver

from testbed.errors import FileError
from testbed.schema.source import Mark, Place, Steps

MAX_DEPTH = 32
MAX_VALUES = 50_000
"""Keys and values in one file: a lab of a thousand hosts has half as many."""
MAX_ALIASED = 10_000
"""Values that the aliases of one file may add to those written out."""


def parse(name: str, text: str) -> tuple[Any, dict[Steps, Mark]]:
    """Return the data of one YAML document, and the places of its values.

    `name` is the file's, for the places. Raise FileError for an empty document as for bad YAML.
    """
    root = _compose(name, text)
    if root is None:
        raise FileError(f"{name}:1:1", "it holds no data")
    builder = _Builder(name)
    return builder.build(root, root, ()), builder.marks


def written(data: Any) -> str:
    """Return plain data as YAML that `parse` reads as the same data."""
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    same, _ = parse("written", text)
    # JSON is YAML 1.2, in which 0o17 is a number; PyYAML writes YAML 1.1.
    return text if same == data else json.dumps(data, indent=1, ensure_ascii=False) + "\n"


class _Dumper(yaml.SafeDumper):
    """Write every value where it is, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return true, so that repeated values are written out and not as aliases."""
        return True


class _Loader(Composer, CParser, BaseResolver):
    """Compose the events of libyaml to nodes, within the limits.

    libyaml parses ten times as fast as PyYAML's own parser. PyYAML's loaders that know numbers
    follow YAML 1.1.
    """

    def __init__(self, name: str, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._file = name
        self._depth = 0
        self._values = 0
        self._aliased = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        start: Any = self.peek_event().start_mark  # type: ignore[union-attr]
        if self.check_event(yaml.AliasEvent):
            return self._alias(super().compose_node(parent, index), start)
        if self._depth > MAX_DEPTH:
            raise _error(self._file, start, f"nested deeper than {MAX_DEPTH} levels")
        self._values += 1
        if self._values > MAX_VALUES:
            message = f"there are more than {MAX_VALUES} keys and values"
            raise _error(self._file, start, message)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        self._sizes[id(node)] = 1 + sum(self._sizes[id(child)] for child in _children(node))
        return node

    def _alias(self, node: Any, start: yaml.Mark) -> yaml.Node:
        if node.end_mark is None:  # still being composed
            raise _error(self._file, start, "an anchor contains its own alias")
        size = self._sizes[id(node)]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise _error(self._file, start, f"aliases add more than {MAX_ALIASED} values")
        here: yaml.Node = copy.copy(node)
        here.start_mark = start
        self._sizes[id(here)] = size
        return here


_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
for _tag, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(rf"(?:{_pattern})\Z"), None)


def _compose(name: str, text: str) -> yaml.Node | None:
    try:
        return _Loader(name, text).get_single_node()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise _forbidden(name, text[: error.start], text[error.start]) from error
    except ReaderError as error:  # which counts bytes
        before = text.encode()[: error.position].decode()
        raise _forbidden(name, before, chr(error.character)) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(name, text, error) from error


def _forbidden(name: str, before: str, character: str) -> FileError:
    return FileError(str(Place.after(name, before)), f"character {character!r} is not allowed")


def _children(node: yaml.Node | None) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


_HINTS = {
    "while scanning a block scalar": "put text that begins with > or | in quotes",
    "expected a single document in the stream": "remove everything from the second '---' on",
}


def _syntax_error(name: str, text: str, error: yaml.MarkedYAMLError) -> FileError:
    mark = error.problem_mark or error.context_mark
    assert mark is not None
    said = ", ".join(part for part in (error.context, error.problem) if part)
    hint = next((hint for words, hint in _HINTS.items() if words in said), "")
    if not hint and text[mark.index : mark.index + 1] == "\t":
        hint = "indent with spaces, not with tabs"
    if not hint and error.context_mark and error.context_mark.line != mark.line:
        hint = f"it began on line {error.context_mark.line + 1}"
    end = Place.after(name, text)  # for libyaml, the line after one without a line break
    where = min(_place(name, mark), end, key=lambda place: (place.line, place.column))
    return FileError(str(where), f"not valid YAML: {said}", hint=hint)


def _error(name: str, mark: yaml.Mark, message: str, hint: str = "") -> FileError:
    return FileError(str(_place(name, mark)), message, hint=hint)


def _place(name: str, mark: yaml.Mark) -> Place:
    return Place(name, mark.line + 1, mark.column + 1)


_Pair = tuple[yaml.Node, yaml.Node]


class _Builder:
    def __init__(self, name: str) -> None:
        self._name = name
        self.marks: dict[Steps, Mark] = {}

    def build(self, node: yaml.Node, key: yaml.Node, steps: Steps) -> Any:
        if len(steps) > MAX_DEPTH:
            raise self._error(node, f"nested deeper than {MAX_DEPTH} levels")
        self.marks[steps] = Mark(self._place(key), self._place(node))
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            pairs = self._pairs(node)
            return {k: self.build(v, at, (*steps, k)) for k, (at, v) in pairs.items()}
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.build(v, v, (*steps, i)) for i, v in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        raise self._unknown_tag(node)

    def _pairs(self, node: yaml.MappingNode) -> dict[str, _Pair]:
        """Return the keys of a mapping; its own win over merged ones, earlier merges over later."""
        own: dict[str, _Pair] = {}
        for key, value in node.value:
            text = self._key(key)
            if text in own:
                raise self._error(
                    key, f"key {text!r} is given twice", f"first at {self._place(own[text][0])}"
                )
            own[text] = (key, value)
        if "<<" not in own or own["<<"][0].tag != _MERGE:
            return own
        return self._merged(own.pop("<<")[1]) | own

    def _merged(self, node: yaml.Node) -> dict[str, _Pair]:
        merged: dict[str, _Pair] = {}
        for part in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(part, yaml.MappingNode):
                raise self._error(part, "'<<' merges mappings, and this is not a mapping")
            for key, pair in self._pairs(part).items():
                merged.setdefault(key, pair)
        return merged

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            raise self._error(node, "a key must be plain text and not empty")
        self._scalar(node)
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text):
            raise self._error(node, "text with a NUL or half a surrogate pair is not allowed")
        try:
            return _converted(node.tag.removeprefix(_TAG), text)
        except LookupError:
            raise self._unknown_tag(node) from None
        except ValueError as error:
            raise self._error(node, f"{text[:40]!r} is not a number, or is too large") from error

    def _unknown_tag(self, node: yaml.Node) -> FileError:
        tag = node.tag.replace(_TAG, "!!")
        return self._error(node, f"tag {tag!r} is not allowed here", "a file holds plain data only")

    def _error(self, node: yaml.Node, message: str, hint: str = "") -> FileError:
        return _error(self._name, node.start_mark, message, hint)

    def _place(self, node: yaml.Node) -> Place:
        return _place(self._name, node.start_mark)


_BOOLEANS = {"true": True, "false": False}


def _converted(tag: str, text: str) -> Any:
    """Return a scalar's value; raise LookupError for a tag that is not in the core schema."""
    match tag:
        case "str" | "merge":
            return text
        case "null":
            return None
        case "bool":
            return _BOOLEANS[text.lower()]
        case "int":
            number = int(text, 0) if text[:2] in {"0o", "0x"} else int(text)
            if number.bit_length() > 64:
                raise ValueError(text)
            return number
        case "float":
            value = float(text)
            if not math.isfinite(value):
                raise ValueError(text)
            return value
    raise LookupError(tag)
