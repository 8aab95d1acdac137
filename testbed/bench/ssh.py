"""SSH to hosts; the only importer of fabric and paramiko.

The user's SSH configuration decides how a host is reached. Host keys are strict: an unknown or a
changed one is refused, with the command that accepts it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from threading import Thread

import fabric
import paramiko

from testbed.clock import Deadline
from testbed.errors import HostError, HostTimeout


class Channel:
    """A command that runs on a host, as a stream of bytes both ways."""

    def __init__(self, host: str, connection: fabric.Connection, channel: paramiko.Channel) -> None:
        self._host = host
        self._connection = connection
        self._channel = channel

    def send(self, data: bytes) -> None:
        """Send to the command's standard input; raise HostError when the line is gone."""
        try:
            self._channel.sendall(data)
        except (OSError, paramiko.SSHException) as error:
            raise HostError(self._host, f"the SSH channel broke: {error or 'closed'}") from error

    def receive(self) -> bytes:
        """Return what the command wrote, waiting for it; empty when the line is gone."""
        try:
            return self._channel.recv(1 << 16)
        except (OSError, paramiko.SSHException):
            return b""

    def complaint(self) -> str:
        """Return what the command has written to standard error so far."""
        text = b""
        while self._channel.recv_stderr_ready():
            text += self._channel.recv_stderr(1 << 16)
        return text.decode(errors="replace").strip()

    def close(self) -> None:
        """Close the channel and the connection; safe to call twice, never waits for the host."""
        transport = self._connection.transport
        if transport is not None:
            transport.close()


def run(host: str, target: str, command: str, deadline: Deadline) -> Channel:
    """Start a command on a host and return its streams.

    Blocks for a connection at most until the deadline, whatever hangs: name service, TCP, key
    exchange or login. Raise HostError with what to do, HostTimeout when time is up.
    """
    result: list[Channel] = []
    failure: list[Exception] = []

    def connect() -> None:
        try:
            result.append(_connect(host, target, command, deadline))
        except Exception as error:
            failure.append(error)

    thread = Thread(target=connect, name=f"ssh {host}", daemon=True)
    thread.start()
    thread.join(deadline.left)
    if result:
        return result[0]
    if failure:
        raise _explained(host, target, failure[0]) from failure[0]
    raise HostTimeout(
        host, f"no SSH connection to {target} in time", hint="is the host up, is its name right?"
    )


def _connect(host: str, target: str, command: str, deadline: Deadline) -> Channel:
    limit = max(0.1, deadline.left)
    connection = fabric.Connection(
        target,
        connect_timeout=limit,
        connect_kwargs={"banner_timeout": limit, "auth_timeout": limit},
    )
    # fabric's own client accepts any host key.
    client = paramiko.SSHClient()
    client.load_system_host_keys()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    connection.client = client
    connection.open()
    transport = connection.transport
    assert transport is not None
    transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel = transport.open_session(timeout=deadline.left)
    channel.exec_command(command)
    return Channel(host, connection, channel)


def _explained(host: str, target: str, error: Exception) -> HostError:
    """Return what a failed connection means and what to do about it."""
    tried = f"SSH to {target} failed: {error}"
    hints: list[tuple[type[Exception], Callable[[], str]]] = [
        (paramiko.BadHostKeyException, lambda: _key_hint("its key has CHANGED", target)),
        (paramiko.AuthenticationException, lambda: f"check that `ssh {target}` logs in"),
        (socket.gaierror, lambda: "the name is unknown; check `ssh:` and your SSH configuration"),
    ]
    for kind, hint in hints:
        if isinstance(error, kind):
            return HostError(host, tried, hint=hint())
    if "not found in known_hosts" in str(error):
        return HostError(host, tried, hint=_key_hint("its key is unknown", target))
    if isinstance(error, TimeoutError):
        return HostTimeout(host, tried, hint="is the host up?")
    return HostError(host, tried, hint=f"check that `ssh {target} true` works")


def _key_hint(trouble: str, target: str) -> str:
    return f"{trouble}: compare it with the host's own, then accept it with `ssh {target} true`"
