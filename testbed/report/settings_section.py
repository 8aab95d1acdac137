"""The section of pages on settings, and on predictions for reported switch profiles.

Rich is imported late, as `plan` prints the same section without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from testbed.analysis.metric_definitions import quantity
from testbed.analysis.settings import Profile, Settings

if TYPE_CHECKING:
    from rich.console import Console

    from testbed.analysis.summary import Summary

PLANNED_TITLE = "What a twin's numbers would rest on"
PROFILES_NOTE = (
    "With switches and links as they are reported the model expects this instead; nothing of it "
    "was measured here."
)
PLANNED_NOTE = (
    "With switches and links as they are reported the light alone takes this of a recovery: from "
    "its loss until the link is up again."
)
HEADINGS = ("switch", "settle", "link up", "predicted", "source")

_UNITS = {"rate": "bit/s", "delivered": "bit/s", "credit": "B", "rings": "1"}
_NAMES = {"delivered": "delivered by the slowest link", "credit": "credit after a pause"}


def settings_lines(settings: Mapping[str, Settings]) -> Iterator[str]:
    """Yield the settings common to all arms in one line, then those of each arm."""
    every = list(settings.values())
    names = list(dict.fromkeys(name for found in every for name in found))
    common = [name for name in names if len({found.get(name) for found in every}) == 1]
    if common:
        yield _told({name: every[0][name] for name in common})
    # What a probe measured differs from job to job, and says nothing of an arm.
    own = [name for name in names if name not in common and name not in _NAMES]
    for arm, found in settings.items():
        if mine := {name: found[name] for name in own if name in found}:
            yield f"{arm}: {_told(mine)}"


def profile_rows(profiles: Sequence[Profile]) -> Iterator[tuple[str, ...]]:
    """Yield one row for each profile, under `HEADINGS`; a range where arms differ."""
    for profile in profiles:
        found = profile.predicted.values()
        yield (
            profile.name,
            quantity(profile.settle, "s"),
            quantity(profile.link_up, "s") + ("" if profile.link_up_reported else " as here"),
            "" if not found else _range(min(found), max(found)),
            profile.source,
        )


def print_foundations(summary: Summary, console: Console) -> None:
    """Print the settings and profiles of a run, and explanations of flagged metrics."""
    from rich.text import Text

    from testbed.report.console import plain_table

    for name, why in summary.flags.items():
        console.print(Text(f"\n{name}: {why}", style="yellow"))
    if summary.settings:
        console.print(Text("\nWhat the numbers rest on", style="bold"))
    for line in settings_lines(summary.settings):
        console.print(Text(f"  {line}"))
    if summary.profiles:
        console.print(Text(f"  {PROFILES_NOTE}", style="dim"))
        table = plain_table(f"  {HEADINGS[0]}", *HEADINGS[1:], right=HEADINGS[1:4])
        for name, *cells in profile_rows(summary.profiles):
            table.add_row(f"  {name}", *cells)
        console.print(table)


def _told(settings: Settings) -> str:
    parts = (
        f"{_NAMES.get(name, name.replace('_', ' '))} {_valued(name, value)}"
        for name, value in settings.items()
    )
    return ", ".join(parts)


def _valued(name: str, value: float | str) -> str:
    return value if isinstance(value, str) else quantity(value, _UNITS.get(name, "s"))


def _range(low: float, high: float) -> str:
    shown = quantity(low, "s")
    return shown if shown == quantity(high, "s") else f"{shown} to {quantity(high, 's')}"
