"""The settings of a lab's twin, and which of them may change while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from testbed.errors import FileError
from testbed.schema.hosts import Port
from testbed.schema.override import Override
from testbed.schema.source import Steps
from testbed.schema.text_types import Name
from testbed.schema.validation import Problem, Problems, SchemaError, StrictModel
from testbed.units import POWER, BitRate, PowerLevel, Seconds, Share

LAUNCH = 0.0
"""dBm that a port of a twin sends where the lab file does not say it."""


class TwinSettings(StrictModel):
    """The simulated behaviour of the lab's twin; ignored on hardware."""

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

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_lines_lack(cls, given: Any) -> Any:
        """Raise Problems for a delay or a loss of lines, with the reason why there is none."""
        for key in ("delay", "jitter", "loss"):
            if isinstance(given, Mapping) and key in given:
                message = f"lines of a twin have a rate, and no {key}: the kernels that twins were "
                message += "tried on have no netem, the queueing discipline for it"
                hint = "leave it out; `rate` is what shapes a line"
                raise Problems([Problem((key,), message, hint, at_key=True)])
        return given


TUNABLE = frozenset({"settle", "loss_of_signal", "link_up", "sensitivity"})
"""What a twin can change while it runs, from one trial to the next."""


def sensitivity_problems(
    sensitivity: float, ports: Iterable[tuple[Steps, Port]]
) -> Iterator[Problem]:
    """Yield receivers that would always be dark, as the sensitivity is above their light limit."""
    lit = [(steps, port) for steps, port in ports if port.fibres is not None]
    sent = (LAUNCH if port.launch is None else port.launch for _, port in lit)
    launched = max(sent, default=None)
    at, least = ("twin", "sensitivity"), POWER.format(sensitivity)
    if launched is not None and sensitivity > launched:
        message = f"receivers need {least}, and no port sends more than {POWER.format(launched)}"
        yield Problem(at, message, "lower it, or correct `launch` of the ports")
    for steps, port in lit:
        if port.max_dbm is not None and port.max_dbm < sensitivity:
            name, most = ".".join(map(str, steps)), POWER.format(port.max_dbm)
            message = f"receivers need {least}, and that of {name} withstands {most} at most"
            yield Problem(at, message, f"set it to at most {most}")


def check_lasting(arms: Iterable[Iterable[Override]]) -> None:
    """Raise SchemaError where arms differ in a field that a running twin cannot change.

    The value in the lab is not known here, so a field that only one arm sets is checked later.
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
