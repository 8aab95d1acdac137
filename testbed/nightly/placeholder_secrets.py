"""Placeholders for the secrets of a lab file: a twin accepts any, but needs one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from testbed.schema import Lab
from testbed.secret import Secret

_WORD = "of-no-lab"


def stand_ins(lab: Lab) -> dict[str, str]:
    """Return placeholder values for the environment variables that a lab file names as secrets."""
    return {secret.env: _WORD for secret in _secrets(lab) if secret.env}


def _secrets(value: Any) -> Iterator[Secret]:
    """Yield the secrets in a model, in what it holds, and in the options of its instruments."""
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, dict):
        for held in value.values():
            yield from _secrets(held)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _secrets(getattr(value, one.name))
    elif hasattr(type(value), "model_fields"):
        yield from _secrets(dict(value))
