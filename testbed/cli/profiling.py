"""The command `profile`: stages and windows of a run's ranks, and what slow rails would cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    RecordsOption,
    app,
    argument,
    print_json,
    seconds_of,
    terminal,
)
from testbed.cli.completion import run_names
from testbed.cli.record import report_damage
from testbed.errors import UsageError
from testbed.files import is_file, parse_json, read_file
from testbed.record.log import read_events
from testbed.record.rundir import find_run
from testbed.units import TIME

if TYPE_CHECKING:
    from rich.console import Console

    from testbed.rails.profile import Profile
    from testbed.rails.rail_replay import Rails
    from testbed.rails.requests import Mode
    from testbed.rails.workload import Workload

_LARGEST = 64 << 20
_DELAYS = ("10 ms", "50 ms", "100 ms", "250 ms", "500 ms", "1 s")
_WORTH = 0.05
"""Share of an iteration whose delay is looked for: about what Opus (arXiv 2602.12521) claims."""


@app.command(
    epilog="Examples: testbed profile latest; testbed profile latest --json > groups.profile.json; "
    "testbed profile groups.profile.json latest"
)
def profile(
    of: Annotated[
        list[str],
        argument("RUN|FILE...", "Runs of a job in groups, or profiles that were kept.", run_names),
    ],
    delay: Annotated[
        list[str],
        typer.Option(metavar="TIME", help="A delay of the switch. Repeatable.", show_default=False),
    ] = [],  # noqa: B006 - typer wants it so
    trial: Annotated[
        int | None, typer.Option(help="The trial; the first one by default.", min=0)
    ] = None,
    ports: Annotated[int, typer.Option(help="Fabric ports of each rank.", min=1)] = 2,
    results: RecordsOption = RESULTS,
    json: JsonOption = False,
) -> None:
    """Print the stages of a job in groups, and what rails on slow circuits would cost it.

    The prediction is a replay: nothing is run. Several are compared by their windows.
    """
    from testbed.rails.profile_json import to_json

    found = [read_profile(name, results, trial) for name in of]
    if json:
        if len(found) > 1:
            raise UsageError("--json prints one profile, not several", hint="name one")
        print_json(to_json(found[0]))
        return
    from testbed.rails.rail_replay import Rails

    page, rails = terminal(), Rails(ports=ports)
    for name in of:
        _print_removals(name, results, page)
    try:
        if len(found) > 1:
            _compare(of, found, rails, page)
        else:
            delays = [seconds_of("--delay", text) for text in delay or _DELAYS]
            _print(found[0], delays, rails, page)
    except ValueError as error:
        raise UsageError(f"the profile cannot be replayed on rails: {error}") from error


def read_profile(name: str, results: Path, trial: int | None = None) -> Profile:
    """Return a profile that was kept in a file, or that of a run."""
    from testbed.analysis.rail_prediction import profile_of_run
    from testbed.analysis.rail_profile import NoProfile
    from testbed.rails.profile_json import from_json

    if is_file(name):
        try:
            return from_json(parse_json(read_file(Path(name), _LARGEST, follow=True)))
        except (OSError, ValueError) as error:
            raise UsageError(f"{name} is no profile: {error}") from error
    run = find_run(results, name)
    with report_damage(run):
        try:
            return profile_of_run(read_events(run.events), run.id, trial)
        except NoProfile as error:
            hint = "run a job in groups, as experiments/groups.yaml does"
            raise UsageError(f"{name} gives no profile of rails: {error}", hint=hint) from error


def _print(profile: Profile, delays: list[float], rails: Rails, page: Console) -> None:
    from testbed.rails.replay import replay
    from testbed.rails.stalls import stalls
    from testbed.rails.workload import workload_of
    from testbed.report.rail_pages import print_stages, print_stalls, windows_of

    modes: tuple[Mode, ...] = ("on-demand", "provisioned", "learned")
    workload = workload_of(profile)
    print_profile(profile, rails, page)
    print_stages(profile, windows_of(replay(workload, rails).changes), page)
    print_stalls(stalls(workload, delays, modes, rails), page)
    print_break_even(workload, rails, page)


def print_profile(profile: Profile, rails: Rails, page: Console) -> None:
    """Print whose profile it is, what an iteration takes without a delay, and what control does."""
    from testbed.rails.replay import replay
    from testbed.rails.workload import workload_of

    page.print(f"profile of {profile.source}: {profile.ranks} ranks", style="bold")
    took = TIME.format(round(replay(workload_of(profile), rails).iteration, 9))
    page.print(f"{len(profile.iterations)} iterations of {took} by the replay without a delay")
    page.print(_control_in_words(profile))


def _control_in_words(profile: Profile) -> str:
    """Return what the control of a profile takes of a change."""
    if not profile.control.change:
        return "no rank waited for a change of circuits in it, so the control counts as nothing"
    took = TIME.format(round(profile.control.change, 6))
    return f"the control takes {took} of a change, which is counted at every delay"


def print_break_even(workload: Workload, rails: Rails, page: Console) -> None:
    """Print up to which delay an iteration is hardly longer, in each mode."""
    from testbed.rails.stalls import break_even

    modes: tuple[Mode, ...] = ("on-demand", "provisioned", "learned")
    page.print()
    for mode in modes:
        longest = break_even(workload, replace(rails, mode=mode), _WORTH)
        page.print(
            f"{mode}: iterations are at most {_WORTH:.0%} longer up to a delay of "
            f"{TIME.format(round(longest, 6))}"
        )


def _print_removals(name: str, results: Path, page: Console) -> None:
    """Print the circuits that rails removed while a group of a run had traffic on them."""
    from testbed.analysis.rail_monitor import monitor

    if is_file(name):
        return  # a profile has no circuits
    run = find_run(results, name)
    with report_damage(run):
        seen = monitor(read_events(run.events))
    for removal in seen.found:
        page.print(f"unsafe: {removal}", style="bold red")
    if seen.removed:
        page.print(
            f"{len(seen.found)} of {seen.removed} circuits that were removed had traffic, by "
            f"{seen.collectives} parts of collectives and {seen.stages} of stages"
        )
    if seen.not_judged:
        page.print(
            f"{len(seen.not_judged)} of them cannot be judged, the first {seen.not_judged[0]}",
            style="yellow",
        )


def _compare(names: list[str], found: list[Profile], rails: Rails, page: Console) -> None:
    from testbed.rails.replay import replay
    from testbed.rails.workload import workload_of
    from testbed.report.rail_pages import print_window_comparison, windows_of

    each = [windows_of(replay(workload_of(one), rails).changes) for one in found]
    print_window_comparison(names, each, page)
