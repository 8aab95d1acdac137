"""Read the output of nccl-tests and rccl-tests: printed table, JSON or CSV.

The report of a program that was killed may be truncated; its complete rows count. Versions 2 and 3
of the report are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.analysis import nccl
from testbed.analysis.grouping import grouped
from testbed.analysis.nccl_json import (
    NOT_THEIRS,
    describe_error,
    load_json,
    load_whole,
    printed,
    whole_number,
    whole_objects,
)
from testbed.analysis.nccl_table import read_table
from testbed.analysis.rccl_files import read_rccl_csv, read_rccl_json

_VERSIONS = (2, 3)
_START_OF_RESULTS = re.compile(r'"results":\s*\[')


def read_output(text: str, program: str = "") -> nccl.Output:
    """Read the output of a program of nccl-tests or rccl-tests in any of its formats."""
    start = text.lstrip()[:64]
    if start.startswith("{") and '"version"' in start:
        return read_json(text)
    if start.startswith(("[", '{"numCycle"', '{"name"')):
        return read_rccl_json(text)
    if start.startswith(("numCycle,", "collective,")):
        return read_rccl_csv(text)
    return read_table(text, program)


def read_json(text: str) -> nccl.Output:
    """Read a JSON report of nccl-tests; raise UnreadableOutput for anything else."""
    document, is_complete = load_whole(text)
    try:
        if not is_complete:
            document = _beginning(text)
        return _of_json(document, is_complete)
    except NOT_THEIRS as error:
        message = f"its JSON is not that of nccl-tests: {describe_error(error)}"
        raise nccl.UnreadableOutput(0, message) from None


def _of_json(document: Mapping[str, Any], is_complete: bool) -> nccl.Output:
    if document["version"] not in _VERSIONS:
        raise ValueError(f"version {document['version']!r:.20} is not known")
    config = document.get("config", {})
    collective = nccl.collective_of(document["args"][0])
    ranks = _ranks(config.get("devices", document.get("devices", ())))
    rows, busbw = [], []
    is_cpu_time = any(
        "cpu_time" in (r.get(half) or {}) for r in document["results"] for half in nccl.HALVES
    )
    judge = nccl.RowChecker(collective, ranks, is_cpu_time)
    for number, result in enumerate(document["results"], start=1):
        try:
            found = {half: _json_figures(result.get(half)) for half in nccl.HALVES}
            rows.append(_json_row(result, found, judge))
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from None
        busbw += [figures.busbw for figures in found.values() if figures is not None]
    if is_complete and "average_bus_bandwidth" in document:
        nccl.check_average(busbw, float(document["average_bus_bandwidth"]["bandwidth"]))
    nccl.check_wrong(rows, document.get("out_of_bounds", {}).get("okay") == "true")
    return nccl.Output(collective, ranks, tuple(rows), is_complete)


_RESULT_KEYS = {
    *("size", "count", "type", "redop", "root", "actual_iterations", "experiment_name"),
    *(half + part for half in nccl.HALVES for part in ("", "_per_iter")),
}
_HALF_KEYS = {"time", "cpu_time", "alg_bw", "bus_bw", "nwrong"}


def _ranks(devices: Sequence[Mapping[str, Any]]) -> int:
    """Return the ranks of every group; 0 where not all are listed, as without MPI."""
    groups = grouped(devices, lambda device: device["group"]).values()
    ranks = [[device["rank"] for device in group] for group in groups]
    return nccl.group_size(ranks) if len(devices) > 1 else 0


def _json_row(
    result: Mapping[str, Any], found: Mapping[str, nccl.Figures | None], judge: nccl.RowChecker
) -> nccl.Row:
    if unknown := result.keys() - _RESULT_KEYS:
        raise ValueError(f"{min(unknown)!r:.40} is not a key of a result")
    size, count = whole_number(result["size"]), whole_number(result["count"])
    judge.check_size(size, count, result["type"])
    halves: dict[str, nccl.Half | None] = dict.fromkeys(nccl.HALVES)
    for name, figures in found.items():
        if figures is not None:
            judge.check(size, figures)
            _check_spread(result.get(f"{name}_per_iter"))
            halves[name] = figures.half()
    redop, root = nccl.known_redop(result["redop"]), int(result["root"])
    return nccl.Row(size, count, result["type"], redop, root, **halves)


def _json_figures(half: Mapping[str, Any] | None) -> nccl.Figures | None:
    """Return the numbers of a half; None where it was not run, or came to no number."""
    if half is None:
        return None
    if len(half) != 4 or half.keys() - _HALF_KEYS:
        raise ValueError(
            "its out-of-place or in-place result has other keys than nccl-tests writes"
        )
    time = half["cpu_time"] if "cpu_time" in half else half["time"]
    if "nan" in (time, half["alg_bw"], half["bus_bw"]):
        return None
    wrong = None if half["nwrong"] is None else int(printed(half["nwrong"]).value)
    return nccl.Figures(printed(time), printed(half["alg_bw"]), printed(half["bus_bw"]), wrong)


def _check_spread(report: Mapping[str, Any] | None) -> None:
    """Check what a half says of single iterations, where it does."""
    if report is None:
        return
    least, most, p99, _ = (printed(report[key]) for key in ("min_us", "max_us", "p99_us", "cv_pct"))
    skipped = report.get("skipped_iterations", 0)
    times = [printed(time).value for time in report["times_us"][skipped:]]
    if times and (min(times), max(times)) != (least.value, most.value):
        raise ValueError("the times of its iterations contradict their summary")
    nccl.check_order(least, p99, most)


def _beginning(text: str) -> dict[str, Any]:
    """Return a report that breaks off as far as it goes: what comes before its rows, and those."""
    start = _START_OF_RESULTS.search(text)
    if start is None:
        raise ValueError("it is truncated before its first row")
    head = load_json(text[: start.start()].rstrip().rstrip(",") + "}")
    return {**head, "results": list(whole_objects(text, start.end()))}
