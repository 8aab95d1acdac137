"""The SCPI dialect, device side: lines in, replies out, errors in a queue.

Behaviour: headers in any case, in short or long form, joined with `;` and continuing from the path
of the previous one; set commands have no reply; replies of one line are joined with `;`; an error
is queued without a reply, and the rest of the line is still carried out. Error numbers are those of
SCPI-99 volume 2 chapter 21; which ones a given device uses is known only from the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping

from testbed.bench.sites import Site
from testbed_drivers.dialects.armed_faults import ArmedFault
from testbed_drivers.dialects.client_connection import ClientConnection, LineSession
from testbed_drivers.dialects.far_end import ORDER_FAULTS, FarEnd
from testbed_drivers.dialects.scpi_syntax import Command, commands, pattern

FAULTS = {
    **ORDER_FAULTS,
    "stale": "has an error of another client in its queue",
    "overflow": "has its error queue filled up by another client",
}
"""What every SCPI far end can be told to do wrong beyond the faults of any connection."""

Handler = Callable[[str], str | None]
"""Carries out a command with its argument; returns the reply of a query, None for a setter."""


class Refused(Exception):
    """An error with the number and text for the error queue."""

    def __init__(self, number: int, words: str) -> None:
        super().__init__(words)
        self.number = number
        self.words = words


class ErrorQueue:
    """A first-in, first-out queue; when it is full, the newest error becomes `Queue overflow`."""

    LENGTH = 16

    def __init__(self) -> None:
        self._rows: deque[str] = deque()

    @property
    def is_full(self) -> bool:
        """Return whether the queue is full."""
        return len(self._rows) == self.LENGTH

    def put(self, number: int, words: str) -> None:
        """Add an error to the queue."""
        if self.is_full:
            self._rows.pop()
            number, words = -350, "Queue overflow"
        self._rows.append(f'{number}, "{words}"')

    def take(self) -> str:
        """Return and remove the oldest error."""
        return self._rows.popleft() if self._rows else '0, "No error"'

    def take_all(self) -> str:
        """Return and remove all errors."""
        rows = [self.take() for _ in range(max(1, len(self._rows)))]
        return ",".join(rows)

    def clear(self) -> None:
        """Remove all errors."""
        self._rows.clear()


class ScpiFarEnd(FarEnd):
    """An instrument that answers SCPI; its clients share its state and its error queue.

    `table` maps headers in SCPI spelling to handlers, which run one at a time, under `lock`.
    `end` ends a reply.
    """

    def __init__(
        self,
        identity: str,
        table: Mapping[str, Handler],
        faults: Mapping[str, str],
        site: Site,
        end: bytes = b"\n",
        errors: ErrorQueue | None = None,
    ) -> None:
        super().__init__({**FAULTS, **faults}, site)
        self.at_once |= {"stale": self._go_stale, "overflow": self._fill}
        self._identity = identity
        self._errors = errors or ErrorQueue()
        self.end = end
        common: dict[str, Handler] = {
            "*IDN?": lambda _: self._identity,
            "*OPC?": lambda _: "1",
            "*CLS": lambda _: self._errors.clear(),
            "SYSTem:ERRor?": lambda _: self._errors.take(),
            "SYSTem:ERRor:ALL?": lambda _: self._errors.take_all(),
        }
        self._always = {common["*IDN?"], common["SYSTem:ERRor?"], common["SYSTem:ERRor:ALL?"]}
        self._others: list[ScpiFarEnd] = []
        self._table = [(pattern(header), act) for header, act in {**common, **table}.items()]

    def join(self, other: ScpiFarEnd) -> None:
        """Serve another element of the same controller, too.

        Each element keeps its own faults, except for those of the connection, which are this far
        end's.
        """
        other._errors, other._connections = self._errors, self._connections
        self._others.append(other)

    def _conversation(self, connection: ClientConnection) -> LineSession:
        return LineSession(connection, lambda line: self._reply(line, connection.end))

    def execute(self, line: str) -> str:
        """Execute one line; return its replies joined, or an empty string."""
        with self.lock:
            replies = [self._execute(command) for command in commands(line)]
        return ";".join(reply for reply in replies if reply is not None)

    def _reply(self, line: str, end: bytes) -> bytes:
        reply = self.execute(line)
        return reply.encode("ascii") + end if reply else b""

    def _execute(self, command: Command) -> str | None:
        known = (each for each in (self, *self._others) if each._handler(command))
        far_end = next(known, self)
        with far_end.lock:
            try:
                return far_end._permitted(command)(command.argument)
            except Refused as refused:
                self._errors.put(refused.number, refused.words)
                return None

    def _handler(self, command: Command) -> Handler | None:
        found = (act for header, act in self._table if header.fullmatch(command.header))
        return next(found, None)

    def _permitted(self, command: Command) -> Handler:
        """Return what carries out a command; raise Refused for one that is not carried out."""
        handler = self._handler(command)
        if handler is None:
            raise Refused(-113, "Undefined header")
        if handler not in self._always and self.is_busy:
            raise Refused(-213, "Init ignored; busy")
        if not command.header.endswith("?") and self.faults.strikes("error", command.header):
            raise Refused(-200, "Execution error")
        return handler

    @staticmethod
    def _by_channel(
        channels: Collection[int], commands: Callable[[int, str], dict[str, Handler]]
    ) -> dict[str, Handler]:
        """Return the commands of every channel, by its number; channel 1 needs none."""
        table = commands(1, "") if 1 in channels else {}
        for channel in sorted(channels):
            table |= commands(channel, f"{channel}")
        return table

    def _go_stale(self, fault: ArmedFault) -> None:
        self._errors.put(-222, "Data out of range")

    def _fill(self, fault: ArmedFault) -> None:
        for _ in range(self._errors.LENGTH + 1):
            self._errors.put(-113, "Undefined header")
