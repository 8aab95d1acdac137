"""A plan on the terminal: what a run would do, step by step."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import assert_never

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from testbed.run.plan import (
    FaultPlan,
    OpenHosts,
    OpenInstruments,
    Plan,
    ProgramCircuits,
    Restore,
    RunTrial,
    StartJob,
    VerifyPaths,
)

PlainStep = OpenInstruments | OpenHosts | ProgramCircuits | VerifyPaths | StartJob | Restore
"""A step that is told in lines; trials are told in one table."""

_INDENT = 4


def print_plan(plan: Plan, console: Console) -> None:
    """Print the steps of a plan in order, its trials as one table."""
    console.print(Text(f"{plan.experiment} on {plan.lab}: what a run would do", style="bold"))
    for one in plan.avoided:
        of = "" if one.what == one.host else f" ({one.what})"
        words = f"avoids {one.host}{of}, in quarantine until {one.until}: {one.reason}"
        console.print(Text(words, style="yellow"))
    steps = [step for step in plan.steps if not isinstance(step, RunTrial) or step.number == 0]
    for number, step in enumerate(steps, start=1):
        if isinstance(step, RunTrial):
            _print_step(number, f"Run {len(plan.trials)} trials", _trials(plan.trials), console)
        else:
            _print_step(number, _title(step), Text("\n").join(_details(step)), console)
    console.print(Text(f"\nSeed {plan.seed}, plan {plan.digest()}. Nothing was opened or touched."))


def _print_step(number: int, title: str, body: Text | Table, console: Console) -> None:
    console.print(Text(f"\n{number:2}  {title}", style="bold"))
    console.print(Padding(body, (0, 0, 0, _INDENT), expand=False))


def _title(step: PlainStep) -> str:
    match step:
        case OpenInstruments():
            return "Lock, open and identify the instruments"
        case OpenHosts(hosts):
            return f"Start agents on {len(hosts)} hosts and set their fabric ports' addresses"
        case ProgramCircuits(circuits, adds):
            return f"Make {len(circuits)} circuits of {len(adds)} cross-connects"
        case VerifyPaths(ports):
            return f"Verify that {len(ports)} ports reach each other through the packet switch"
        case StartJob(name, kind, hosts):
            return f"Start job {name}: {kind} on {len(hosts)} ranks, and probe its links"
        case Restore():
            return "Take everything back, whatever happened"
    assert_never(step)


def _details(step: PlainStep) -> Iterator[Text]:
    match step:
        case OpenInstruments(switches, power, attenuators, meters):
            yield Text(_named("switches", switches))
            yield Text(_named("power units", power))
            if attenuators or meters:
                yield Text(_named("attenuators", attenuators))
                yield Text(_named("power meters", meters))
        case OpenHosts(hosts):
            yield Text(_named("hosts", hosts))
        case ProgramCircuits(circuits, adds):
            yield Text(_named("circuits", tuple(map(str, circuits))))
            for light in adds:
                yield Text(f"+ {light.cross}  {light.source} to {light.sink}", "green")
        case VerifyPaths(ports):
            yield Text(_named("ports", tuple(map(str, ports))))
        case StartJob(_, _, hosts, spares, commands, asked):
            yield Text("ranks: " + ", ".join(f"{r} on {host}" for r, host in enumerate(hosts)))
            yield Text(_named("spares", spares))
            for host, words in zip(hosts, commands, strict=False):
                if words:
                    yield Text(f"on {host}: {shlex.join(words)}")
            for number, circuits in enumerate(asked[1:], start=1):
                yield Text(f"asked for by ranks, {number}: {', '.join(map(str, circuits))}")
        case Restore(keep):
            end = "stay as the last trial leaves them" if keep else "go back to what was found"
            yield Text(f"faults undone, ranks ended, addresses removed; circuits {end}")
        case _:
            assert_never(step)


def _trials(trials: Sequence[RunTrial]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    for column in ("variant", "fault", "of rank", "at step", "held"):
        table.add_column(column, overflow="fold")
    for trial in trials:
        table.add_row(str(trial.number), trial.arm, *_fault(trial.fault))
        for other in trial.far_end_faults:
            row = (f"{other.kind} of {other.switch}", "", str(other.step), "on a twin only")
            table.add_row("", "", *row)
    return table


def _fault(fault: FaultPlan | None) -> tuple[str, str, str, str]:
    if fault is None:
        return "none", "", "", ""
    held = "until recovered" if fault.hold is None else f"{fault.hold:g} s"
    return fault.kind, str(fault.rank), f"{fault.step} + {fault.phase:.2f}", held


def _named(what: str, names: Sequence[str]) -> str:
    return f"{what}: {', '.join(names) or 'none'}"
