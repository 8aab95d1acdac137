"""Metrics of who reached whom, matching by matching."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from testbed.events import Event


def reach_values(events: Iterable[Event]) -> dict[str, float]:
    """Return the metrics of the matchings that all ranks reported; none without any.

    A matched pair is judged by the answers, which go both ways. Between other ranks nothing may
    come through one way either, so there the questions count that were heard.
    """
    by_matching: dict[int, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for event in events:
        if event.kind == "reach":
            by_matching[event.data["step"]][event.data["rank"]] = event.data
    ranks = {rank for reports in by_matching.values() for rank in reports}
    whole = [reports for reports in by_matching.values() if reports.keys() == ranks]
    matched = [
        (rank, told["peer"], told)
        for reports in whole
        for rank, told in reports.items()
        if told["peer"] is not None
    ]
    if not matched:
        return {}
    values: dict[str, float] = {
        "pairs_met": len({frozenset((rank, peer)) for rank, peer, _ in matched}),
        "matched_lost": max(1 - t["answered"][str(peer)] / t["asked"] for _, peer, t in matched),
    }
    if strays := [share for reports in whole for share in _strays(reports)]:
        values["others_lost"] = 1 - max(strays)
    if times := [t["rtt"][str(peer)] for _, peer, t in matched if str(peer) in t["rtt"]]:
        values["matched_rtt"] = statistics.median(times)
    return values


def _strays(reports: Mapping[int, Mapping[str, Any]]) -> Iterable[float]:
    """Yield, for each rank and each that is not its peer, the share of questions heard there.

    Answers count as well: one that comes from another rank than the peer has found a way.
    """
    for rank, told in reports.items():
        for other, hearing in reports.items():
            if other not in (rank, told["peer"]):
                heard = max(hearing["heard"][str(rank)], told["answered"][str(other)])
                yield heard / told["asked"]
