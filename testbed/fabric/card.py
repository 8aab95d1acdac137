"""Characterisation cards: the measured behaviour of one switch, for comparison.

A card comes from a probe of a real switch or of a twin; a twin can be set to behave as a card says.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1
LABELS = ("measured-hw", "measured-twin", "synthetic")

_RATIO = 1.25
"""How far apart two medians are when boxes count as different; probes repeat within a tenth."""
_RESOLUTION = 0.001
"""Seconds below which a difference is that of the machines that measured."""
_P95 = 1.6449
"""The 95th percentile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The distribution of a duration in seconds, over `n` tries."""

    n: int
    median: float
    p95: float
    min: float
    max: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Return the timing of measured durations; at least one is needed."""
        ordered = sorted(seconds)
        p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
        middle = statistics.median(ordered)
        return cls(len(ordered), middle, p95, ordered[0], ordered[-1])

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Timing:
        """Return the timing that a card holds; raise ValueError for impossible numbers."""
        timing = cls(**value)
        n, ordered = timing.n, 0 <= timing.min <= timing.median <= timing.p95 <= timing.max
        if not (ordered and timing.max < math.inf and n >= 0):
            raise ValueError(f"n, min, median, p95 and max contradict each other: {dict(value)}")
        return timing

    @property
    def spread(self) -> float:
        """Return the spread of the log-normal distribution with this median and this p95."""
        return math.log(self.p95 / self.median) / _P95 if self.median > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Card:
    """The results of a probe of one switch."""

    label: str
    """`measured-hw`, `measured-twin`, or `synthetic` for what was not measured."""
    made: str
    """When, in UTC."""
    driver: str
    identity: Mapping[str, str]
    """Maker, model, serial number and firmware."""
    manners: Mapping[str, str] = field(default_factory=dict)
    """What it did when told something doubtful, in words."""
    timings: Mapping[str, Timing] = field(default_factory=dict)
    """`answer`, `read-back`, `steady` or `light` where it can tell; `link-up` of its links."""
    source: str = ""
    """For what was not measured here: where the figures come from."""

    def settle(self) -> Timing | None:
        """Return how long a circuit is dark after a change; None if the card does not say."""
        return self.timings.get("light") or self.timings.get("steady")

    def link_up(self) -> Timing | None:
        """Return how long after its light a link comes up; None if the card does not say."""
        return self.timings.get("link-up")

    def to_json(self) -> dict[str, Any]:
        """Return the card in its public file format."""
        return {"card": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Card:
        """Return the card in a file's content; raise ValueError for anything else."""
        if not isinstance(value, Mapping):
            raise ValueError("it is not a characterisation card: expected a JSON object")
        try:
            fields = dict(value)
            if fields.pop("card") != FORMAT:
                raise ValueError(
                    f"it has the card format {value['card']}; only format {FORMAT} can be read"
                )
            timings = fields.get("timings", {}).items()
            fields["timings"] = {what: Timing.from_json(timing) for what, timing in timings}
            card = cls(**fields)
            told = (*card.identity.values(), *card.manners.values(), card.made, card.driver)
            if not all(isinstance(word, str) for word in told):
                raise ValueError(
                    "it is not a characterisation card: identity, manners, made and driver must be "
                    "text"
                )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it is not a characterisation card: {error}") from None
        if card.label not in LABELS:
            raise ValueError(f"its label {card.label!r} is not one of {', '.join(LABELS)}")
        return card


@dataclass(frozen=True, slots=True)
class Difference:
    """One property in which two cards differ."""

    what: str
    one: str
    other: str


def drift(one: Card, other: Card) -> Iterator[Difference]:
    """Yield the properties in which two cards differ by more than repeated probes do."""
    for key in ("maker", "model", "firmware"):
        if one.identity.get(key) != other.identity.get(key):
            yield Difference(key, one.identity.get(key, "?"), other.identity.get(key, "?"))
    for what in sorted({*one.manners, *other.manners}):
        mine, theirs = one.manners.get(what, "not tried"), other.manners.get(what, "not tried")
        if mine != theirs:
            yield Difference(what, mine, theirs)
    for what in sorted({*one.timings, *other.timings}):
        first, second = one.timings.get(what), other.timings.get(what)
        if first is None or second is None or _apart(first.median, second.median):
            yield Difference(what, _milliseconds(first), _milliseconds(second))


def _apart(one: float, other: float) -> bool:
    low, high = sorted((one, other))
    return high - low > _RESOLUTION and high > _RATIO * low


def _milliseconds(timing: Timing | None) -> str:
    if timing is None:
        return "not measured"
    return f"{timing.median * 1e3:.2f} ms (p95 {timing.p95 * 1e3:.2f}, n {timing.n})"
