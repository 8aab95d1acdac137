"""Print a plan on the terminal: what a run would do, step by step."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TextIO, assert_never

from testbed.analysis.settings import Profile, Settings
from testbed.fabric.circuits import CrossConnect, Joined
from testbed.report.settings_section import (
    HEADINGS,
    PLANNED_NOTE,
    PLANNED_TITLE,
    profile_rows,
    settings_lines,
)
from testbed.run.planning import steps
from testbed.run.planning.plan import Fences, Plan
from testbed.units import counted

PlainStep = (
    steps.OpenInstruments
    | steps.OpenHosts
    | steps.ProgramCircuits
    | steps.VerifyPaths
    | steps.StartJob
    | steps.Restore
)
"""A step that is told in lines; trials are told in one table."""

_INDENT = "    "

Row = tuple[str, ...]


def print_plan(plan: Plan, out: TextIO, width: int) -> None:
    """Print the steps of a plan in order and its trials as a table, at most `width` columns wide.

    It is plain text, since the import of rich would take a sixth of the command's time.
    """

    def write(text: str, indent: str = "") -> None:
        for line in _wrapped(text, width - len(indent)):
            print(indent + line, file=out)

    write(f"{plan.experiment} on {plan.lab}: what a run would do")
    for one in plan.avoided:
        of = "" if one.what == one.host else f" ({one.what})"
        write(f"avoids {one.host}{of}, in quarantine until {one.until}: {one.reason}")
    told = [step for step in plan.steps if not isinstance(step, steps.RunTrial) or step.number == 0]
    for number, step in enumerate(told, start=1):
        print(file=out)
        if isinstance(step, steps.RunTrial):
            write(f"{number:2}  Run {counted(len(plan.trials), 'trial')}")
            _print_indented(_table(_trials(plan.trials), width - len(_INDENT)), out)
        else:
            title, lines = _in_words(step)
            write(f"{number:2}  {title}")
            for line in lines:
                write(line, _INDENT)
    if plan.fences:
        print(file=out)
        write("Should a host fail, it is fenced, by the first of these that comes up")
        _print_indented(_table(_fences(plan.fences), width - len(_INDENT)), out)
    write(f"\nSeed {plan.seed}, plan {plan.digest()}. Nothing was opened or touched.")


def print_planned(
    settings: Mapping[str, Settings], profiles: Sequence[Profile], out: TextIO, width: int
) -> None:
    """Print the settings of a run on a twin, and the predictions for reported switch profiles."""
    print(f"\n{PLANNED_TITLE}", file=out)
    lines = [*settings_lines(settings), *([PLANNED_NOTE] if profiles else ())]
    wrapped = [line for text in lines for line in _wrapped(text, width - len(_INDENT))]
    rows = [HEADINGS, *profile_rows(profiles)] if profiles else []
    _print_indented((*wrapped, *_table(rows, width - len(_INDENT))), out)


def _print_indented(lines: Iterable[str], out: TextIO) -> None:
    for line in lines:
        print(f"{_INDENT}{line}".rstrip(), file=out)


def _lines_of_light(adds: Sequence[steps.Light]) -> Iterator[str]:
    """Yield a line for each cross-connect; one that carries both directions has one line."""
    both = Counter(light.cross for light in adds)
    shown: set[CrossConnect] = set()
    for light in adds:
        if light.cross not in shown:
            shown.add(light.cross)
            yield f"+ {light.cross}  {Joined(light.source, light.sink, both[light.cross] > 1)}"


def _in_words(step: PlainStep) -> tuple[str, list[str]]:
    """Return the title of a step, and the lines below it."""
    match step:
        case steps.OpenInstruments(switches, power, attenuators, meters):
            lines = [_named("switches", switches), _named("power units", power)]
            if attenuators or meters:
                lines += [_named("attenuators", attenuators), _named("power meters", meters)]
            return "Lock, open and identify the instruments", lines
        case steps.OpenHosts(hosts):
            title = f"Start agents on {counted(len(hosts), 'host')}"
            return f"{title} and set their fabric ports' addresses", [_named("hosts", hosts)]
        case steps.ProgramCircuits(circuits, adds):
            made = counted(len({light.cross for light in adds}), "cross-connect")
            lines = [_named("circuits", tuple(map(str, circuits))), *_lines_of_light(adds)]
            return f"Make {counted(len(circuits), 'circuit')} of {made}", lines
        case steps.VerifyPaths(ports):
            title = f"Verify that {counted(len(ports), 'port')} reach each other"
            return f"{title} through the packet switch", [_named("ports", tuple(map(str, ports)))]
        case steps.StartJob(name, kind, hosts):
            title = f"Start job {name}: {kind} on {counted(len(hosts), 'rank')}"
            return f"{title}, and probe its links", list(_lines_of_job(step))
        case steps.Restore(keep):
            end = "stay as the last trial leaves them" if keep else "go back to what was found"
            line = f"faults undone, ranks ended, addresses removed; circuits {end}"
            return "Take everything back, whatever happened", [line]
    assert_never(step)


def _lines_of_job(job: steps.StartJob) -> Iterator[str]:
    yield "ranks: " + ", ".join(f"{rank} on {host}" for rank, host in enumerate(job.hosts))
    yield _named("spares", job.spares)
    for host, words in zip(job.hosts, job.commands, strict=False):
        if words:
            yield f"on {host}: {shlex.join(words)}"
    for number, circuits in enumerate(job.asked[1:], start=1):
        yield f"asked for by ranks, {number}: {', '.join(map(str, circuits))}"


def _trials(trials: Sequence[steps.RunTrial]) -> Iterator[Row]:
    """Yield the rows of each trial: its faults, and beside these what is expected to recover it."""
    predicted = "predicted" if any(trial.recoveries for trial in trials) else ""
    yield "#", "variant", "fault", "rank", "at step", "held", predicted
    for trial in trials:
        several = len({one.job for one in trial.faults}) > 1
        faults = [_fault(one, names_job=several) for one in trial.faults or (None,)]
        for other in trial.far_end_faults:
            name = f"{other.kind} of {other.switch}"
            faults.append((name, "", str(other.step), "on a twin only"))
        decided = [_decision(one) for of in trial.recoveries for one in of.decisions]
        rows = zip_longest(faults, decided, fillvalue=None)
        for number, (fault, decision) in enumerate(rows):
            first = ("", "") if number else (str(trial.number), trial.arm)
            yield *first, *(fault or ("", "", "", "")), decision or ""


def _decision(one: steps.PredictedDecision) -> str:
    if one.replacement == one.victim:  # a rank on its host, or a circuit
        return "lit again" if "–" in one.victim else f"{one.victim} again"
    return f"{one.replacement} for {one.victim}" if one.replacement else f"without {one.victim}"


def _fences(fences: Sequence[Fences]) -> Iterator[Row]:
    yield "hosts", "its rank fails", "dark and silent", "only silent"
    for one in fences:
        means = (one.rank, one.dead, one.unreachable)
        yield ", ".join(one.hosts), *(", ".join(m) or "no fence is permitted" for m in means)


def _fault(fault: steps.FaultPlan | None, *, names_job: bool) -> tuple[str, str, str, str]:
    if fault is None:
        return "none", "", "", ""
    held = "until recovered" if fault.hold is None else f"{fault.hold:g} s"
    at = f"{fault.step} + {fault.phase:.2f}"
    if fault.after is not None:
        at = f"{fault.after * 1000:g} ms later"
    rank = f"{fault.rank} of {fault.job}" if names_job else str(fault.rank)
    return fault.kind, rank, at, held


def _named(what: str, names: Sequence[str]) -> str:
    return f"{what}: {', '.join(names) or 'none'}"


def _wrapped(text: str, width: int) -> Iterator[str]:
    for line in text.split("\n"):
        folded = textwrap.wrap(line, max(width, 1), break_on_hyphens=False)
        yield from [line] if len(line) <= width else folded or [""]


def _table(rows: Iterable[Row], width: int) -> Iterator[str]:
    """Align columns two blanks apart, the first to the right; fold the widest until all fits."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while (room := sum(widths) + 2 * (len(widths) - 1)) > width and max(widths) > 1:
        widest = widths.index(max(widths))
        widths[widest] -= min(room - width, max(1, widths[widest] - sorted(widths)[-2]))
    for row in rows:
        cells = [list(_wrapped(text, wide)) for text, wide in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            parts = [cell[number] if number < len(cell) else "" for cell in cells]
            first, *others = (part.ljust(wide) for part, wide in zip(parts, widths, strict=True))
            yield "  ".join([first.strip().rjust(widths[0]), *others])
