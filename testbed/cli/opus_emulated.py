"""Emulated rails for the command `opus`: a word that changes one takes a while."""

from __future__ import annotations

import math
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from testbed.cli.opus_lines import OpusLines
from testbed.errors import LabError, UsageError

if TYPE_CHECKING:
    from testbed.opus.server import ControllerServer

EMULATED = "emulated"
"""The label of what comes of it."""
SOCKETS = Path("/tmp")  # noqa: S108 - where the authors' controller looks for workers

Side = Literal["controller", "worker"]


@dataclass(frozen=True, slots=True)
class EmulatedRails:
    """Rails, the seconds that a change of one takes, and for how long they are served."""

    rails: int
    takes: float
    seconds: float
    lines: OpusLines

    def serve(
        self, side: Side, address: tuple[str, int], nodes: list[str], sockets: Path | None
    ) -> None:
        """Answer shims at an address, or their controller at the sockets, until it is over.

        `nodes` are the addresses of the hosts of shims. Raise LabError where nothing can listen.
        """
        if side == "controller" and not nodes:
            hint = "give one for each host, in their order, or name a lab with --lab"
            raise UsageError("--nodes names no address", hint=hint)
        with ExitStack() as stack:
            if sockets is None and side == "controller":
                made = stack.enter_context(tempfile.TemporaryDirectory(prefix="opus-"))
                sockets = Path(made)
            folder = sockets or SOCKETS
            paths = [folder / f"opus_controller_ipc_{rail}" for rail in range(self.rails)]
            try:
                self._listen(side, address, nodes, paths, stack)
            except OSError as error:
                hint = "see --listen and --sockets; is another one running?"
                raise LabError(f"listening failed: {error}", hint=hint) from error
            stack.callback(self.lines.finish)
            threading.Event().wait(None if self.seconds == math.inf else self.seconds)

    def _listen(
        self,
        side: Side,
        address: tuple[str, int],
        nodes: list[str],
        paths: list[Path],
        stack: ExitStack,
    ) -> None:
        from testbed.opus.server import WorkerServer

        for rail, path in enumerate(paths):
            record = partial(self.lines.word, rail) if side == "worker" else _drop
            worker = WorkerServer(path, self._apply, self.lines.said, record=record)
            stack.callback(worker.close)
        if side == "controller":
            server = self._controller(address, nodes, paths)
            stack.callback(server.close)
            self.lines.listening_to_shims(*server.address)
        else:
            self.lines.listening_to_controller(paths)

    def _apply(self, before: int, word: int) -> None:
        if before != word:
            time.sleep(self.takes)

    def _controller(
        self, address: tuple[str, int], nodes: list[str], paths: list[Path]
    ) -> ControllerServer:
        from testbed.cli.opus_nodes import host_at
        from testbed.opus.controller_side import ControllerSide
        from testbed.opus.rail_actions import WorkerSockets
        from testbed.opus.server import ControllerServer
        from testbed.opus.word_rails import WordRails

        side = ControllerSide(WordRails(self.rails), host_at(nodes))
        tell = self.lines.said, self.lines.answered
        return ControllerServer(address, side, WorkerSockets(paths), *tell)


def _drop(before: int | None, word: int, seconds: float) -> None:
    """Say nothing of words that our own controller has sent."""
