"""The verb `switch`: look at one switch, and move its light by hand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from testbed.cli.app import JsonOption, LabOption, SetOption, TwinOption, app, lab_file, print_json
from testbed.cli.ending import finishing_first
from testbed.cli.leases import leases_of
from testbed.cli.twins import inside_twin
from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed.schema import Lab, load_circuits, load_lab, split_overrides

if TYPE_CHECKING:
    from testbed.bench.byhand import Row, SwitchByHand
    from testbed.fabric.circuits import CrossConnect

Action = Literal["show", "connect", "disconnect", "plan", "apply", "watch"]

_INTERVAL = 0.5
"""Seconds between two looks."""
_NOTABLE = 1.0
"""dB by which a light level must change to be worth a line."""


@app.command(
    epilog="Examples: testbed switch ocs show --lab rack; "
    "testbed switch ocs connect h0.p1 h1.p0 --lab rack; testbed switch ocs disconnect 2 19; "
    "testbed switch ocs plan wanted.yaml; testbed switch ocs watch --seconds 60"
)
def switch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The switch, as in the lab file.")],
    action: Annotated[Action, typer.Argument(help="What to do.")],
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[A B | FILE]",
            help="Two host ports, or an ingress and an egress; or a list of circuits.",
        ),
    ] = None,
    lab: LabOption = "",
    twin: TwinOption = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
    seconds: Annotated[
        float, typer.Option("--seconds", help="How long to watch; until Ctrl-C by default.")
    ] = 0.0,
    force: Annotated[
        bool, typer.Option("--force", help="Move what others have leased, too.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Show or watch a switch's circuits; connect or disconnect one; plan or apply a list."""
    if not lab:
        raise UsageError("no lab is named", hint="name one with --lab")
    file = lab_file(lab)
    _, theirs = split_overrides(set_)
    found = load_lab(file, theirs)
    if name not in found.switches:
        raise UsageError(
            f"{name!r} is no switch of lab {found.lab}", hint="known: " + ", ".join(found.switches)
        )
    circuits = _circuits(found, name, action, what or [])
    if twin:
        return inside_twin(twin, found, file, set_)
    from testbed.bench.byhand import switch_by_hand

    with switch_by_hand(found, name, leases_of(found), force=force) as box:
        if action == "watch":
            _watch(box, seconds)
        elif action == "plan":
            _print_plan(box, circuits, json)
        else:
            verbs: dict[str, Callable[[frozenset[CrossConnect]], object]] = {
                "connect": box.connect,
                "disconnect": box.disconnect,
                "apply": box.apply,
            }
            if action in verbs:
                with finishing_first():  # a circuit that is half made is nobody's wish
                    verbs[action](circuits)
            _print_rows(box, json)
    return 0


def _circuits(lab: Lab, name: str, action: Action, what: list[str]) -> frozenset[CrossConnect]:
    """Return the cross-connects that the words or the file name; none to show or watch."""
    from testbed.bench.byhand import listed_circuits, parse_ends

    if action in ("show", "watch"):
        if what:
            raise UsageError(f"{action} takes no circuit", hint=f"type: testbed switch {name} show")
        return frozenset()
    if action in ("connect", "disconnect"):
        return parse_ends(lab, name, what)
    if len(what) != 1:
        raise UsageError(f"{action} takes one file", hint=f"type: testbed switch {name} plan FILE")
    return listed_circuits(lab, name, load_circuits(Path(what[0])))


def _print_rows(box: SwitchByHand, json: bool) -> None:
    rows = box.rows()
    if json:
        print_json([row.to_json() for row in rows])
        return
    print(f"{box.name}: {box.identity}")
    for row in rows:
        level_in, level_out = _level(row, row.power_in), _level(row, row.power_out)
        ends = f"{row.source or 'unwired'} to {row.sink or 'unwired'}"
        line = f"  {row.ingress:>4} {level_in}→ {row.egress:<4} {level_out}{ends:<20} {row.state}"
        print(line.rstrip())
    print(f"  {len(rows)} cross-connects")


def _print_plan(box: SwitchByHand, circuits: frozenset[CrossConnect], json: bool) -> None:
    change = box.planned(circuits)
    if json:
        removes, adds = sorted(change.removes.items()), sorted(change.adds.items())
        print_json({"removes": removes, "adds": adds, "disturbs": sorted(change.disturbs)})
    else:
        print(change)


def _watch(box: SwitchByHand, seconds: float) -> None:
    """Print every change of the circuits and their light, as it is seen."""
    end = Deadline.after(seconds) if seconds else None
    before: dict[tuple[int, int], Row] = {}
    print(f"{box.name}: {box.identity}", file=sys.stderr)
    while True:
        present = {(row.ingress, row.egress): row for row in box.rows()}
        stamp = time.strftime("%H:%M:%S")
        for pair in before.keys() - present.keys():
            print(f"{stamp}  - {before[pair]}", flush=True)
        for pair, row in present.items():
            if words := _news(before.get(pair), row):
                print(f"{stamp}  {words}", flush=True)
        before = present
        if end and end.passed:
            return
        time.sleep(_INTERVAL if end is None else min(_INTERVAL, end.left))


def _news(before: Row | None, row: Row) -> str:
    """Return what is worth a line about a cross-connect that is there."""
    level = _level(row, row.power_out)
    if before is None:
        return f"+ {row}  {level}{row.state}".rstrip()
    if before.state != row.state:
        return f"  {row}  {row.state}"
    was, now = before.power_out, row.power_out
    dimmed = (was is None) != (now is None)
    if dimmed or (was is not None and now is not None and abs(was - now) > _NOTABLE):
        return f"  {row}  {level.strip()}, was {_level(before, was).strip()}"
    return ""


def _level(row: Row, level: float | None) -> str:
    if not row.monitored:
        return ""
    return f"{level:6.1f} dBm " if level is not None else "  dark     "
