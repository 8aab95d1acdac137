"""What the command `opus` prints of the conversations that it has: text, or JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from testbed.clock import utc
from testbed.rails.stage import Stage
from testbed.report.non_blocking_writer import PATIENCE, NonBlockingWriter

if TYPE_CHECKING:
    from testbed.fabric.circuits import Matching
    from testbed.opus.communicators import Answered
    from testbed.record.log import EventLog


class OpusLines:
    """Prints answers on standard output, and why lines ended on standard error.

    With `json`, standard output has a JSON object a line for both. Nobody waits for its reader.
    """

    def __init__(self, label: str, *, json: bool, log: EventLog | None = None) -> None:
        self._label, self._json, self._log = label, json, log
        self._out, self._err = NonBlockingWriter(sys.stdout), NonBlockingWriter(sys.stderr)
        self.is_listening = False
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

    def finish(self) -> None:
        """Give the readers of what was printed a moment."""
        for writer in (self._out, self._err):
            writer.flush(PATIENCE)

    def _listening(self, text: str, **where: Any) -> None:
        self.is_listening = True
        if self._json:
            self._object("listening", label=self._label, **where)
        else:
            self._out.write(f"{text} ({self._label}); Ctrl-C ends it\n")

    def said(self, line: str) -> None:
        """Say why a line ended, or what failed."""
        if self._json:
            self._object("note", text=line)
        self._err.write(f"{utc()}  {line}\n")
        if self._log is not None:
            self._log.append("note", "opus", text=line)

    def answered(self, one: Answered) -> None:
        """Say that ranks were told of a stage, and how long after the last of them had asked."""
        said = one.said
        circuits = moved(one.move.remove, one.move.add) if one.move is not None else {}
        self.answers += 1
        self.changes += one.changed
        about = {"rail": one.rail, "id": said.id, "number": said.number, "counter": said.counter}
        about |= {"asked": one.asked, "ranks": one.ranks, "changed": one.changed}
        if self._json:
            self._object("answer", **about, seconds=round(one.seconds, 6), **circuits)
        else:
            asked = (
                f"number {said.number}, counter {said.counter}, {one.asked} of {one.ranks} asked"
            )
            what = "changed" if one.changed else "unchanged"
            took = f"{what}, answered after {one.seconds * 1e3:.1f} ms"
            self._out.write(f"rail {one.rail}  {said.id[:8]}  {asked}: {took}{_shown(circuits)}\n")
        if self._log is not None:
            stage = Stage(said.id[:8], said.counter, one.hosts)
            row = [stage.group, stage.number, stage.ranks, stage.place]
            seconds = one.seconds if one.changed else 0.0
            rail, changed = f"rail{one.rail}", one.changed
            self._log.append(
                "stage.lit", stage.group, rail=rail, stage=row, changed=changed, seconds=seconds
            )

    def word(
        self,
        rail: int,
        before: int | None,
        word: int,
        seconds: float,
        circuits: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Say that a rail has a word, and how long after it came that was answered."""
        changed = word != before
        self.answers += 1
        self.changes += changed
        if self._json:
            about = {"rail": rail, "before": before, "word": word, "changed": changed}
            self._object("word", **about, seconds=round(seconds, 6), **circuits)
        else:
            what = "changed" if changed else "unchanged"
            took = f"{what}, answered after {seconds * 1e3:.1f} ms"
            self._out.write(f"rail {rail}  word {word}: {took}{_shown(circuits)}\n")
        if self._log is not None:
            took = f"answered after {seconds * 1e3:.1f} ms"
            self._log.append("note", f"rail{rail}", text=f"word {word} after {before}, {took}")

    def _object(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"at": utc(), "event": kind, **fields}, ensure_ascii=False)
        self._out.write(f"{line}\n")


def moved(removed: Matching, added: Matching) -> dict[str, Sequence[str]]:
    """Return circuits as they are printed."""
    return {"removed": sorted(map(str, removed)), "added": sorted(map(str, added))}


def _shown(circuits: Mapping[str, Sequence[str]]) -> str:
    signs = {"removed": "-", "added": "+"}
    return "".join(f"  {signs[key]} {one}" for key, listed in circuits.items() for one in listed)
