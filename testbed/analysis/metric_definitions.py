"""What each metric is: its unit and which direction is better, which nobody may guess.

A value is stored, printed and compared in the unit of its metric: seconds, bit/s, bytes, dBm, dB,
percent (`%`: 98.2 is 98.2 %), or a plain number (`1`). A metric whose unit is empty is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from testbed.units import FREQUENCY, LOSS, POWER, RATE, SHARE, SIZE, TIME, Dimension

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """The unit of a metric, which direction is better, and what it is."""

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

METRICS: dict[str, Meaning] = {
    "recovery_time": Meaning("s", "lower", "t10 - t0: until the last rank's first verified step"),
    "return_to_service": Meaning("s", "lower", "t11 - t0: until throughput is back to 95 %"),
    "fabric_ready": Meaning("s", "lower", "t6 - t0: until light and link are good again"),
    "detection": Meaning("s", "lower", "t2 - t0: until the failure is decided"),
    "fencing": Meaning("s", "lower", "t3 - t2: until the victim is provably out"),
    "commanding": Meaning("s", "lower", "t5 - t4: until the switch reads back as told"),
    "reconfiguration": Meaning("s", "lower", "t6 - t4: from the command to light, link, identity"),
    "leaving": Meaning("s", "lower", "t7 - t3: until the last survivor has left"),
    "waiting": Meaning("s", "lower", "from t6 until switch, survivors and spare are ready too"),
    "joining": Meaning("s", "lower", "from the last of t5, t6, t7 and a ready spare to t8"),
    "resuming": Meaning("s", "lower", "from the last of t5, t6, t7 and a ready spare to t10"),
    "restoring": Meaning("s", "lower", "t9 - t8: until every rank holds the agreed state"),
    "first_step": Meaning("s", "lower", "t10 - t9"),
    "dip": Meaning("s", "lower", "work lost until t11, or in steps that rode a fault out, as time"),
    "plateau": Meaning("1", "higher", "rate after t11 over the rate before t0"),
    "step_time": Meaning("s", "lower", "median time of a step before the fault"),
    "busbw": Meaning("bit/s", "higher", "bus bandwidth of the steps' AllReduce before the fault"),
    "wire_overhead": Meaning(
        "%", "lower", "bytes on the ports over bytes of the AllReduce, less 1"
    ),
    "total_time": Meaning("s", "lower", "a collective, from when all but the late are ready"),
    "exposed_time": Meaning("s", "lower", "a collective, from when the last rank has arrived"),
    "speedup": Meaning("1", "higher", "total time of what it is compared with over its own"),
    "speedup_over_rhd": Meaning("1", "higher", "total time of rhd over that of stragglar"),
    "speedup_over_fold": Meaning("1", "higher", "total time of fold over that of stragglar"),
    "speedup_over_direct": Meaning("1", "higher", "total time of direct over that of stragglar"),
    "exposed_speedup": Meaning("1", "higher", "the same of the exposed times"),
    "critical_delay": Meaning("s", "lower", "the straggler's delay from which on it is faster"),
    "critical_delay_model": Meaning(
        "s", "lower", "the same by the model's formula, from times without a delay"
    ),
    "model_error": Meaning(
        "%", "lower", "the largest distance of a total time from its prediction, as a share of it"
    ),
    "right_choices": Meaning(
        "%", "higher", "share of sizes and algorithms at which the better way was expected to be"
    ),
    "skew": Meaning("s", "lower", "by how much the last rank came later than the one before it"),
    "straggler": Meaning("1", "neither", "the rank that came last most often"),
    "straggler_confidence": Meaning(
        "%", "higher", "one less the chance that some rank is last so often where all are alike"
    ),
    "rounds": Meaning("1", "lower", "rounds of a schedule from the straggler's arrival on"),
    "straggling_step_time": Meaning("s", "lower", "median time of a step while a rank comes late"),
    "communication_share": Meaning(
        "%", "neither", "of a step, what its collective took before another was chosen"
    ),
    "collective_gain": Meaning("%", "higher", "share of a collective's time that a choice saved"),
    "step_gain": Meaning("%", "higher", "share of a step's time that a choice saved"),
    "gain_agreement": Meaning(
        "1", "neither", "step_gain over communication_share times collective_gain"
    ),
    "steps": Meaning("1", "neither", "steps finished when the trial ended"),
    "loss": Meaning("1", "neither", "training loss of the last step"),
    "digest": Meaning("", "neither", "SHA-256 of model, optimiser, step and data position"),
}
"""Every metric by name; those of single message sizes are found by `meaning`."""

PREDICTED = {
    "recovery_time": "total",
    "detection": "noticing",
    "reconfiguration": "reconfiguration",
    "waiting": "waiting_for_spare",
    "restoring": "state",
    "first_step": "step",
}
"""Values that the prediction names, and the term of it that is about each."""

_BY_SIZE = {
    "time": Meaning("s", "lower", "time of one collective of this size"),
    "algbw": Meaning("bit/s", "higher", "algorithm bandwidth at this size"),
    "busbw": Meaning("bit/s", "higher", "bus bandwidth at this size"),
    "total": Meaning("s", "lower", "from when all ranks but the last were there, at this size"),
    "exposed": Meaning("s", "lower", "from when the last rank was there, at this size"),
    "sent": Meaning("B", "lower", "bytes of the busiest port, without headers of frames"),
    "over": Meaning("1", "lower", "exposed time over that of a library's own AllReduce"),
}

_SIZED = re.compile(
    r"(?:(time|algbw|busbw)_[1-9][0-9]*(?:b|kib|mib|gib)(?:_in_place)?"
    r"|(total|exposed|busbw|sent|over_(?:gloo|nccl))"
    r"_(?:(?:ring|rhd|fold|direct|stragglar)(?:_repointed|_forwarded)?|gloo|nccl)"
    r"_[1-9][0-9]*(?:b|kib|mib|gib))"
)


def meaning(metric: str) -> Meaning:
    """Return what a metric means; raise KeyError for one that does not exist."""
    if metric in METRICS:
        return METRICS[metric]
    sized = _SIZED.fullmatch(metric)
    if sized is None:
        raise KeyError(metric)
    return _BY_SIZE[(sized[1] or sized[2]).partition("_")[0]]


def is_of_size(metric: str) -> bool:
    """Return whether a metric is about one message size."""
    return _SIZED.fullmatch(metric) is not None


def size_name(size: int) -> str:
    """Return a message size as part of a metric's name: `64kib`, `4mib`, `100b`."""
    for unit, factor in (("gib", 2**30), ("mib", 2**20), ("kib", 2**10)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}b"


def own_metrics(options: object) -> dict[str, Meaning]:
    """Return the metrics that the options of a job define by themselves, by name."""
    return {
        name: Meaning(pattern.base[0], pattern.better, f"read by {pattern.pattern!r}")
        for name, pattern in getattr(options, "metrics", {}).items()
    }


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit, in the size that people read: `25.14 ms`, `480 Mbit/s`."""
    if unit not in ("s", "bit/s", "B"):
        return f"{value:.4g}" if unit in ("", "1") else f"{value:.4g} {unit}"
    value = round(value, 9)
    return DIMENSIONS[unit].format(value) if value else f"0 {unit}"
