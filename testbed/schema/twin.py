"""The settings of a lab's twin, and which of them may change while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from testbed.errors import FileError
from testbed.schema.check import Checked, SchemaError
from testbed.schema.override import Override
from testbed.schema.text import Name
from testbed.units import BitRate, PowerLevel, Seconds, Share


class TwinSettings(Checked):
    """How the twin of this lab behaves; ignored on hardware."""

    settle: Seconds = 25e-3
    """How long a circuit is dark while its mirrors move."""
    loss_of_signal: Seconds = 2e-3
    """How long after the light went a host's carrier goes."""
    link_up: Seconds = 10e-3
    """How long after the light came a host's carrier comes."""
    sensitivity: PowerLevel = -14.0
    """The least light that a host's receiver understands."""
    rate: Annotated[BitRate, Field(gt=0)] = 500e6
    """Rate of every fabric port."""
    clock_skew: Seconds = 1000.0
    """How far apart the monotonic clocks of virtual hosts may be."""
    clock_drift: Annotated[Share, Field(le=500e-6)] = 100e-6
    """How much faster or slower than the machine's they may run; drawn for each host."""
    cards: Mapping[Name, str] = {}
    """The characterisation card that a switch's twin follows: a preset's name, or a file's."""
    seed: Annotated[int, Field(ge=0)] = 0


TUNABLE = frozenset({"settle", "loss_of_signal", "link_up", "sensitivity"})
"""What a twin can change while it runs, from one trial to the next."""


def check_lasting(arms: Iterable[Iterable[Override]]) -> None:
    """Raise SchemaError where arms set a field to different values that no running twin changes.

    Which value the lab has, and so whether one arm alone may set it, is known with the lab only.
    """
    first: dict[str, Any] = {}
    for override in (override for arm in arms for override in arm):
        root, _, field = override.key.rpartition(".")
        if root != "lab.twin" or field not in TwinSettings.model_fields.keys() - TUNABLE:
            continue
        if first.setdefault(override.key, override.value) != override.value:
            where = str(override.marks[()].key)
            message = f"{override.key} cannot change from one trial to the next"
            hint = f"set it for the whole run, with -S {override.key}=…"
            raise SchemaError(FileError(where, message, hint=hint))
