"""The SCPI dialect, device side: lines in, replies out, errors in a queue.

Manners: headers in any case, in short or long form, joined with `;` and going on from the path of
the one before; setters are silent; replies of one line are joined with `;`; an error is queued,
not said, and the rest of the line is still carried out. Error numbers are those of SCPI-99
volume 2 chapter 21; which ones a given box uses is known only from the box.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from testbed.bench.contracts import Scheduler
from testbed_drivers.faults_at_far_end import Armed, ArmedFaults
from testbed_drivers.scpi_syntax import Command, commands, pattern

FAULTS = {
    "silent": "carries out the line and does not answer",
    "late": "answers after `delay` seconds, and so does everything after it on this line",
    "garbled": "answers with its last byte broken",
    "error": "refuses a command, though not a query, with an error in the queue",
}
"""What every SCPI far end can be told to do wrong."""

Handler = Callable[[str], str | None]
"""Carries out a command with its argument; returns the reply of a query, None for a setter."""


class Refused(Exception):
    """Carry the error number and words that go into the queue."""

    def __init__(self, number: int, words: str) -> None:
        super().__init__(words)
        self.number = number
        self.words = words


class ErrorQueue:
    """First in, first out; when full, the newest gives way to `Queue overflow`."""

    LENGTH = 16

    def __init__(self) -> None:
        self._rows: deque[str] = deque()

    def put(self, number: int, words: str) -> None:
        """Queue an error."""
        if len(self._rows) == self.LENGTH:
            self._rows.pop()
            number, words = -350, "Queue overflow"
        self._rows.append(f'{number}, "{words}"')

    def take(self) -> str:
        """Return the oldest error and forget it."""
        return self._rows.popleft() if self._rows else '0, "No error"'

    def take_all(self) -> str:
        """Return all errors and forget them."""
        rows = [self.take() for _ in range(max(1, len(self._rows)))]
        return ",".join(rows)

    def clear(self) -> None:
        """Forget all errors."""
        self._rows.clear()


class ScpiFarEnd:
    """An instrument that answers SCPI; its clients share its state and its error queue.

    `table` maps headers in SCPI spelling to handlers, which run one at a time, under `lock`.
    `ends` returns what ends a reply, given whether the client came over a serial line.
    """

    def __init__(
        self,
        identity: str,
        table: Mapping[str, Handler],
        faults: Mapping[str, str],
        ends: Callable[[bool], bytes],
        scheduler: Scheduler,
        seed: int,
    ) -> None:
        self.lock = threading.RLock()
        self.faults = ArmedFaults({**FAULTS, **faults}, seed)
        self.scheduler = scheduler
        self._errors = ErrorQueue()
        self._ends = ends
        common: dict[str, Handler] = {
            "*IDN?": lambda _: identity,
            "*OPC?": lambda _: "1",
            "*CLS": lambda _: self._errors.clear(),
            "SYSTem:ERRor?": lambda _: self._errors.take(),
            "SYSTem:ERRor:ALL?": lambda _: self._errors.take_all(),
        }
        self._table = [(pattern(header), act) for header, act in {**common, **table}.items()]

    def session(self, send: Callable[[bytes], None], *, serial: bool = False) -> ScpiSession:
        """Open a conversation whose replies go to `send`."""
        return ScpiSession(self, send, self._ends(serial))

    def fault(self, name: str, **scope: Any) -> None:
        """Misbehave from now on as `name` says, within `scope` (the fields of `Armed`)."""
        self.faults.arm(Armed(name, **scope))

    def clear(self, name: str = "") -> None:
        """End one fault, or all of them."""
        self.faults.clear(name)

    def execute(self, line: str) -> str:
        """Carry out one line; return its replies joined, or an empty string."""
        with self.lock:
            replies = [self._execute(command) for command in commands(line)]
        return ";".join(reply for reply in replies if reply is not None)

    def _execute(self, command: Command) -> str | None:
        try:
            return self._handler(command)(command.argument)
        except Refused as refused:
            self._errors.put(refused.number, refused.words)
            return None

    def _handler(self, command: Command) -> Handler:
        for header, handler in self._table:
            if header.fullmatch(command.header):
                if not command.header.endswith("?") and self.faults.strikes(
                    "error", command.header
                ):
                    raise Refused(-200, "Execution error")
                return handler
        raise Refused(-113, "Undefined header")


class ScpiSession:
    """One client's line: bytes to lines, and replies back at their time."""

    def __init__(self, far_end: ScpiFarEnd, send: Callable[[bytes], None], end: bytes) -> None:
        self._far_end = far_end
        self._send = send
        self._end = end
        self._begun = b""
        self._busy_until = 0.0

    def receive(self, data: bytes) -> None:
        """Take bytes in any pieces; a line ends with CR, LF or both."""
        *lines, self._begun = re.split(rb"[\r\n]+", self._begun + data)
        for line in lines:
            self._answer(line.decode("ascii", "replace"))

    def _answer(self, line: str) -> None:
        faults, scheduler = self._far_end.faults, self._far_end.scheduler
        reply = self._far_end.execute(line)
        if not reply or faults.strikes("silent", line):
            return
        data = reply.encode("ascii") + self._end
        if faults.strikes("garbled", line):
            data = data[: -len(self._end) - 1] + b"\xff" + self._end
        if late := faults.strikes("late", line):
            self._busy_until = scheduler.now() + late.delay
        if self._busy_until > scheduler.now():
            scheduler.call_at(self._busy_until, lambda: self._send(data))
        else:
            self._send(data)
