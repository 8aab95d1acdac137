"""The command `opus`: answer shims as the authors' controller of Opus does, with emulated rails."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.app import app, seconds_of
from testbed.clock import utc
from testbed.errors import LabError, UsageError

_PORT = 1234
"""Where the authors' shims connect to."""


@app.command(epilog="Example: testbed opus --nodes 192.0.2.1,192.0.2.2 --rails 2 --delay 50ms")
def opus(
    nodes: Annotated[
        str, typer.Option(metavar="IP,IP,…", help="The addresses that ranks connect from, by host.")
    ],
    rails: Annotated[int, typer.Option(help="How many rails there are.", min=1, max=64)] = 1,
    delay: Annotated[str, typer.Option(metavar="TIME", help="What a change takes.")] = "0 s",
    listen: Annotated[
        str, typer.Option(metavar="IP:PORT", help="Where shims connect to.")
    ] = f"127.0.0.1:{_PORT}",
    sockets: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where rail workers have their Unix sockets; a new one."),
    ] = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="End after so long.", show_default=False)
    ] = "",
) -> None:
    """Answer the shims of Opus (arXiv 2602.12521) as its controller does, on emulated rails.

    No switch is moved: a word that changes a rail takes the delay. Why a line ended is printed.
    """
    from testbed.opus.server import ControllerServer, WorkerServer

    takes, end = seconds_of("--delay", delay), seconds_of("--for", for_) if for_ else None
    address = _address(listen)
    names = _names(nodes)

    def apply(before: int, word: int) -> None:
        if before != word:
            time.sleep(takes)

    with ExitStack() as stack:
        folder = sockets or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opus-")))
        paths = [folder / f"opus_controller_ipc_{rail}" for rail in range(rails)]
        try:
            for path in paths:
                stack.callback(WorkerServer(path, apply, _print).close)
            server = ControllerServer(address, paths, names, _print)
        except OSError as error:
            raise LabError(f"listening failed: {error}", hint="is another one running?") from error
        stack.callback(server.close)
        host, port = server.address
        print(f"shims may connect to {host}:{port}; Ctrl-C ends it", flush=True)
        threading.Event().wait(end)


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if not names:
        raise UsageError("--nodes names no address", hint="give one for each host, in their order")
    return names


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen: {text!r} is no IP:PORT", hint="write it as 127.0.0.1:1234")
    return host, int(port)


def _print(line: str) -> None:
    print(f"{utc()}  {line}", file=sys.stderr, flush=True)
