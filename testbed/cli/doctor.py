"""The command `doctor`: check this machine, and every instrument and host of a lab."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    ResultsOption,
    TwinOption,
    app,
    argument,
    print_json,
)
from testbed.cli.completion import labs
from testbed.cli.file_lookup import LAB_VARIABLE
from testbed.cli.twins import inside_twin, named_lab, with_settle_of_twin
from testbed.errors import EXIT_LAB, UsageError
from testbed.report.waiting_message import waiting
from testbed.schema import Lab

if TYPE_CHECKING:
    from testbed.bench.doctor import Finding


@app.command(
    epilog="Examples: testbed doctor; testbed doctor rack --twin; "
    "testbed doctor rack --wiring --twin; testbed doctor mesh-quad --cells --twin; "
    "testbed doctor my-lab --accept-host-keys"
)
def doctor(
    lab: Annotated[str, argument("[LAB]", "Lab file or name.", labs)] = "",
    wiring: Annotated[
        bool, typer.Option("--wiring", help="Light each fibre and see where it leads.")
    ] = False,
    cells: Annotated[
        bool, typer.Option("--cells", help="Find stuck cells of photonic meshes by their light.")
    ] = False,
    accept_host_keys: Annotated[
        bool,
        typer.Option(
            "--accept-host-keys", help="Show the keys of SSH servers, and trust new ones."
        ),
    ] = False,
    twin: TwinOption = "",
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
) -> int:
    """Check whether this machine can run a twin, and whether all devices of a lab answer."""
    is_named = lab or twin or os.environ.get(LAB_VARIABLE)
    options = {"--wiring": wiring, "--cells": cells, "--accept-host-keys": accept_host_keys}
    option = _chosen([name for name, is_chosen in options.items() if is_chosen])
    if not is_named and option:
        raise UsageError("no lab is given", hint=f"name it: testbed doctor rack {option}")
    if not is_named:
        from testbed.twin.doctor import examine_machine

        return _print_findings(examine_machine(), json)
    found, file = named_lab(lab, twin)
    if twin:
        return inside_twin(twin, found, file, [])
    if accept_host_keys:
        return _accept_host_keys(found, json)
    if wiring:
        from testbed.cli.wiring import check_wiring

        return check_wiring(with_settle_of_twin(found), results, json=json)
    if cells:
        from testbed.cli.cells import check_cells

        return check_cells(with_settle_of_twin(found), results, json=json)
    return _examine(found, results, json)


def _chosen(checks: list[str]) -> str:
    """Return the check that is chosen in place of the usual one; raise UsageError for several."""
    if len(checks) > 1:
        raise UsageError(f"{' and '.join(checks)} are different checks", hint="give one of them")
    return checks[0] if checks else ""


def _examine(lab: Lab, results: Path, json: bool) -> int:
    """Ask every instrument and host of a lab, and print the answers."""
    from testbed.bench.doctor import Finding, examine
    from testbed.bench.health import troubles_of_results

    full = [Finding("results", False, trouble) for trouble in troubles_of_results(results)]
    with waiting(f"asking everything in lab {lab.lab}", sys.stderr):
        findings = examine(lab)
    return _print_findings([*findings, *full], json)


def _accept_host_keys(lab: Lab, json: bool) -> int:
    """Show the key of every SSH server; trust the new ones, at a terminal after a question."""
    from testbed.bench.doctor import Finding
    from testbed.bench.host_keys import ShownKey, accept, shown_keys
    from testbed.bench.ssh import changed_hint

    findings, new = [], []
    for subject, key in shown_keys(lab).items():
        if not isinstance(key, ShownKey):
            findings.append(Finding(subject, False, str(key)))
        elif key.state == "changed":
            findings.append(Finding(subject, False, f"{key}; {changed_hint(key.server)}"))
        else:
            findings.append(Finding(subject, True, f"{key}, {key.state}"))
            new += [key] if key.state == "unknown" else []
    code = _print_findings(findings, json)
    files = sorted({str(key.server.known_hosts[0]) for key in new})
    asks = f"Trust {len(new)} new keys? They go to {', '.join(files)}"
    if new and sys.stdin.isatty() and not typer.confirm(asks, err=True):
        return EXIT_LAB
    accept(new)
    if new:
        print(f"{len(new)} new keys are in {', '.join(files)}", file=sys.stderr)
    return code


def _print_findings(findings: list[Finding], json: bool) -> int:
    if json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            mark = "ok  " if finding.good else "FAIL"
            print(f"{mark} {finding.subject}: {finding.text}")
    return 0 if all(finding.good for finding in findings) else EXIT_LAB
