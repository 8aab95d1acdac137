"""The job `program`: a rank runs an ordinary program, monitors it and records its output.

All ranks start it together, once their circuits carry data. On rails they do not wait for each
other, and what the program says of its stages is passed on. It runs under a supervisor
(`supervisor.py`), so that no process of it outlives the rank. Its output is sent as events
`output`: the beginning at once, the end when it is over, and the amount left out between. Its end
is sent as `program.end`.
"""

from __future__ import annotations

import inspect
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Union

from ..communication.control import Control
from ..communication.mesh import MeshGroups
from ..communication.rails import RailMesh
from ..communication.ring import Ring
from ..communication.script_line import RAILS, RailRelay
from ..errors import Refused
from . import supervisor
from .state import State

HEAD, TAIL = 512 << 10, 256 << 10
"""Bytes of each stream that are passed on as they come, and at the end of it."""

LONGEST_LINE = 16 << 10
REPORT = "report"
"""The name, beside `stdout` and `stderr`, of the file that a program was asked to write."""

_PERIOD = 0.05
_PIECE = 1 << 16
_PRINTABLE = {code: "?" for code in (*range(32), 127, 0xFFFD) if code not in (9, 10)}


class Job:
    """Runs `argv`, or nothing on a rank without one, and reports the result.

    In `argv`, `{report}` stands for the path of a report file, if the program writes one; the
    supervisor creates a directory for it.
    """

    connects_to = "neighbours"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        self._groups: Mapping[str, Sequence[Sequence[int]]] = options.get("groups", {})
        self._in_pairs: Mapping[str, Any] = options.get("in_pairs", {})
        self._argv: Sequence[str] = options["argv"]
        self._environment: Mapping[str, str] = options["environment"]
        self._ranks = ranks
        self.state = State(0)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Do nothing, as a program warms up by itself."""

    def run(self, communicator: Union[Ring, MeshGroups], control: Control) -> None:
        """Run the program from beginning to end, together with those of the other ranks."""
        if not isinstance(communicator, RailMesh):
            communicator.barrier()
            self._run(communicator.raise_if_left, control, self._environment)
            return
        if communicator.may_be_forwarded:
            raise Refused("connections of a script cannot be forwarded over other rails")
        _prefer_routes(communicator, control)
        relay = RailRelay(control, self._greeting(communicator))
        try:
            environment = {**self._environment, RAILS: relay.name}
            self._run(communicator.raise_if_left, control, environment)
        finally:
            relay.close()

    def _greeting(self, mesh: RailMesh) -> Mapping[str, Any]:
        """Return what the program is told of the rails."""
        groups = {
            f"{dimension}{number}": ranks
            for dimension, every in self._groups.items()
            for number, ranks in enumerate(every)
        }
        told = {"generation": mesh.generation, "rank": mesh.rank, "hosts": mesh.hosts}
        ports = [asdict(port) for port in mesh.ports]
        in_pairs = {
            f"{dimension}{number}": schedules
            for dimension, schedules in self._in_pairs.items()
            for number in range(len(self._groups[dimension]))
        }
        return {**told, "groups": groups, "ports": ports, "in_pairs": in_pairs}

    def _run(
        self,
        raise_if_left: Callable[[], None],
        control: Control,
        environment: Mapping[str, str],
    ) -> None:
        if not self._argv:
            return
        begun = time.monotonic()
        control.emit("program.begin", begun, argv=self._argv)
        running = _Running(self._argv, environment, control)
        try:
            running.watch(raise_if_left)
        finally:
            end = running.end()
            _pass_on(end.pop(REPORT, ""), control)
            control.emit("program.end", seconds=time.monotonic() - begun, **end)


def _prefer_routes(mesh: RailMesh, control: Control) -> None:
    """Have libraries that bind to no interface reach each rank by the port that leads to it.

    A host with one port has no other. Raise Left; Refused where the agent may not set routes.
    """
    ports = mesh.hosts.count(mesh.hosts[mesh.rank]) * len(mesh.ports)
    if ports > 1 and all(interface for interface, _ in mesh.routes):
        control.prefer_routes(mesh.generation, mesh.routes)


def _pass_on(report: str, control: Control) -> None:
    """Pass on what the program wrote to the file that it was given."""
    text = report.translate(_PRINTABLE)
    for start in range(0, len(text), _PIECE):
        control.emit("output", stream=REPORT, text=text[start : start + _PIECE])


class _Running:
    """A program under its supervisor, and the three streams from them."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], control: Control
    ) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        held = os.dup(2)
        with theirs:
            self._supervisor = subprocess.Popen(
                [*_supervisor(), str(theirs.fileno()), str(held), *argv],
                pass_fds=(theirs.fileno(), held),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**_inherited(), **environment},
                start_new_session=True,
            )
        os.close(held)
        assert self._supervisor.stdout is not None and self._supervisor.stderr is not None
        self._streams = {
            self._supervisor.stdout.fileno(): _Stream("stdout", control),
            self._supervisor.stderr.fileno(): _Stream("stderr", control),
        }
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
        self._open = set(self._streams)
        self._reports = b""

    def watch(self, raise_if_left: Callable[[], None]) -> None:
        """Forward the output of the program until no process is left that could write any.

        An exception of `raise_if_left` ends the wait.
        """
        is_over = False
        while self._open or not is_over:
            raise_if_left()
            lines = [*self._open, *([] if is_over else [self._line.fileno()])]
            for descriptor in select.select(lines, [], [], _PERIOD)[0]:
                if descriptor not in self._streams:
                    is_over = not self._read_supervisor()
                elif not self._read(descriptor):
                    self._streams[descriptor].close()
                    self._open.discard(descriptor)

    def end(self) -> dict[str, Any]:
        """End the processes that still run; return the supervisor's report on the program."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        while self._read_supervisor():
            pass
        self._supervisor.wait()
        for descriptor in self._open:
            while self._read(descriptor):
                pass
            self._streams[descriptor].close()
        self._line.close()
        result: dict[str, Any] = {"left_out": sum(s.left_out for s in self._streams.values())}
        for line in self._reports.splitlines():
            result.update(json.loads(line))
        return result

    def _read(self, descriptor: int) -> bool:
        """Read a piece of output; tell whether there was one."""
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return False  # a process that could not be killed still holds the other end
        self._streams[descriptor].take(data)
        return bool(data)

    def _read_supervisor(self) -> bool:
        """Read what the supervisor reports; tell whether it may report more."""
        data = self._line.recv(_PIECE)
        self._reports += data
        return bool(data)


class _Stream:
    """One stream of output, in whole lines: its head at once, its tail at its end."""

    def __init__(self, name: str, control: Control) -> None:
        self._name = name
        self._control = control
        self._line = b""
        self._passed = 0
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self._dropped = 0
        self.left_out = 0
        """Bytes that were not passed on: between head and tail, and of lines that are too long."""

    def take(self, data: bytes) -> None:
        """Add a piece of output."""
        *lines, self._line = (self._line + data).split(b"\n")
        head = []
        for line in lines:
            if self._passed + len(line) < HEAD and not self._tail:
                self._passed += len(line) + 1
                head.append(self._shortened(line) + b"\n")
            else:
                self._keep(self._shortened(line) + b"\n")
        self._emit(head)
        if len(self._line) > LONGEST_LINE:
            self.left_out += len(self._line) - LONGEST_LINE - 1
            self._line = self._line[: LONGEST_LINE + 1]

    def close(self) -> None:
        """Send the rest of the output."""
        rest = [self._shortened(self._line)] if self._line else []
        mark = [f"[{self._dropped} bytes left out]\n".encode()] if self._dropped else []
        self._line = b""
        self._emit([*mark, *self._tail, *rest])
        self._tail.clear()

    def _shortened(self, line: bytes) -> bytes:
        if len(line) <= LONGEST_LINE:
            return line
        self.left_out += max(0, len(line) - LONGEST_LINE - 1)
        return line[:LONGEST_LINE] + b" ..."

    def _keep(self, line: bytes) -> None:
        self._tail.append(line)
        self._kept += len(line)
        while self._kept > TAIL:
            lost = len(self._tail.popleft())
            self._kept -= lost
            self._dropped += lost
            self.left_out += lost

    def _emit(self, lines: Sequence[bytes]) -> None:
        if lines:
            text = b"".join(lines).decode(errors="replace").translate(_PRINTABLE)
            self._control.emit("output", stream=self._name, text=text)


def _inherited() -> dict[str, str]:
    """Return this rank's environment without what only its own arithmetic needs."""
    return {name: value for name, value in os.environ.items() if name not in _OF_NUMPY}


_OF_NUMPY = [f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL")]


def _supervisor() -> list[str]:
    """Return the command of a supervisor, whose source travels in the same archive as this."""
    return [sys.executable, "-I", "-S", "-c", inspect.getsource(supervisor)]
