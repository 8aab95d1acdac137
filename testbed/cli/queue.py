"""The command `queue`: show what waits for parts of a lab, move or cancel it, replay history."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from testbed.cli.app import JsonOption, LabOption, TwinOption, app, argument, print_json
from testbed.cli.completion import queue_entries, queue_policies
from testbed.cli.lease_stores import queue_of
from testbed.cli.leases import utc_of
from testbed.cli.twins import inside_twin, named_lab
from testbed.errors import UsageError
from testbed.record.lab_queue import LabQueue
from testbed.record.lease_rules import format_resources
from testbed.record.queue_entry import QueueEntry
from testbed.record.queue_place import waits_for
from testbed.record.queue_rules import Snapshot
from testbed.tenancy.lab_queue import Move
from testbed.units import lasting

queue_app = typer.Typer(
    help="Show the queue of a lab; move or cancel what waits.",
    epilog="Examples: testbed queue --lab rack; testbed queue move 3f2a1c --lab rack",
    rich_markup_mode=None,
)
app.add_typer(queue_app, name="queue")

EntryName = Annotated[
    str, argument("ENTRY", "An entry of the queue, by the beginning of its name.", queue_entries)
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Also where it is another user's, or passes theirs.")
]


@queue_app.callback(invoke_without_command=True)
def queue(
    context: typer.Context, lab: LabOption = "", twin: TwinOption = "", json: JsonOption = False
) -> int:
    """Show what runs from the queue, what waits in which order and for what, what was interrupted.

    Without --lab or --twin it is the queue of this machine.
    """
    if context.invoked_subcommand is not None:
        if lab or twin or json:
            raise UsageError("options of `queue` come after the word that says what to do")
        return 0
    if twin:
        return inside_twin(twin, *named_lab(lab, twin), [])
    found = _queue(lab)
    snapshot, gone = found.snapshot(), [e for e in found.entries() if e.state == "interrupted"]
    if json:
        print_json([*_rows(snapshot), *(_row(one) for one in gone)])
    else:
        _print_queue(snapshot, gone)
    return 0


@queue_app.command(
    epilog="Examples: testbed queue move 3f2a1c --lab rack; "
    "testbed queue move 3f2a1c --before 77aa21 --lab rack"
)
def move(
    entry: EntryName,
    lab: LabOption = "",
    twin: TwinOption = "",
    before: Annotated[
        str,
        typer.Option(
            help="Right before this entry, instead of first.", autocompletion=queue_entries
        ),
    ] = "",
    last: Annotated[bool, typer.Option("--last", help="Last, instead of first.")] = False,
    force: ForceOption = False,
) -> int:
    """Let an entry have its turn first, last, or right before another, whatever the policy."""
    if before and last:
        raise UsageError("--before and --last are two places", hint="give one of them")
    if twin:
        return inside_twin(twin, *named_lab(lab, twin), [])
    found = _queue(lab)
    mine = found.find_entry(entry)
    other = found.find_entry(before).token if before else ""
    if other == mine.token:
        raise UsageError(f"{mine} cannot come before itself")
    to = Move("before", 0.0, other) if before else Move("last" if last else "first", 0.0)
    found.move(mine, to, forced=force)
    _print_queue(found.snapshot(), [])
    return 0


@queue_app.command(epilog="Example: testbed queue cancel 3f2a1c --lab rack")
def cancel(
    entry: EntryName, lab: LabOption = "", twin: TwinOption = "", force: ForceOption = False
) -> int:
    """Take an entry out of the queue; the command that waits there ends with exit code 5."""
    if twin:
        return inside_twin(twin, *named_lab(lab, twin), [])
    found = _queue(lab)
    mine = found.find_entry(entry)
    found.cancel(mine, forced=force)
    print(f"cancelled: {mine}")
    return 0


@queue_app.command(epilog="Example: testbed queue replay --policy srsf --lab rack")
def replay(
    lab: LabOption = "",
    twin: TwinOption = "",
    policy: Annotated[
        list[str],
        typer.Option(help="A policy; repeatable, all by default.", autocompletion=queue_policies),
    ] = [],  # noqa: B006 - typer wants it so
    json: JsonOption = False,
) -> int:
    """Compute when the experiments of the queue's history would have started under a policy."""
    if twin:
        return inside_twin(twin, *named_lab(lab, twin), [])
    from testbed.cli.queue_replay import print_replay, replayed

    found = replayed(_queue(lab).history(), policy)
    if json:
        print_json(found.to_json())
    else:
        print_replay(found)
    return 0


def _queue(lab: str) -> LabQueue:
    return queue_of(named_lab(lab)[0] if lab else None)


def _rows(found: Snapshot) -> list[dict[str, Any]]:
    running = [_row(one) for one in found.entries if one.state == "running"]
    waiting = [
        _row(one) | {"position": number, "waits_for": waits_for(found, one)}
        for number, one in enumerate(found.line(), start=1)
    ]
    return running + waiting


def _row(entry: QueueEntry) -> dict[str, Any]:
    plain = ("name", "token", "state", "policy", "expected", "trials", "command")
    row = {key: getattr(entry, key) for key in plain}
    holder = {key: getattr(entry.holder, key) for key in entry.holder.__slots__}
    started = utc_of(entry.started) if entry.started is not None else None
    times = {"arrived": utc_of(entry.arrived), "started": started}
    moved = {"to": entry.move.to, "by": entry.moved_by} if entry.move else None
    names = format_resources(entry.resources).split(", ")
    return {**row, **holder, **times, "moved": moved, "resources": names}


def _print_queue(found: Snapshot, gone: list[QueueEntry]) -> None:
    """Print what runs, what waits in the order of the turns, and what was interrupted."""
    running, line = [one for one in found.entries if one.state == "running"], found.line()
    if not (running or line or gone):
        print("the queue is empty")
    for one in running:
        held = lasting(found.now - (one.started or found.now))
        print(f"runs    {one} for {held} of about {lasting(one.expected)}")
    for number, one in enumerate(line, start=1):
        moved = f", moved {one.move.to} by {one.moved_by}" if one.move else ""
        print(f"{number:<7} {one} for {lasting(found.now - one.arrived)}{moved}")
        print(f"        needs {format_resources(one.resources)}")
        print(f"        waits: {waits_for(found, one)}")
    for one in gone:
        print(f"gone    {one}: its process ended; its place is kept for: {one.command}")
