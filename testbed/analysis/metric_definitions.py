"""The definition of each metric: its unit and which direction is better.

A value is stored, printed and compared in the unit of its metric: seconds, bit/s, bytes, dBm, dB,
percent (`%`: 98.2 is 98.2 %), or a plain number (`1`). A metric whose unit is empty is text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from testbed.collectives.algorithms import ALL_REDUCES, COMPARED, LIBRARIES, REFERENCE
from testbed.units import FREQUENCY, LOSS, POWER, RATE, SHARE, SIZE, TIME, Dimension

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """The definition of a metric: unit, better direction, meaning."""

    unit: str
    better: Better
    what: str


DIMENSIONS: dict[str, Dimension] = {
    "s": TIME,
    "bit/s": RATE,
    "B": SIZE,
    "1/s": FREQUENCY,
    "dBm": POWER,
    "dB": LOSS,
    "%": SHARE,
}
"""By unit of a metric, what its values are; a unit that is not here has plain numbers."""

_Metric = MetricDefinition

_SYSTEMS = {
    "static": "a static torus",
    "sipac": "a BCube as SiPAC",
    "morphlux": "a torus with redirected ports",
    "ideal": "an ideal switch",
}
_REPLACEMENTS = {
    "migration": "whole slices move",
    "server": "whole servers are replaced",
    "morphlux": "spare chips of the rack, by redirected ports",
    "ideal": "any chip replaces any other",
}

NAMED_END = "named_end"
"""The metric of trials that are expected to end, by name, as the job cannot go on."""

METRICS: dict[str, MetricDefinition] = {
    "recovery_time": _Metric("s", "lower", "t10 - t0: until the last rank's first verified step"),
    "return_to_service": _Metric("s", "lower", "t11 - t0: until throughput is back to 95 %"),
    "fabric_ready": _Metric("s", "lower", "t6 - t0: until light and link are good again"),
    "detection": _Metric("s", "lower", "t2 - t0: until the failure is decided"),
    "fencing": _Metric("s", "lower", "t3 - t2: until the victim is provably out"),
    "planning": _Metric("s", "lower", "t4 - t3: until the switch is commanded"),
    "commanding": _Metric("s", "lower", "t5 - t4: until the switch reads back as told"),
    "reconfiguration": _Metric("s", "lower", "t6 - t4: from the command to light, link, identity"),
    "leaving": _Metric("s", "lower", "t7 - t3: until the last survivor has left"),
    "waiting": _Metric("s", "lower", "from t6 until switch, survivors and spare are ready too"),
    "joining": _Metric("s", "lower", "from the last of t5, t6, t7 and a ready spare to t8"),
    "resuming": _Metric("s", "lower", "from the last of t5, t6, t7 and a ready spare to t10"),
    "restoring": _Metric("s", "lower", "t9 - t8: until every rank holds the agreed state"),
    "first_step": _Metric("s", "lower", "t10 - t9"),
    "dip": _Metric(
        "s",
        "lower",
        "work lost until t11, or in steps that rode a fault out, as time; also of jobs beside",
    ),
    "plateau": _Metric("1", "higher", "rate after t11 over the rate before t0"),
    NAMED_END: _Metric(
        "s", "lower", "until a job that cannot go on has ended, with what was struck named"
    ),
    "step_time": _Metric("s", "lower", "median time of a step before the fault"),
    "mean_step_time": _Metric(
        "s",
        "lower",
        "mean time of a step beside other jobs: where one is struck, until that is fast again",
    ),
    "collective_share": _Metric("%", "neither", "of a step beside other jobs, its collective"),
    "busbw": _Metric("bit/s", "higher", "bus bandwidth of the steps' AllReduce before the fault"),
    "wire_overhead": _Metric(
        "%", "lower", "bytes on the ports over bytes of the AllReduce, less 1"
    ),
    "total_time": _Metric("s", "lower", "a collective, from when all but the late are ready"),
    "exposed_time": _Metric("s", "lower", "a collective, from when the last rank has arrived"),
    "speedup": _Metric("1", "higher", "total time of what it is compared with over its own"),
    **{
        f"speedup_over_{name}": _Metric(
            "1", "higher", f"total time of {name} over that of {COMPARED}"
        )
        for name in ALL_REDUCES
        if name not in (REFERENCE, COMPARED)
    },
    "exposed_speedup": _Metric("1", "higher", "the same of the exposed times"),
    "critical_delay": _Metric("s", "lower", "the straggler's delay from which on it is faster"),
    "critical_delay_model": _Metric(
        "s", "lower", "the same by the model's formula, from times without a delay"
    ),
    "model_error": _Metric(
        "%", "lower", "the largest distance of a total time from its prediction, as a share of it"
    ),
    "right_choices": _Metric(
        "%", "higher", "share of sizes and algorithms at which the better way was expected to be"
    ),
    "skew": _Metric("s", "lower", "by how much the last rank came later than the one before it"),
    "straggler": _Metric("1", "neither", "the rank that came last most often"),
    "straggler_confidence": _Metric(
        "%", "higher", "one less the chance that some rank is last so often where all are alike"
    ),
    "rounds": _Metric("1", "lower", "rounds of a schedule from the straggler's arrival on"),
    "straggling_step_time": _Metric("s", "lower", "median time of a step while a rank comes late"),
    "communication_share": _Metric(
        "%", "neither", "of a step, what its collective took before another was chosen"
    ),
    "collective_gain": _Metric("%", "higher", "share of a collective's time that a choice saved"),
    "step_gain": _Metric("%", "higher", "share of a step's time that a choice saved"),
    "gain_agreement": _Metric(
        "1", "neither", "step_gain over communication_share times collective_gain"
    ),
    "cycle_time": _Metric("s", "lower", "from a time slot to the next one with the same circuits"),
    "slot_dark": _Metric("s", "lower", "of a time slot, until ranks are told that it is lit"),
    "slot_bytes": _Metric(
        "B", "higher", "what a rank gets in a slot of a peer that has more than fits"
    ),
    "iteration_time": _Metric("s", "lower", "an iteration of training on rails"),
    "change_time": _Metric(
        "s", "lower", "a change of circuits of a rail, from the last request on"
    ),
    "change_error": _Metric(
        "s", "lower", "an iteration's distance from its prediction, for each change of a rank"
    ),
    "over_optimum": _Metric(
        "1", "lower", "an iteration over that with the best schedule of changes that there is"
    ),
    "control_time": _Metric("s", "lower", "what of it is neither the switch's nor the link's"),
    "retransmitted": _Metric("1", "lower", "segments that TCP sent again in collectives on rails"),
    "dropped": _Metric("1", "lower", "frames that ports dropped in collectives on rails"),
    "stall": _Metric("s", "lower", "what of an iteration is there because circuits take time"),
    "stall_formula": _Metric("s", "lower", "the same by the closed formula, from the windows"),
    "slowdown": _Metric("1", "lower", "iteration over one whose circuits take no time"),
    "rail_changes": _Metric("1", "lower", "changes of circuits of a rail in an iteration"),
    "smallest_window": _Metric("s", "higher", "the least time that a change could take unnoticed"),
    "power_ratio": _Metric("1", "higher", "power of packet switches over circuit switches"),
    "cost_ratio": _Metric("1", "higher", "cost of packet switches over circuit switches"),
    "pairs_met": _Metric("1", "higher", "pairs of ranks that were matched, each counted once"),
    "matched_lost": _Metric("%", "lower", "share lost by the matched pair that lost most"),
    "others_lost": _Metric(
        "%", "higher", "share lost on the way between ranks that are not matched"
    ),
    "matched_rtt": _Metric("s", "lower", "time until a matched rank answers, median of the pairs"),
    "matchings_routed": _Metric("%", "higher", "share of matchings with a route for every pair"),
    "meshes_routed": _Metric("%", "higher", "share of meshes in which every matching is routed"),
    "route_cells": _Metric("1", "lower", "cells that a route passes, on average"),
    "longest_route": _Metric("1", "lower", "cells that the longest route passes"),
    "search_time": _Metric("s", "neither", "processor time until the ports of hosts were chosen"),
    "routing_time": _Metric("s", "neither", "processor time to route all matchings of a mesh"),
    "proved_impossible": _Metric("%", "higher", "of matchings not routed, share without a route"),
    "static_ports": _Metric("%", "higher", "ports that slices of full racks can use, unredirected"),
    "static_ports_y": _Metric("%", "higher", "the same of the ports along Y"),
    "redirected_ports": _Metric("%", "higher", "the same where ports are redirected"),
    "rack_gain": _Metric("1", "higher", "a rack's throughput over that unredirected, median"),
    "best_rack_gain": _Metric("1", "higher", "the same of the rack that gains most"),
    "worst_fragmentation": _Metric("1", "lower", "largest fragmentation index of all racks"),
    "mean_fragmentation": _Metric("1", "lower", "mean fragmentation index of all racks"),
    **{
        f"placed_{asked}_{system}": _Metric("%", "higher", f"requests that {who} places, {what}")
        for asked, what in (("32", "32 chips each"), ("16_32", "16 or 32 chips each"))
        for system, who in _SYSTEMS.items()
    },
    "admission_gain_32": _Metric(
        "1", "higher", "throughput of placed slices over static, 32 chips"
    ),
    "admission_gain_16_32": _Metric("1", "higher", "the same, 16 or 32 chips"),
    **{
        f"over_provisioning_{policy}": _Metric(
            "1", "lower", f"replacement chips of a rack less its failed ones: {what}"
        )
        for policy, what in _REPLACEMENTS.items()
    },
    "spares_out_of_reach": _Metric("1", "lower", "failed chips that no spare of the rack replaces"),
    "inputs": _Metric("", "neither", "SHA-256 of the trace of clients and the jobs of a study"),
    "utilisation": _Metric("%", "higher", "time for which clients are bound over time available"),
    "useful_share": _Metric("%", "higher", "the same of work whose result came in time"),
    "utilisation_gain": _Metric("1", "higher", "utilisation over that of another policy"),
    "completion_time": _Metric("s", "lower", "from a job's arrival to its end, mean of the jobs"),
    "completion_gain": _Metric("1", "higher", "completion time of another policy over this one's"),
    "scheduling_time": _Metric("s", "lower", "from a job's request to its last client, mean"),
    "response_time": _Metric("s", "lower", "from its last client to the end of a round, mean"),
    "over_assigned": _Metric("%", "lower", "acceptances that came when the job had all clients"),
    "clients_bound": _Metric("1", "higher", "how often a client was bound to a job"),
    "jobs_finished": _Metric("%", "higher", "jobs that ended within the horizon"),
    "lost_steps": _Metric(
        "1", "lower", "repeated steps that a rank (with restart: all ranks) had finished before"
    ),
    "caught_up": _Metric("s", "lower", "t - t0: until a step is done that was not before t0"),
    "steps": _Metric("1", "neither", "steps finished when the trial ended"),
    "loss": _Metric("1", "neither", "training loss of the last step"),
    "digest": _Metric("", "neither", "SHA-256 of model, optimiser, step and data position"),
}
"""Every metric by name; those of single message sizes are found by `meaning`."""

RAILS = "rails"
"""The controller in whose trials `iteration_time` is predicted, from an arm with less delay."""

PREDICTED = {
    "recovery_time": "total",
    "detection": "noticing",
    "reconfiguration": "reconfiguration",
    "waiting": "waiting_for_spare",
    "restoring": "state",
    "first_step": "step",
}
"""Values that the prediction names, and the term of it that is about each."""

_PERCENTAGES = {name for name, metric in METRICS.items() if metric.unit == "%"}
_V = TypeVar("_V", float, float | str)


def in_percent(values: Mapping[str, _V]) -> dict[str, _V]:
    """Return values in the units of their metrics; the log, as what computes them, has shares."""
    return {
        name: value * 100 if not isinstance(value, str) and name in _PERCENTAGES else value
        for name, value in values.items()
    }


_BY_SIZE = {
    "time": _Metric("s", "lower", "time of one collective of this size"),
    "algbw": _Metric("bit/s", "higher", "algorithm bandwidth at this size"),
    "busbw": _Metric("bit/s", "higher", "bus bandwidth at this size"),
    "total": _Metric("s", "lower", "from when all ranks but the last were there, at this size"),
    "exposed": _Metric("s", "lower", "from when the last rank was there, at this size"),
    "sent": _Metric("B", "lower", "bytes of the busiest port, without headers of frames"),
    "over": _Metric("1", "lower", "exposed time over that of a library's own AllReduce"),
}

_OURS, _THEIRS = "|".join(ALL_REDUCES), "|".join(LIBRARIES)
_SIZED = re.compile(
    r"(?:(time|algbw|busbw)_[1-9][0-9]*(?:b|kib|mib|gib)(?:_in_place|_along_[a-z][a-z0-9]*)?"
    rf"|(total|exposed|busbw|sent|over_(?:{_THEIRS}))"
    rf"_(?:(?:{_OURS})(?:_repointed|_forwarded)?|{_THEIRS})"
    r"_[1-9][0-9]*(?:b|kib|mib|gib))"
)


def meaning(metric: str) -> MetricDefinition:
    """Return the definition of a metric; raise KeyError for an unknown metric."""
    if metric in METRICS:
        return METRICS[metric]
    sized = _SIZED.fullmatch(metric)
    if sized is None:
        raise KeyError(metric)
    return _BY_SIZE[(sized[1] or sized[2]).partition("_")[0]]


def is_of_size(metric: str) -> bool:
    """Return whether a metric belongs to one message size."""
    return _SIZED.fullmatch(metric) is not None


def size_name(size: int) -> str:
    """Return a message size as the part of a metric's name: `64kib`, `4mib`, `100b`."""
    for unit, factor in (("gib", 2**30), ("mib", 2**20), ("kib", 2**10)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}b"


def own_metrics(options: object) -> dict[str, MetricDefinition]:
    """Return the metrics that the options of a job define, by name."""
    return {
        name: MetricDefinition(pattern.base[0], pattern.better, f"read by {pattern.pattern!r}")
        for name, pattern in getattr(options, "metrics", {}).items()
    }


def quantity(value: float, unit: str) -> str:
    """Format a value with its unit, scaled to a readable prefix: `25.14 ms`, `480 Mbit/s`."""
    if unit not in ("s", "bit/s", "B"):
        return f"{value:.4g}" if unit in ("", "1") else f"{value:.4g} {unit}"
    value = round(value, 9)
    return DIMENSIONS[unit].format(value) if value else f"0 {unit}"
