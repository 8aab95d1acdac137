"""The command `opus`: speak the protocol of Opus, on the rails of a lab or emulated ones."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    LabOption,
    ResultsOption,
    SetOption,
    TwinOption,
    address_of,
    app,
    seconds_of,
)
from testbed.cli.opus_emulated import EMULATED, SOCKETS, EmulatedRails, Side
from testbed.cli.opus_lines import OpusLines
from testbed.cli.twins import inside_twin, named_lab
from testbed.errors import UsageError
from testbed.twin.machine import TWIN_VARIABLE

_PORT = 1234
"""Where the authors' shims connect to."""


_SideArgument = Annotated[
    Side, typer.Argument(help="Whose side: their controller's, or their rail worker's.")
]
_NodesOption = Annotated[
    str,
    typer.Option(
        metavar="IP,IP,…",
        help="The addresses that ranks connect from, by host; those of the lab by default.",
        show_default=False,
    ),
]
_HostsOption = Annotated[
    str,
    typer.Option(metavar="HOST,…", help="The lab's hosts, in order; all by default."),
]
_RailsOption = Annotated[
    int | None,
    typer.Option(
        help="How many rails there are: one, or of a lab as many as switches of a host.",
        min=1,
        max=64,
        show_default=False,
    ),
]
_DelayOption = Annotated[
    str, typer.Option(metavar="TIME", help="What a change takes; of a lab, besides its own.")
]
_ListenOption = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where shims connect to.")]
_SocketsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where rail workers have their Unix sockets; /tmp for the worker's side.",
        show_default=False,
    ),
]
_StagesOption = Annotated[
    int | None,
    typer.Option(
        help="Of the worker's side on a lab: how many pipeline stages the hosts are, in order.",
        min=1,
        max=31,
        show_default=False,
    ),
]
_ForOption = Annotated[
    str, typer.Option("--for", metavar="TIME", help="End after so long.", show_default=False)
]


@app.command(
    epilog="Examples: testbed opus controller --nodes 192.0.2.1,192.0.2.2 --rails 2 --delay 50ms; "
    "testbed opus controller --lab rails --listen 0.0.0.0:1234; "
    "testbed opus worker --hosts h0,h1,h2,h3 --stages 2 --twin rails"
)
def opus(
    side: _SideArgument = "controller",
    nodes: _NodesOption = "",
    hosts: _HostsOption = "",
    rails: _RailsOption = None,
    delay: _DelayOption = "0 s",
    listen: _ListenOption = f"127.0.0.1:{_PORT}",
    sockets: _SocketsOption = None,
    stages: _StagesOption = None,
    for_: _ForOption = "",
    lab: LabOption = "",
    twin: TwinOption = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
) -> int:
    """Speak the protocol of Opus (arXiv 2602.12521) with its own shims, or its own controller.

    With a lab or a twin, their words move the circuits of its rails, which are put back at the end;
    without, rails are emulated: a word that changes one takes the delay. Why a line ended is
    printed, and for each stage when it was answered after the last rank had asked.
    """
    takes, end = seconds_of("--delay", delay), seconds_of("--for", for_) if for_ else math.inf
    address, names = address_of("--listen", listen), _names("--nodes", nodes)
    if not lab and not twin and TWIN_VARIABLE not in os.environ:
        emulated = EmulatedRails(rails or 1, takes, end, OpusLines(EMULATED, json=json))
        emulated.serve(side, address, names, sockets)
        return 0
    found, file = named_lab(lab, twin, set_)
    if twin:
        return inside_twin(twin, found, file, set_)
    from testbed.cli.opus_on_lab import OpusOnLab

    on_lab = OpusOnLab(found, _names("--hosts", hosts), rails, takes, end, json=json)
    if side == "controller":
        return on_lab.serve_shims(address, names, results, set_)
    if stages is None:
        raise UsageError(
            "without --stages, the words of a rail do not say which circuits are meant",
            hint="a word has a bit for each pipeline stage: say how many the hosts are",
        )
    return on_lab.serve_controller(sockets or SOCKETS, stages, results, set_)


def _names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if text and not names:
        raise UsageError(f"{option} names nothing", hint="separate names by commas")
    return names
