"""Command lines over SSH; the drivers' only importer of paramiko.

Every line that is sent runs as a command of its own, in an exec channel of one persistent
connection. So an answer ends with the command, and its exit status shows whether it succeeded; in
an interactive shell both would have to be guessed from a prompt, which output may contain. Host
keys are checked by the user's known_hosts. Without a password the user's SSH agent and keys are
used. paramiko leaves Nagle's algorithm on (44 ms an exchange) and waits for some answers without a
limit; here it is off, and a deadline that passes cuts the connection.
"""

from __future__ import annotations

import logging
import select
import socket

import paramiko

from testbed.bench.contracts import EXIT_MARK
from testbed.clock import Deadline, disconnected_at
from testbed.errors import InstrumentError, LinkLost, NoReply, Rejected, UsageError
from testbed.resource import Ssh, place
from testbed.secret import Secret
from testbed_drivers.transports.base import BufferedTransport
from testbed_drivers.transports.tcp import open_socket

_MAX_READ = 65536
# What goes wrong is raised; without a handler of its own, the logger would print it as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def dial(
    instrument: str, resource: str, *, baud: int, deadline: Deadline, password: Secret | None = None
) -> SshTransport:
    """Log in at `ssh://[user@]host[:port]`.

    Errors: LinkLost and NoReply for the connection, Rejected for the login, InstrumentError for a
    host key that is unknown or has changed.
    """
    where = place(resource)
    if not isinstance(where, Ssh):
        raise UsageError(f"{instrument}: {resource!r} is not the URL of an SSH server")
    word = password.reveal() if password else None
    line = open_socket(instrument, where, deadline)
    client = paramiko.SSHClient()
    try:
        with disconnected_at(deadline, line):
            _log_in(client, where, word, line, max(0.001, deadline.left))
    except (OSError, EOFError, paramiko.SSHException) as error:
        client.close()
        line.close()
        raise _login_error(instrument, where, error, deadline) from error
    transport = client.get_transport()
    assert transport is not None
    return SshTransport(instrument, client, transport, line)


def _log_in(
    client: paramiko.SSHClient, where: Ssh, word: str | None, line: socket.socket, limit: float
) -> None:
    client.load_system_host_keys()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    client.connect(
        where.host,
        where.port,
        where.user or None,
        word,
        sock=line,
        allow_agent=word is None,
        look_for_keys=word is None,
        timeout=limit,
        banner_timeout=limit,
        auth_timeout=limit,
    )


class SshTransport(BufferedTransport):
    """One connection; it receives a command's output, then `EXIT_MARK`, exit status and LF."""

    def __init__(
        self,
        instrument: str,
        client: paramiko.SSHClient,
        transport: paramiko.Transport,
        line: socket.socket,
    ) -> None:
        super().__init__(instrument)
        self._client = client
        self._transport = transport
        self._line = line
        self._command: paramiko.Channel | None = None

    def _send(self, data: bytes, deadline: Deadline) -> None:
        """Run a line as a command, whose errors are part of its output and whose input is empty."""
        try:
            with disconnected_at(deadline, self._line):
                command = self._transport.open_session(timeout=max(0.001, deadline.left))
                command.set_combine_stderr(True)
                command.exec_command(data.decode().rstrip("\n"))
                command.shutdown_write()
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise self._failed("running a command failed", error, deadline) from error
        self._command = command

    def _receive_some(self, deadline: Deadline) -> bytes:
        if self._command is None:
            raise LinkLost(self._instrument, "runs no command that could answer")
        self._command.settimeout(max(0.001, deadline.left))
        try:
            if data := self._command.recv(_MAX_READ):
                return data
        except TimeoutError as error:
            raise self._no_reply() from error
        with disconnected_at(deadline, self._line):
            status = self._command.recv_exit_status()
        if status < 0:
            raise self._failed("a command ended without an exit status", EOFError(), deadline)
        self._command = None
        return EXIT_MARK + b"%d\n" % status

    def quiet(self) -> bool:
        """Return whether the idle connection is up and no command is still running."""
        if self._unread or self._command is not None or not self._transport.is_active():
            return False
        # paramiko's own thread reads, and closes; this only checks whether the other side closed
        try:
            ready, _, _ = select.select([self._line], [], [], 0.0)
            return not ready or self._line.recv(1, socket.MSG_PEEK) != b""
        except TimeoutError:
            return True  # that thread was quicker, so there was something to read
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._client.close()

    def _failed(self, what: str, error: Exception, deadline: Deadline) -> InstrumentError:
        if deadline.passed:
            return self._no_reply()
        reason = str(error) or "the other side closed the connection"
        return self._lost(f"{what}: {reason}", "check its power and its network")


def _login_error(
    instrument: str, where: Ssh, error: Exception, deadline: Deadline
) -> InstrumentError:
    """Return what a login that failed means and what to do about it."""
    server = f"{where.user}@{where.host}" if where.user else where.host
    by_hand = f"ssh -p {where.port} {server}"
    if isinstance(error, paramiko.BadHostKeyException):
        name = where.host if where.port == 22 else f"[{where.host}]:{where.port}"
        return InstrumentError(
            instrument,
            f"the host key of {where.host} has CHANGED",
            hint="ask whether the box was replaced; if so, forget the old key with "
            f"`ssh-keygen -R '{name}'`, and compare the new one when `{by_hand}` shows it",
        )
    if "not found in known_hosts" in str(error):
        return InstrumentError(
            instrument,
            f"the host key of {where.host} is unknown",
            hint=f"compare it with the box's own, then accept it with `{by_hand}`",
        )
    if isinstance(error, paramiko.AuthenticationException) and not deadline.passed:
        words = str(error)
        return Rejected(
            instrument,
            f"refused the login at {server}: {words}",
            reply=words,
            hint=f"check the user, and 'password' or your keys, with `{by_hand}`",
        )
    if deadline.passed:
        return NoReply(instrument, f"did not let {server} log in in time")
    reason = str(error) or "the other side closed the connection"
    return LinkLost(instrument, f"SSH to {server} failed: {reason}", hint="is SSH enabled there?")
