"""The command `propius`: serve one part of what jobs share clients by, or show a trace of these."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from testbed.cli.app import address_of, app, seconds_of
from testbed.errors import UsageError

_ROLES = "job-manager, client-manager, scheduler, balancer, root or leaf; or trace."
_FILES = (
    "Of a trace: a file of FedScale's form, JSON or pickle, with capacity and availability of each "
    "client; or one with the capacity and one with the availability."
)
_STORE = (
    "The records that all share: a file, or redis://…. Without it a file that all services of "
    "yours on this machine share, in $XDG_STATE_HOME/testbed or ~/.local/state/testbed."
)


@app.command(epilog="Example: testbed propius job-manager --store records.db --for 1s")
def propius(
    role: Annotated[str, typer.Argument(metavar="ROLE", help=_ROLES)],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help=_FILES, show_default=False)
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where it is called; port 0 is any.")
    ] = "127.0.0.1:0",
    store: Annotated[
        str,
        typer.Option(metavar="URL", help=_STORE, show_default=False),
    ] = "",
    policy: Annotated[
        str, typer.Option(help="Of a scheduler: how it decides who is offered what.")
    ] = "fifo",
    managers: Annotated[
        str, typer.Option(metavar="HOST:PORT,…", help="Of a balancer: the client managers.")
    ] = "",
    root: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Of a leaf: where its root is called.")
    ] = "",
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="End after so long.", show_default=False)
    ] = "",
    seed: Annotated[
        int | None, typer.Option(help="Of a trace: draw it from a seed.", show_default=False)
    ] = None,
    clients: Annotated[int, typer.Option(help="Of a trace with a seed: how many.")] = 1_000,
    as_json: Annotated[bool, typer.Option("--json", help="Of a trace: print JSON.")] = False,
) -> None:
    """Serve a part of Propius (arXiv 2510.19617): many jobs that share many clients.

    Services speak gRPC, with health checks and reflection, and without encryption: use a network
    that you trust. `testbed propius trace` serves nothing: it shows when the clients of a trace are
    there and how fast they are, and the SHA-256 of the trace.
    """
    if role == "trace":
        from testbed.cli.client_traces import show_trace

        show_trace(files or (), seed, clients, as_json)
        return
    _serve(role, files or (), listen, store, policy, managers, root, for_)


def _serve(
    role: str,
    files: Sequence[str],
    listen: str,
    store: str,
    policy: str,
    managers: str,
    root: str,
    for_: str,
) -> None:
    """Serve a role until its time is over; raise UsageError for what cannot be served."""
    try:
        from testbed.propius.opening import own_store
        from testbed.propius.serve import ON_STORE, ROLES, serving
    except ImportError as error:
        raise UsageError(
            f"the services of Propius need a library that is not installed: {error}",
            hint="pip install 'optical-testbed[propius]'",
        ) from error
    if role not in ROLES:
        raise UsageError(f"unknown role {role!r}", hint=f"known: {', '.join(ROLES)}, trace")
    if files:
        raise UsageError(f"a {role} takes no files, and {files[0]!r} is one", hint="leave it out")
    end = seconds_of("--for", for_) if for_ else None
    names = [name for name in managers.split(",") if name]
    given = [("--listen", listen), *(("--managers", name) for name in names), ("--root", root)]
    for option, text in given:
        if text:
            address_of(option, text)
    if role in ON_STORE and not store:
        print(f"the records of the {role} are in {(store := own_store())}")
    with serving(role, listen, store, policy, names, root) as where:
        print(f"the {role} listens at {where}; Ctrl-C ends it", flush=True)
        threading.Event().wait(end)
