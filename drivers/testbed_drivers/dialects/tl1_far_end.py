"""The TL1 dialect, device side: login, correlation tags, refusals with codes, long replies.

Behaviour: commands before the login are refused; a reply repeats the tag of its command; a refusal
is a code and a comment; a long reply comes in blocks, each with the header; a client that sends
nothing for an hour is logged out. Which codes a device uses is known only from the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from weakref import WeakSet

from testbed.bench.sites import Site
from testbed.secret import Secret
from testbed_drivers.dialects.armed_faults import ArmedFault
from testbed_drivers.dialects.client_connection import ClientConnection
from testbed_drivers.dialects.far_end import ORDER_FAULTS, FarEnd
from testbed_drivers.dialects.tl1_commands import Command, command, command_end

FAULTS = {
    **ORDER_FAULTS,
    "login-rejected": "refuses every login",
    "kicked": "at once: ends every login; the lines stay up",
    "alarms": "speaks of its own accord before and after its answer",
    "in-progress": "acknowledges a command, and answers `delay` seconds later",
}
"""What every TL1 far end can be told to do wrong beyond the faults of any connection."""

ROWS_PER_BLOCK = 20
"""Lines of a reply after which it goes on in another block."""
_IDLE_SECONDS = 3600.0
_SWITCHED_ON = datetime(2000, 1, 1)
"""What the clock of a box shows before it is set."""

Handler = Callable[[Command], Sequence[str]]
"""Carries out a command; returns the lines of its answer, without their quotes."""


class Denied(Exception):
    """A refused command, with a TL1 error code and a comment."""

    def __init__(self, code: str, comment: str) -> None:
        super().__init__(comment)
        self.code = code
        self.comment = comment


class Tl1FarEnd(FarEnd):
    """An instrument with a TL1 interface; its clients share its state and log in separately.

    `name` is the device name in every header, `table` maps verbs to handlers, which run one at a
    time, under `lock`. `accounts` are the passwords of users.
    """

    end = b";"

    def __init__(
        self,
        name: str,
        accounts: Mapping[str, str],
        table: Mapping[str, Handler],
        faults: Mapping[str, str],
        site: Site,
    ) -> None:
        super().__init__({**FAULTS, **faults}, site)
        self.at_once["kicked"] = self._kick
        self.idle_seconds = _IDLE_SECONDS
        self._name = name
        self._accounts = accounts
        self._table = {"RTRV-HDR": lambda _: (), **table}
        self._sessions: WeakSet[Tl1Session] = WeakSet()
        self._alarms = count(1)

    def _conversation(self, connection: ClientConnection) -> Tl1Session:
        session = Tl1Session(self, connection)
        self._sessions.add(session)
        return session

    def execute(self, session: Tl1Session, request: Command) -> bytes:
        """Execute one command of a client; return its reply."""
        with self.lock:
            try:
                rows = [f'"{_escaped(row)}"' for row in self._carried_out(session, request)]
                return self._reply(request.ctag, "COMPLD", rows)
            except Denied as denied:
                rows = [denied.code, f"/* {denied.comment} */"]
                return self._reply(request.ctag or "0", "DENY", rows)

    def alarm(self) -> bytes:
        """Return an autonomous message (alarm) with every character that could end a message."""
        rows = ['"1.1.1>2.1.1:LOS,TC;<"']
        return self._framed(f"A  {next(self._alarms)} REPT EVT EQPT", rows) + b";"

    def _carried_out(self, session: Tl1Session, request: Command) -> Sequence[str]:
        if request.target not in ("", self._name):
            raise Denied("IITA", "Invalid Target Identifier")
        if not (request.ctag.isalnum() and len(request.ctag) <= 6):
            raise Denied("IICT", "Invalid Correlation Tag")
        now = self.scheduler.now()
        if now - session.last_command_at > self.idle_seconds:
            session.user = ""
        session.last_command_at = now
        if request.verb == "ACT-USER":
            return self._log_in(session, request)
        if not session.user:
            raise Denied("PLNA", "Login Not Active")
        if request.verb in _SESSION_VERBS:
            setattr(session, *_SESSION_VERBS[request.verb])
            return ()
        return self._handler(request)(request)

    def _handler(self, request: Command) -> Handler:
        if request.verb not in self._table:
            raise Denied("ICNV", "Invalid Command")
        if not request.verb.startswith("RTRV-"):
            if self.is_busy:
                raise Denied("SARB", "All Resources Busy")
            if self.faults.strikes("error", str(request)):
                raise Denied("SROF", "Requested Operation Failed")
        return self._table[request.verb]

    def _log_in(self, session: Tl1Session, request: Command) -> Sequence[str]:
        rejected = self.faults.strikes("login-rejected", request.verb)
        if rejected or self._accounts.get(request.aid) != request.block(1):
            raise Denied("PIUI", "Invalid User Identity")
        session.user = request.aid
        return [f"{request.aid}:{request.aid},{len(self._sessions)}"]

    def _reply(self, ctag: str, status: str, rows: Sequence[str]) -> bytes:
        """Return a reply, in blocks when it is long; each block ends but the last in `>`."""
        starts = range(0, max(1, len(rows)), ROWS_PER_BLOCK)
        blocks = [
            self._framed(f"M  {ctag} {status}", rows[start : start + ROWS_PER_BLOCK])
            for start in starts
        ]
        return b">".join(blocks) + b";"

    def _framed(self, words: str, rows: Sequence[str]) -> bytes:
        moment = _SWITCHED_ON + timedelta(seconds=self.scheduler.now())
        header = f"\r\n\n   {self._name} {moment:%y-%m-%d %H:%M:%S}\r\n{words}\r\n"
        return (header + "".join(f"   {row}\r\n" for row in rows)).encode("ascii")

    def _kick(self, fault: ArmedFault) -> None:
        with self.lock:
            for session in self._sessions:
                session.user = ""


class Tl1Session:
    """One client's connection: parses commands from bytes, and sends replies."""

    def __init__(self, far_end: Tl1FarEnd, connection: ClientConnection) -> None:
        self.user = ""
        self.alarms_allowed = True
        self.last_command_at = far_end.scheduler.now()
        self._far_end = far_end
        self._connection = connection
        self._begun = b""

    def receive(self, data: bytes) -> None:
        """Receive bytes in any pieces; a command ends with `;`."""
        self._begun += data
        while end := command_end(self._begun):
            line, self._begun = self._begun[:end], self._begun[end:]
            self._answer(line)

    def _answer(self, line: bytes) -> None:
        text, request = line.decode("ascii", "replace"), command(line)
        strikes = self._far_end.faults.strikes
        alarmed = self.alarms_allowed and strikes("alarms", text)
        if alarmed:
            self._connection.send_unsolicited(self._far_end.alarm() + self._far_end.alarm())
        reply = self._far_end.execute(self, request)
        if slow := strikes("in-progress", text):
            self._connection.send_unsolicited(f"\r\nIP {request.ctag}\r\n<".encode("ascii"))
            when = self._far_end.scheduler.now() + slow.delay
            self._far_end.scheduler.call_at(when, lambda: self._connection.reply(reply, text))
        else:
            self._connection.reply(reply, text)
        if alarmed:
            self._connection.send_unsolicited(self._far_end.alarm())


_SESSION_VERBS = {
    "CANC-USER": ("user", ""),
    "INH-MSG": ("alarms_allowed", False),
    "INH-MSG-ALL": ("alarms_allowed", False),
    "ALW-MSG-ALL": ("alarms_allowed", True),
}
"""What a command sets of the session that it came on."""


def account(user: str, password: Secret | None) -> dict[str, str]:
    """Return the account that a lab file names as a mapping; empty when it names no user."""
    return {user: password.reveal() if password else ""} if user else {}


def _escaped(row: str) -> str:
    return row.replace("\\", "\\\\").replace('"', '\\"')
