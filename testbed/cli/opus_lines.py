"""What the command `opus` prints of the conversations that it has: text, or JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.clock import utc
from testbed.rails.stage import Stage

if TYPE_CHECKING:
    from testbed.opus.communicators import Answered
    from testbed.rails.rail import Move
    from testbed.record.log import EventLog


class OpusLines:
    """Prints answers on standard output, and why lines ended on standard error.

    With `json`, standard output has a JSON object a line for both.
    """

    def __init__(self, label: str, *, json: bool, log: EventLog | None = None) -> None:
        self._label, self._json, self._log = label, json, log
        self.answers = 0
        self.changes = 0

    def listening_to_shims(self, host: str, port: int) -> None:
        """Say where shims may connect to."""
        address = f"{host}:{port}"
        self._listening(f"shims may connect to {address}", address=address)

    def listening_to_controller(self, paths: Sequence[Path]) -> None:
        """Say where the authors' controller finds the workers of rails."""
        sockets = [str(path) for path in paths]
        self._listening(f"their controller finds rails at {', '.join(sockets)}", sockets=sockets)

    def _listening(self, text: str, **where: Any) -> None:
        if self._json:
            self._object("listening", label=self._label, **where)
        else:
            print(f"{text} ({self._label}); Ctrl-C ends it", flush=True)

    def said(self, line: str) -> None:
        """Say why a line ended, or what failed."""
        if self._json:
            self._object("note", text=line)
        print(f"{utc()}  {line}", file=sys.stderr, flush=True)
        if self._log is not None:
            self._log.append("note", "opus", text=line)

    def answered(self, one: Answered) -> None:
        """Say that ranks were told of a stage, and how long after the last of them had asked."""
        said, move = one.said, one.move
        self.answers += 1
        self.changes += one.changed
        about = {"rail": one.rail, "id": said.id, "number": said.number, "counter": said.counter}
        about |= {"asked": one.asked, "ranks": one.ranks, "changed": one.changed}
        if self._json:
            self._object("answer", **about, seconds=round(one.seconds, 6), **_circuits(move))
        else:
            asked = (
                f"number {said.number}, counter {said.counter}, {one.asked} of {one.ranks} asked"
            )
            what = "changed" if one.changed else "unchanged"
            took = f"{what}, answered after {one.seconds * 1e3:.1f} ms"
            print(f"rail {one.rail}  {said.id[:8]}  {asked}: {took}{_shown(move)}", flush=True)
        if self._log is not None:
            stage = Stage(said.id[:8], said.counter, one.hosts)
            row = [stage.group, stage.number, stage.ranks, stage.place]
            seconds = one.seconds if one.changed else 0.0
            rail, changed = f"rail{one.rail}", one.changed
            self._log.append(
                "stage.lit", stage.group, rail=rail, stage=row, changed=changed, seconds=seconds
            )

    def _object(self, kind: str, **fields: Any) -> None:
        print(json.dumps({"at": utc(), "event": kind, **fields}, ensure_ascii=False), flush=True)


def _circuits(move: Move | None) -> dict[str, Sequence[str]]:
    if move is None:
        return {}
    return {"removed": sorted(map(str, move.remove)), "added": sorted(map(str, move.add))}


def _shown(move: Move | None) -> str:
    signs = {"removed": "-", "added": "+"}
    found = _circuits(move).items()
    return "".join(f"  {signs[key]} {circuit}" for key, listed in found for circuit in listed)
