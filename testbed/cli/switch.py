"""The command `switch`: show one switch, and change its circuits manually."""

from __future__ import annotations

import json as json_format
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    LabOption,
    ResultsOption,
    SetOption,
    TwinOption,
    app,
    argument,
    print_json,
)
from testbed.cli.completion import circuit_ends, switches
from testbed.cli.exit_on_signal import defer_signals
from testbed.cli.lease_stores import leases_of
from testbed.cli.standard_streams import is_read
from testbed.cli.twins import inside_twin, named_lab, with_settle_of_twin
from testbed.clock import Deadline
from testbed.commands import typed
from testbed.errors import InstrumentError, UsageError
from testbed.fabric.reading import NOT_MEASURED, Reading
from testbed.schema import Lab, load_circuits
from testbed.units import counted

if TYPE_CHECKING:
    from testbed.bench.cross_connect_rows import CrossConnectRow
    from testbed.bench.manual_switch import ManualSwitch
    from testbed.fabric.circuits import CrossConnect
    from testbed.record.rundir import RunDirectory

Action = Literal["show", "connect", "disconnect", "plan", "apply", "watch"]

_SecondsOption = Annotated[
    float, typer.Option("--seconds", help="How long to watch; until Ctrl-C by default.")
]
_ForceOption = Annotated[bool, typer.Option("--force", help="Move what others have leased, too.")]

_INTERVAL = 0.5
"""Seconds between two looks."""
_NOTABLE = 1.0
"""dB by which a light level must change to be worth a line."""


@app.command(
    epilog="Examples: testbed switch ocs show --lab rack; "
    "testbed switch ocs connect h0.p1 h1.p0 --lab rack; "
    "testbed switch ocs disconnect 2 19 --lab rack; "
    "testbed switch ocs plan wanted.yaml --twin rack; "
    "testbed switch ocs watch --seconds 60 --twin rack"
)
def switch(
    name: Annotated[str, argument("NAME", "The switch, as in the lab file.", switches)],
    action: Annotated[Action, typer.Argument(help="What to do.")],
    what: Annotated[
        list[str] | None,
        argument(
            "[A B… | FILE]",
            "Two host ports, or an ingress and an egress, or several such pairs; or a list.",
            circuit_ends,
        ),
    ] = None,
    lab: LabOption = "",
    twin: TwinOption = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
    seconds: _SecondsOption = 0.0,
    force: _ForceOption = False,
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
) -> int:
    """Show or watch a switch's circuits; connect or disconnect one; plan or apply a list."""
    found, file = named_lab(lab, twin, set_)
    if name not in found.switches:
        raise UsageError(
            f"{name!r} is not a switch of lab {found.lab}",
            hint="known: " + ", ".join(found.switches),
        )
    circuits = _circuits(found, name, action, what or [])
    if twin:
        return inside_twin(twin, found, file, set_)
    from testbed.bench.manual_switch import open_manual_switch
    from testbed.cli.record import temporary_record

    found = with_settle_of_twin(found)
    with open_manual_switch(found, name, leases_of(found), force=force, on_wait=_say) as box:
        if action == "watch":
            _watch(box, seconds, json)
        elif action == "plan":
            _print_plan(box, circuits, json)
        elif action == "show":
            _print_rows(box, box.rows(), json)
        else:
            _change(box, action, circuits, temporary_record(found, results, set_), json)
    return 0


def _change(
    box: ManualSwitch,
    action: Action,
    circuits: frozenset[CrossConnect],
    record: AbstractContextManager[RunDirectory],
    json: bool,
) -> None:
    """Connect, disconnect or apply circuits within a record, and print all that are made then."""
    from testbed.record.journal import has_entries

    verbs = {"connect": box.connect, "disconnect": box.disconnect, "apply": box.apply}
    # A circuit must not stay half made.
    with record as run, defer_signals(partial(has_entries, run.journal)):
        made = verbs[action](circuits, run)
    if made.moved is None:
        print(f"{box.name}: nothing to change", file=sys.stderr)
    _print_rows(box, made.rows, json)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _circuits(lab: Lab, name: str, action: Action, what: list[str]) -> frozenset[CrossConnect]:
    """Return the cross-connects that the words or the file name; none to show or watch."""
    from testbed.bench.endpoints import listed_circuits, parse_endpoint_pairs

    if action in ("show", "watch"):
        if what:
            raise UsageError(
                f"{action} takes no circuit", hint=f"type: {typed('switch', name, action)}"
            )
        return frozenset()
    if action in ("connect", "disconnect"):
        return parse_endpoint_pairs(lab, name, what)
    if len(what) != 1:
        raise UsageError(
            f"{action} needs one file, got {len(what)}",
            hint="name a list of circuits, as wanted.yaml",
        )
    return listed_circuits(lab, name, load_circuits(Path(what[0])))


def _print_rows(box: ManualSwitch, rows: list[CrossConnectRow], json: bool) -> None:
    if json:
        print_json([row.to_json() for row in rows])
        return
    print(f"{box.name}: {box.identity}")
    for row in rows:
        ends = f"{row.ingress:>4} {_level(row, row.light_in)}→ {row.egress:<4} "
        line = f"  {ends}{_level(row, row.light_out)}{row.ends!s:<20} {row.state}"
        print(line.rstrip())
    print(f"  {counted(len(rows), 'cross-connect')}")


def _print_plan(box: ManualSwitch, circuits: frozenset[CrossConnect], json: bool) -> None:
    change = box.planned(circuits)
    if json:
        removes, adds = sorted(change.removes.items()), sorted(change.adds.items())
        print_json({"removes": removes, "adds": adds, "disturbs": sorted(change.disturbs)})
        return
    rows = [("-", pair) for pair in sorted(change.removes.items())]
    rows += [("+", pair) for pair in sorted(change.adds.items())]
    rows += [("~", pair) for pair in sorted(change.disturbs)]
    for sign, (ingress, egress) in rows:
        print(f"  {sign} {ingress:>4} → {egress:<4} {box.ends(ingress, egress)}")
    if not rows:
        print("  nothing to change")


def _watch(box: ManualSwitch, seconds: float, json: bool) -> None:
    """Print every change of the circuits and their light, as it is seen.

    A switch that does not answer for a while is waited for; the error is raised when it is still
    silent at the end.
    """
    end = Deadline.after(seconds) if seconds else None
    before: dict[tuple[int, int], CrossConnectRow] = {}
    trouble: InstrumentError | None = None
    print(f"{box.name}: {box.identity}", file=sys.stderr)
    while True:
        try:
            present = {(row.ingress, row.egress): row for row in box.rows()}
            trouble = None
        except InstrumentError as error:
            if trouble is None:
                print(f"{_stamp()}  {error}; waiting for it", file=sys.stderr)
            trouble, present = error, before
        for row, words in _all_news(before, present):
            line = json_format.dumps({"at": _stamp(), "news": words, **row.to_json()})
            print(line if json else f"{_stamp()}  {words}", flush=True)
        before = present
        if (end and end.passed) or not is_read(sys.stdout):
            break
        time.sleep(_INTERVAL if end is None else min(_INTERVAL, end.left))
    if trouble:
        raise trouble


def _stamp() -> str:
    return time.strftime("%H:%M:%S")


def _all_news(
    before: dict[tuple[int, int], CrossConnectRow], present: dict[tuple[int, int], CrossConnectRow]
) -> Iterator[tuple[CrossConnectRow, str]]:
    """Yield the cross-connects that came, went or changed, each with what is worth a line."""
    for pair in sorted(before.keys() - present.keys()):
        yield before[pair], f"- {before[pair]}"
    for pair, row in present.items():
        if words := _news(before.get(pair), row):
            yield row, words


def _news(before: CrossConnectRow | None, row: CrossConnectRow) -> str:
    """Return what is worth a line about a cross-connect that is there."""
    if before is None:
        return f"+ {row}  {_level(row, row.light_out)}{row.state}".rstrip()
    if before.state != row.state:
        return f"  {row}  {row.state}"
    was, now = before.light_out, row.light_out
    has_changed = was.light != now.light
    if has_changed or abs((was.dbm or 0.0) - (now.dbm or 0.0)) > _NOTABLE:
        return f"  {row}  {now}, was {was}"
    return ""


def _level(row: CrossConnectRow, reading: Reading) -> str:
    """Return a level in a column that is there when one of the two sides is measured."""
    if row.light_in == row.light_out == NOT_MEASURED:
        return ""
    return f"{reading!s:<13} " if reading.dbm is None else f"{reading!s:>10}    "
