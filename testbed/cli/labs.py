"""The verbs that touch a lab by hand: doctor, switch."""

from __future__ import annotations

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
    lab_file,
    print_json,
)
from testbed.cli.twins import inside_twin
from testbed.errors import EXIT_LAB, UsageError
from testbed.schema import load_lab, split_overrides

if TYPE_CHECKING:
    from testbed.bench.byhand import SwitchByHand
    from testbed.bench.doctor import Finding


@app.command(
    epilog="Examples: testbed doctor; testbed doctor rack --twin; "
    "testbed doctor rack --wiring --twin"
)
def doctor(
    lab: Annotated[str, typer.Argument(metavar="[LAB]", help="Lab file or name.")] = "",
    wiring: Annotated[
        bool, typer.Option("--wiring", help="Light each fibre and see where it leads.")
    ] = False,
    twin: TwinOption = "",
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
) -> int:
    """Say whether this machine can be a twin, and whether everything in a lab answers."""
    if not lab and wiring:
        raise UsageError("no lab is named", hint="type: testbed doctor LAB --wiring")
    if not lab:
        from testbed.twin.doctor import examine_machine

        return _print_findings(examine_machine(), json)
    file = lab_file(lab)
    found = load_lab(file)
    if twin:
        return inside_twin(twin, found, file, [])
    if wiring:
        from testbed.cli.wiring import check_wiring

        return check_wiring(found, results, json=json)
    from testbed.bench.doctor import examine

    return _print_findings(examine(found), json)


def _print_findings(findings: list[Finding], json: bool) -> int:
    if json:
        print_json([finding.to_json() for finding in findings])
    else:
        for finding in findings:
            mark = "ok  " if finding.good else "FAIL"
            print(f"{mark} {finding.subject}: {finding.text}")
    return 0 if all(finding.good for finding in findings) else EXIT_LAB


@app.command(
    epilog="Examples: testbed switch ocs show --lab rack; "
    "testbed switch ocs connect h0.p1 h1.p0 --lab rack; testbed switch ocs disconnect 2 19"
)
def switch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The switch, as in the lab file.")],
    action: Annotated[Literal["show", "connect", "disconnect"], typer.Argument(help="What to do.")],
    ports: Annotated[
        list[str] | None,
        typer.Argument(metavar="[A B]", help="Two host ports, or an ingress and an egress."),
    ] = None,
    lab: LabOption = "",
    twin: TwinOption = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
    force: Annotated[
        bool, typer.Option("--force", help="Act although a run holds the switch.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Show a switch's circuits, or connect or disconnect one by hand."""
    if not lab:
        raise UsageError("no lab is named", hint="name one with --lab")
    file = lab_file(lab)
    _, theirs = split_overrides(set_)
    found = load_lab(file, theirs)
    if name not in found.switches:
        raise UsageError(
            f"{name!r} is no switch of lab {found.lab}", hint="known: " + ", ".join(found.switches)
        )
    if twin:
        return inside_twin(twin, found, file, set_)
    from testbed.bench.byhand import parse_ends, switch_by_hand

    with switch_by_hand(found, name, force=force) as box:
        if action == "connect":
            box.connect(parse_ends(found, name, ports or []))
        elif action == "disconnect":
            box.disconnect(parse_ends(found, name, ports or []))
        _print_rows(box, json)
    return 0


def _print_rows(box: SwitchByHand, json: bool) -> None:
    rows = box.rows()
    if json:
        print_json(rows)
        return
    print(f"{box.name}: {box.identity}")
    for row in rows:
        ends = f"{row['from'] or 'unwired'} to {row['to'] or 'unwired'}"
        print(f"  {row['ingress']:>4} → {row['egress']:<4} {ends}")
    print(f"  {len(rows)} cross-connects")
