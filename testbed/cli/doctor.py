"""The verb that asks everything in a lab how it is: doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    ResultsOption,
    TwinOption,
    app,
    lab_file,
    print_json,
)
from testbed.cli.twins import inside_twin
from testbed.errors import EXIT_LAB, UsageError
from testbed.schema import load_lab

if TYPE_CHECKING:
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
