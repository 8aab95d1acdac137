"""One client's connection to a far end, with the faults of every protocol: late or bad replies."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from functools import partial

from testbed.bench.sites import Scheduler
from testbed_drivers.dialects.armed_faults import ArmedFaults

FAULTS = {
    "silent": "carries out the command and does not answer",
    "late": "answers after `delay` seconds, and so does everything after it on this line",
    "after-next": "keeps its answer until it has given the next one",
    "merged": "keeps its answer and sends it in one piece with the next one",
    "garbled": "answers with the top bit of one byte flipped",
    "truncated": "answers with the first half and no end",
    "wrong-end": "ends its answer as no manual says",
    "banner": "sends a line of its own before the answer",
    "doubled": "answers twice",
    "drip": "answers one byte every `delay` seconds",
    "cut": "hangs up in the middle of its answer",
    "reset": "carries out the command and hangs up instead of answering",
    "refuse": "hangs up on every client that connects",
}
"""What any far end can be told to do wrong."""

_BANNER = b"*** maintenance at 22:00 ***\r\n"
_NO_END = b"\x1a"


@dataclass(eq=False)
class ClientConnection:
    """Sends replies to one client, each at its time, changed by armed faults.

    `end` is the terminator that the faults `wrong-end` and `garbled` must know.
    """

    _send: Callable[[bytes], None]
    hang_up: Callable[[], None]
    end: bytes
    _faults: ArmedFaults
    _scheduler: Scheduler
    seed: InitVar[int]
    _busy_until: float = 0.0
    _postponed: bytes = b""
    _kept: bytes = b""

    def __post_init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        if self._faults.strikes("refuse"):
            self.hang_up()

    def send_unsolicited(self, data: bytes) -> None:
        """Send an unsolicited message: an alarm, a greeting."""
        self._send_in_turn(data)

    def reply(self, data: bytes, command: str, *, last: bool = False) -> None:
        """Send the answer to `command`, unless a fault changes it; close after the `last` one."""
        if self._faults.strikes("reset", command):
            return self.hang_up()
        if self._faults.strikes("silent", command):
            return None
        half = self._faults.strikes("truncated", command) is not None
        data = self._with_faults(data, command, half)
        if self._faults.strikes("after-next", command):
            self._postponed += data
            return None
        if self._faults.strikes("merged", command):
            self._kept += data
            return None
        data, self._kept, self._postponed = self._kept + data + self._postponed, b"", b""
        if self._faults.strikes("cut", command):
            self._send_in_turn(data[: len(data) // 2])
            return self.hang_up()
        self._send_timed(data, command)
        if last and not half:
            self._run_in_turn(self.hang_up)
        return None

    def _with_faults(self, data: bytes, command: str, half: bool) -> bytes:
        """Return the answer as it is on the connection, right or wrong."""
        if self._faults.strikes("garbled", command):
            at = self._chance.randrange(max(1, len(data) - len(self.end)))
            data = data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :]
        if self._faults.strikes("wrong-end", command):
            data = data.removesuffix(self.end) + _NO_END
        if half:
            data = data[: len(data) // 2]
        if self._faults.strikes("banner", command):
            data = _BANNER + data
        if self._faults.strikes("doubled", command):
            data += data
        return data

    def _send_timed(self, data: bytes, command: str) -> None:
        if drip := self._faults.strikes("drip", command):
            for start in range(len(data)):
                self._delay(drip.delay)
                self._send_in_turn(data[start : start + 1])
            return
        if late := self._faults.strikes("late", command):
            self._delay(late.delay)
        self._send_in_turn(data)

    def _delay(self, seconds: float) -> None:
        self._busy_until = max(self._busy_until, self._scheduler.now()) + seconds

    def _send_in_turn(self, data: bytes) -> None:
        if data:
            self._run_in_turn(partial(self._send, data))

    def _run_in_turn(self, action: Callable[[], None]) -> None:
        """Act once all that was to be sent before has been."""
        if self._busy_until > self._scheduler.now():
            self._scheduler.call_at(self._busy_until, action)
        else:
            action()


class LineSession:
    """One client's connection, split into lines; `answer` returns the bytes to reply, or none."""

    def __init__(self, connection: ClientConnection, answer: Callable[[str], bytes]) -> None:
        self._connection = connection
        self._answer = answer
        self._begun = b""

    def receive(self, data: bytes) -> None:
        """Receive bytes in any pieces; a line ends with CR, LF or both."""
        *lines, self._begun = re.split(rb"[\r\n]+", self._begun + data)
        for line in lines:
            command = line.decode("utf-8", "replace").strip()
            if reply := self._answer(command):
                self._connection.reply(reply, command)
