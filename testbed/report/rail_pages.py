"""Pages about rails: the stages and windows of a profile, and what each delay would cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from testbed.rails.profile import Profile, stages_of
from testbed.rails.rail_replay import Change
from testbed.rails.stalls import Stall
from testbed.report.console import plain_table
from testbed.report.wording import quantity


def print_stages(profile: Profile, windows: Mapping[tuple[str, int], float], page: Console) -> None:
    """Print the stages of each rank in the last iteration, with the window before each change.

    The first and the last operation of a stage are given by their numbers in its group.
    """
    page.print(Text("\nStages on rails", style="bold"))
    right = ("first", "last", "operations", "bytes", "window")
    table = plain_table("rank", "rail", "stage", *right, right=right)
    for rank, own in enumerate(profile.iterations[-1]):
        for each in stages_of(own.operations, profile.groups):
            stage = each.stage
            # Those inside a host neither begin nor end it, and are not on the rail.
            between = own.operations[each.first : each.last + 1]
            of_stage = [one for one in between if one.group == stage.group]
            window = windows.get((stage.group, stage.place))
            table.add_row(
                str(rank),
                str(profile.groups[stage.group].rail),
                stage.group,
                str(of_stage[0].number),
                str(of_stage[-1].number),
                str(len(of_stage)),
                quantity(sum(one.bytes for one in of_stage), "B"),
                "no change" if window is None else quantity(window, "s"),
            )
    page.print(table)


def print_stalls(rows: Sequence[Stall], page: Console) -> None:
    """Print what each delay costs an iteration in each mode."""
    page.print(Text("\nWhat a delay of the switch costs", style="bold"))
    right = (*_STALL, "of an iteration")
    table = plain_table("requests", *right, right=right)
    for row in rows:
        share = f"{round(100 * row.overhead, 2) + 0.0:.2f} %"
        table.add_row(row.mode, *_stall_cells(row), share)
    page.print(table)


def print_planned_stalls(rows: Sequence[tuple[str, Stall]], page: Console) -> None:
    """Print what the delay of each arm will cost an iteration, by a profile that was kept."""
    page.print(Text("\nWhat its rails would cost, by a replay of a profile", style="bold"))
    table = plain_table("arm", "requests", *_STALL, right=_STALL)
    for arm, row in rows:
        table.add_row(arm, row.mode, *_stall_cells(row))
    page.print(table)
    for arm, row in rows:
        if (over := row.forwarding) is not None:
            costs, is_done = over.costs, "would be" if over.is_cheaper else "would not be"
            page.print(
                f"{arm}: groups {is_done} forwarded over other rails: by the model that costs "
                f"{quantity(costs.forwarding, 's')} of an iteration, re-pointing "
                f"{quantity(costs.repointing, 's')}"
            )


_STALL = ("delay", "iteration", "optimum", "stall", "formula")


def _stall_cells(row: Stall) -> Iterator[str]:
    for seconds in (row.delay, row.iteration, row.optimum, row.stall, row.formula):
        yield quantity(seconds, "s")


def windows_of(changes: Sequence[Change]) -> dict[tuple[str, int], float]:
    """Return the smallest window of each change, by its group and place in the iteration."""
    found: dict[tuple[str, int], float] = {}
    for change in changes:
        key = change.stage.group, change.stage.place
        found[key] = min(found.get(key, change.window), change.window)
    return found


def print_window_comparison(
    names: Sequence[str], each: Sequence[Mapping[tuple[str, int], float]], page: Console
) -> None:
    """Print the windows of several profiles beside each other."""
    page.print(Text("Windows", style="bold"))
    table = plain_table("stage", *names, right=names)
    for key in sorted({key for windows in each for key in windows}):
        cells = ("" if key not in one else quantity(one[key], "s") for one in each)
        group, place = key
        table.add_row(f"{group} {place}" if place else group, *cells)
    page.print(table)
