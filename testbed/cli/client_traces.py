"""Show a trace of clients: one drawn from a seed, or files of FedScale's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from testbed.errors import UsageError
from testbed.jobs.trace_files import read_trace
from testbed.tenancy.trace_summary import LEVELS, TraceSummary, summary
from testbed.tenancy.traces import Population, Trace, generate

MOST_CLIENTS = 100_000


def show_trace(files: Sequence[str], seed: int | None, clients: int, as_json: bool) -> None:
    """Print how many clients a trace has, when they are there, how fast they are, and its hash."""
    trace = _trace(files, seed, clients)
    found = summary(trace)
    if as_json:
        plain = asdict(found) | {"levels": LEVELS}
        print(json.dumps(plain, indent=2))
        return
    _print(found)


def _trace(files: Sequence[str], seed: int | None, clients: int) -> Trace:
    if bool(files) == (seed is not None):
        raise UsageError(
            "a trace is drawn from a seed or read from files, and "
            + ("both were given" if files else "neither was given"),
            hint="testbed propius trace --seed 7, or testbed propius trace FILE [AVAILABILITY]",
        )
    if seed is None:
        return read_trace(files)
    if not 1 <= clients <= MOST_CLIENTS:
        raise UsageError(
            f"--clients {clients} cannot be drawn", hint=f"draw from 1 to {MOST_CLIENTS} clients"
        )
    return generate(Population(clients=clients), seed)


def _print(found: TraceSummary) -> None:
    print(f"clients    {found.clients}, {found.never} of them never there")
    print(f"period     {found.period:g} s")
    print(f"available  {100 * found.available_share:.1f} % of the time, {found.sessions} sessions")
    print(f"sha256     {found.digest}")
    print()
    print(f"{'quantile':30}" + "".join(f"{100 * level:>9g} %" for level in LEVELS))
    for each in found.quantiles:
        name = each.name if each.unit == "1" else f"{each.name} [{each.unit}]"
        print(f"{name:30}" + "".join(f"{value:>11.4g}" for value in each.values))
