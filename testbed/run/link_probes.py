"""What the ranks' probes of their links came to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.collectives.cost import Links
from testbed.run.planning.prediction import LinkRate

Probe = Mapping[str, Any]
"""What one rank measured of the link to its successor."""


@dataclass(frozen=True, slots=True)
class ProbedLinks:
    """The links of a running job."""

    slowest: LinkRate
    """What the slowest link delivers, and the credit that its short messages showed."""
    cost: Links
    """What messages cost between neighbours, by the median of the probes."""
    changes: tuple[float, ...]
    """The seconds of each change of circuits that the ranks timed, by the median of the ranks."""

    @classmethod
    def of(cls, probes: Sequence[Probe]) -> ProbedLinks:
        """Return what the probes of all ranks came to."""
        there_and_back = statistics.median(probe["short_seconds"] for probe in probes)
        per_byte = [probe["long_seconds"] / probe["long_bytes"] for probe in probes]
        timed = [probe.get("changes", []) for probe in probes]
        changes = tuple(statistics.median(one) for one in zip(*timed, strict=True))
        delta = statistics.median(changes) if changes else 0.0
        credit = statistics.median(probe.get("credit", 0.0) for probe in probes)
        cost = Links(there_and_back / 2, statistics.median(per_byte), delta, credit)
        return cls(_slowest(probes), cost, changes)


def _slowest(probes: Sequence[Probe]) -> LinkRate:
    worst = max(probes, key=lambda probe: probe["long_seconds"] / probe["long_bytes"])
    rate = worst["long_bytes"] * 8 / worst["long_seconds"]
    credit = worst["short_bytes"] - worst["short_seconds"] * rate / 8
    return LinkRate(rate, max(0.0, credit))
