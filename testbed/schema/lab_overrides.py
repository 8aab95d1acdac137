"""Overrides of a lab's file by `-S lab.…` and by the arms of an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from testbed.errors import FileError
from testbed.plugins import nearest
from testbed.schema.host_groups import expanded
from testbed.schema.override import Override
from testbed.schema.source import Source
from testbed.schema.text_types import Name
from testbed.schema.twin import TwinSettings
from testbed.schema.validation import Document

_WHAT = {
    "hosts": "host",
    "switches": "switch",
    "packet_switches": "packet switch",
    "power": "power unit",
    "attenuators": "attenuator",
    "meters": "power meter",
}
"""By section of a lab file, what its names are of: things that stand there, or do not."""


class _Changes(Document):
    """What an arm may change in a lab that is not known yet."""

    twin: TwinSettings = Field(default_factory=TwinSettings)
    switches: Mapping[Name, Any] = {}


def check_changes(overrides: Sequence[Override]) -> None:
    """Check `lab.…` overrides as far as possible without the lab; raise FileError."""
    if overrides:
        source = Source("", {}, {(): overrides[0].marks[()]})
        for override in overrides:
            source = override.within("lab").applied(source)
        _Changes.read(source)


def changed(source: Source, overrides: Iterable[Override]) -> Source:
    """Return a lab's data with `lab.…` overrides applied.

    Raise FileError for one of a host or an instrument that the lab does not have.
    """
    for override in overrides:
        own = override.within("lab")
        _check_there(source, own)
        source = own.applied(source)
    return source


def _check_there(source: Source, override: Override) -> None:
    section, _, rest = override.key.partition(".")
    present = source.data.get(section, {})
    if section not in _WHAT or not rest or not isinstance(present, dict):
        return
    name = rest.partition(".")[0]
    if name in present:
        return
    known = list(expanded(source).data.get(section, {}))
    if name not in known:
        message = f"lab.{override.key}: the lab has no {_WHAT[section]} {name!r}"
        raise FileError(str(override.marks[()].key), message, hint=nearest(name, known))
