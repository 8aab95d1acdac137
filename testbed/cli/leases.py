"""The commands `who`, `lock` and `unlock`: show leases, take and release them by hand."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from testbed.bench.lease_resources import named
from testbed.cli.app import JsonOption, LabOption, TwinOption, app, argument, print_json, seconds_of
from testbed.cli.completion import resources
from testbed.cli.lease_stores import leases_of
from testbed.cli.twins import inside_twin, named_lab
from testbed.commands import typed
from testbed.errors import UsageError
from testbed.record.claim_registry import ClaimStatus
from testbed.record.lease_rules import format_resources

_LONGEST = 90 * 86400.0
"""Seconds for which a lock may keep others off: nothing is held for ever."""

Resources = Annotated[
    list[str],
    argument(
        "RESOURCE", "Hosts, instruments, ports or outlets: h0 ocs ocs.1 ocs.5-8 pdu.3", resources
    ),
]


@app.command(epilog="Examples: testbed who; testbed who --lab rack --json")
def who(lab: LabOption = "", twin: TwinOption = "", json: JsonOption = False) -> int:
    """Show who has leased which resources, on this machine or on a lab's lease server."""
    if twin:
        return inside_twin(twin, *named_lab(lab, twin), [])
    found = leases_of(named_lab(lab)[0] if lab else None).find()
    if json:
        print_json([_row(one) for one in found])
    elif not found:
        print("nothing is leased")
    else:
        _print_claims(found)
    return 0


@app.command(epilog="Example: testbed lock ocs.1 ocs.17 h0 --lab rack --reason cleaning --for 2h")
def lock(
    resource: Resources,
    reason: Annotated[str, typer.Option(help="Why, for users who want them meanwhile.")],
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="How long, as 2h or 30min.")],
    lab: LabOption = "",
    twin: TwinOption = "",
) -> int:
    """Lease parts of a lab, also against your own runs, until you unlock them or time is up."""
    found, file = named_lab(lab, twin)
    seconds = _seconds(for_)
    if not (reason.strip() and reason.isprintable()):  # others read it on their terminals
        raise UsageError(f"--reason: {reason!r} is not a sentence in one line")
    if twin:
        return inside_twin(twin, found, file, [])
    leases_of(found).lock(named(found, resource), reason, seconds)
    until = utc_of(time.time() + seconds)
    print(f"locked until {until}: {', '.join(dict.fromkeys(resource))}")
    return 0


@app.command(epilog="Example: testbed unlock ocs.1 ocs.17 --lab rack --force")
def unlock(
    resource: Resources,
    lab: LabOption = "",
    twin: TwinOption = "",
    force: Annotated[
        bool, typer.Option("--force", help="Take them from their holder; this is recorded.")
    ] = False,
) -> int:
    """Release what you locked, or with --force the leases of others, whose runs then end."""
    found, file = named_lab(lab, twin)
    if twin:
        return inside_twin(twin, found, file, [])
    hit = leases_of(found).unlock(named(found, resource), forced=force)
    for claim in hit:
        print(f"unlocked: {format_resources(claim.resources)}, {claim.holder}")
    if not hit:
        print("there is no lease of that")
    return 0


def _seconds(text: str) -> float:
    seconds = seconds_of("--for", text)
    if not 0 < seconds <= _LONGEST:
        raise UsageError(f"--for: {text!r} is not a duration above 0 s and up to 90 days")
    return seconds


def _row(found: ClaimStatus) -> dict[str, Any]:
    claim = found.claim
    holder = {key: getattr(claim.holder, key) for key in claim.holder.__slots__}
    resources = [
        {"name": r.name, "box": r.box, "part": r.part or None} for r in sorted(claim.resources)
    ]
    ends = {"standing": found.standing, "expires": utc_of(claim.expires)}
    return {**ends, **holder, "resources": resources}


def _print_claims(found: list[ClaimStatus]) -> None:
    """Print one line for each claim, with its resources and reason below."""
    for one in found:
        print(f"{one.claim.holder}{_note(one)}")
        print(f"    {format_resources(one.claim.resources) or 'nothing'}")


def _note(found: ClaimStatus) -> str:
    """Return what a line must add to the holder's words."""
    if found.standing == "unrecovered":
        command = typed("recover", found.claim.holder.directory)
        return f"; ended and left something changed: {command}"
    if found.standing == "ended":
        return "; over, and free for the next one"
    return "" if found.claim.holder.pid else f"; until {utc_of(found.claim.expires)}"


def utc_of(moment: float) -> str:
    """Return an instant of a lease store as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
