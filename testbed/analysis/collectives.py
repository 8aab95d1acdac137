"""Metrics of collectives that were run with several algorithms: times, and the late rank."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.analysis.clocks import Clocks, Instant
from testbed.analysis.grouping import grouped
from testbed.analysis.metric_definitions import size_name
from testbed.analysis.nccl import bus_factor
from testbed.analysis.steps import generation_and_step
from testbed.analysis.straggler import find_straggler
from testbed.collectives.algorithms import COMPARED, LIBRARIES, REFERENCE
from testbed.events import Event

_HEADERS = 66
"""Bytes of a frame that are no payload: Ethernet 14, IPv4 20, TCP with time stamps 32."""

REPOINTED, FORWARDED = "repointed", "forwarded"
"""How an algorithm was run on a circuit switch, behind its name where that is given."""

Times = Mapping[str, tuple[float, float]]
"""By algorithm, its total and its exposed time in seconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """One collective of one message size by one algorithm, with the time stamps of all ranks."""

    size: int
    algorithm: str
    arrivals: Mapping[int, Instant]
    """By rank, when it entered."""
    end: Instant
    """When the last rank was done."""
    sent: float | None
    """Bytes that the busiest port sent for it, without the headers of frames; None where ports do
    not count."""

    @property
    def total(self) -> float:
        """Return the seconds from the second-last rank's arrival to the end of the collective."""
        return self.end.middle - self._arrived(-2)

    @property
    def exposed(self) -> float:
        """Return the seconds from the last rank's arrival to the end of the collective."""
        return self.end.middle - self._arrived(-1)

    @property
    def skew(self) -> float:
        """Return the seconds between the arrivals of the second-last and the last rank."""
        return self.total - self.exposed

    def _arrived(self, place: int) -> float:
        return sorted(at.middle for at in self.arrivals.values())[place]


def collective_values(
    events: Sequence[Event], clocks: Clocks, ranks: int, fault: Instant | None
) -> dict[str, float | str]:
    """Return the metrics of the collectives in a trial that ran after the fault took effect.

    Medians over the runs; a run that not every rank reported, or on a clock that was not measured,
    is left out. Metrics that compare algorithms are those of the largest message size.
    """
    if ranks < 2:
        return {}
    runs = _runs(events, clocks, ranks, float("-inf") if fault is None else fault.late)
    values: dict[str, float | str] = {}
    times: dict[str, tuple[float, float]] = {}
    for size in sorted({run.size for run in runs}):
        times = _times([run for run in runs if run.size == size])
        for algorithm, (total, exposed) in times.items():
            values[f"total_{algorithm}_{size_name(size)}"] = total
            values[f"exposed_{algorithm}_{size_name(size)}"] = exposed
            values[f"busbw_{algorithm}_{size_name(size)}"] = size * 8 * bus_factor(ranks) / exposed
        values |= over_libraries(size, times) | _sent_bytes(size, runs)
    if runs:
        values |= speedups(times)
        values["skew"] = statistics.median(run.skew for run in runs)
        if fault is None:
            values |= critical(times)
        if found := find_straggler([run.arrivals for run in runs]):
            values |= {"straggler": found.rank, "straggler_confidence": found.confidence}
    return values


def over_libraries(size: int, times: Times) -> dict[str, float]:
    """Return the ratio of exposed times: each of our algorithms over each library's AllReduce."""
    return {
        f"over_{library}_{algorithm}_{size_name(size)}": times[algorithm][1] / times[library][1]
        for library in LIBRARIES
        if library in times
        for algorithm in times
        if algorithm not in LIBRARIES
    }


def speedups(times: Times) -> dict[str, float]:
    """Return the speed-up of StragglAR over the ring and over every other algorithm."""
    if COMPARED not in times:
        return {}
    total, exposed = times[COMPARED]
    values: dict[str, float] = {}
    for name, (other_total, other_exposed) in times.items():
        if name == REFERENCE:
            values |= {"speedup": other_total / total, "exposed_speedup": other_exposed / exposed}
        elif name not in (COMPARED, *LIBRARIES):
            values[f"speedup_over_{name}"] = other_total / total
    return values


def critical(times: Times) -> dict[str, float]:
    """Return the critical delay that the cost model derives from times without a delay.

    By the model StragglAR takes as long as with no delay at all while the straggler finds the
    others still busy; the ring waits, and takes as long from when it has come. The measured
    crossing comes from a sweep over several delays (`delay_sweep`).
    """
    if not {COMPARED, REFERENCE} <= times.keys():
        return {}
    return {"critical_delay_model": times[COMPARED][0] - times[REFERENCE][1]}


def _sent_bytes(size: int, runs: Sequence[Run]) -> dict[str, float]:
    by_algorithm = grouped((run for run in runs if run.size == size), lambda run: run.algorithm)
    return {
        f"sent_{algorithm}_{size_name(size)}": statistics.median(sent)
        for algorithm, of_algorithm in by_algorithm.items()
        if (sent := [run.sent for run in of_algorithm if run.sent is not None])
    }


def beside_the_model(
    values: Mapping[str, float | str], predicted: Mapping[str, float]
) -> dict[str, float]:
    """Return the error of the cost model on total times, and how often its choice was right.

    The choice is that between re-pointing and forwarding, at each size by each algorithm.
    """
    totals = {
        name: (value, predicted[name])
        for name, value in values.items()
        if name.startswith("total_") and name in predicted and not isinstance(value, str)
    }
    found: dict[str, float] = {}
    if totals:
        found["model_error"] = max(abs(value / model - 1) for value, model in totals.values())
    right = [
        (measured < other[0]) == (model < other[1])
        for name, (measured, model) in totals.items()
        if (other := totals.get(name.replace(f"_{REPOINTED}_", f"_{FORWARDED}_")))
        and f"_{REPOINTED}_" in name
    ]
    return found | ({"right_choices": sum(right) / len(right)} if right else {})


def _times(runs: Sequence[Run]) -> dict[str, tuple[float, float]]:
    return {
        name: (
            statistics.median(run.total for run in of_algorithm),
            statistics.median(run.exposed for run in of_algorithm),
        )
        for name, of_algorithm in sorted(grouped(runs, lambda run: run.algorithm).items())
    }


def _runs(events: Iterable[Event], clocks: Clocks, ranks: int, since: float) -> list[Run]:
    samples = (e for e in events if e.kind == "sample" and "algorithm" in e.data)
    by_step = grouped(samples, generation_and_step)
    found = (_run(group, clocks, since) for group in by_step.values() if len(group) == ranks)
    return [run for run in found if run is not None]


def _run(group: Sequence[Event], clocks: Clocks, since: float) -> Run | None:
    arrivals = {e.data["rank"]: clocks.instant(e, e.data["begin"]) for e in group}
    ends = [clocks.instant(e, e.data["end"]) for e in group]
    known = {rank: at for rank, at in arrivals.items() if at is not None and at.early >= since}
    done = [end for end in ends if end is not None]
    if len(known) < len(group) or len(done) < len(group):
        return None
    last = max(done, key=lambda end: end.middle)
    return Run(group[0].data["size"], group[0].data["algorithm"], known, last, _sent(group))


def _sent(group: Sequence[Event]) -> float | None:
    counted = [event.data.get("counted") for event in group]
    sent = [float(pair[0] - _HEADERS * pair[1]) for pair in counted if pair]
    return max(sent) if len(sent) == len(group) else None
