"""Run commands on hosts over SSH; the only importer of fabric and paramiko.

The user's SSH configuration decides how a host is reached. Host keys are checked: an unknown or
changed key is refused, and the hint has the command that accepts it.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import fabric
import paramiko

from testbed.clock import Deadline, bounded
from testbed.commands import typed
from testbed.errors import HostError, HostTimeout, LabError

_PORT = 22
_KNOWN_HOSTS = Path("~/.ssh/known_hosts")

_SEND_LIMIT = 10.0
"""Seconds after which what is sent to a host and not taken breaks its line."""

_WINDOW = 2**31 - 1
"""Bytes that a command may send before we must permit more.

The permission is sent by whoever reads, who waits meanwhile where keys are being exchanged anew. It
is due after a tenth of this, which hardly an agent sends in its life.
"""


@dataclass(frozen=True, slots=True)
class Server:
    """The address of an SSH target, and its `known_hosts` files; the first takes new keys."""

    host: str
    port: int
    known_hosts: tuple[Path, ...]

    @classmethod
    def plain(cls, host: str, port: int) -> Server:
        """Return a server that no SSH configuration mentions."""
        return cls(host, port, (_KNOWN_HOSTS.expanduser(),))

    @property
    def name(self) -> str:
        """Return the name of the server as written in `known_hosts`."""
        return self.host if self.port == _PORT else f"[{self.host}]:{self.port}"


def server(target: str) -> Server:
    """Return the address of an SSH target by the user's SSH configuration.

    Raise LabError for a target behind a jump host: only `ssh` itself can accept its key.
    """
    connection = fabric.Connection(target)
    if connection.gateway:
        raise LabError(
            f"{target} is reached through another machine, so only `ssh` can accept its key",
            hint=f"log in once: `ssh {target} true`",
        )
    return Server(connection.host, connection.port, _known_hosts(connection))


def whereabouts(target: str) -> tuple[str, int, str]:
    """Return a target's host name and port, and its jump host, by the user's SSH configuration.

    The last is empty for a direct connection.
    """
    first, *behind = _hops(fabric.Connection(target))
    through = [f"{hop.host}:{hop.port}" for hop in behind]
    if (command := [first, *behind][-1].gateway) is not None:
        through.append(str(command))
    return first.host, first.port, " through ".join(through)


def connection_failure(target: str, deadline: Deadline) -> str:
    """Return why no TCP connection to a target's SSH port is made; empty where one is.

    The name service and the route prove nothing, nor does a target behind a jump host. Blocks
    until the deadline at most, which counts as no answer.
    """
    name, port, through = whereabouts(target)
    if through:
        return ""
    try:
        socket.create_connection((name, port), max(0.001, deadline.left)).close()
    except ConnectionRefusedError:
        return "refuses connections"
    except TimeoutError:
        return "does not answer"
    except OSError as error:
        return "cannot be reached" if error.errno == errno.EHOSTUNREACH else ""
    return ""


def _known_hosts(connection: fabric.Connection) -> tuple[Path, ...]:
    """Return the files that the user's SSH configuration names for known host keys."""
    named = connection.ssh_config.get("userknownhostsfile", str(_KNOWN_HOSTS))
    return tuple(Path(name).expanduser() for name in named.split())


class _Readable(Event):
    """A file that can be read while a buffer of a paramiko channel holds data, or is closed.

    `paramiko.Channel.fileno` gives one for output and errors together, which may be cleared by what
    reads the one while the other comes. The buffer calls `set` and `clear` with its lock held.
    """

    def __init__(self) -> None:
        super().__init__()
        self._file, self._other_end = os.pipe()

    def fileno(self) -> int:
        return self._file

    def set(self) -> None:
        if not self.is_set():
            super().set()
            os.write(self._other_end, b"!")

    def clear(self) -> None:
        if self.is_set():
            super().clear()
            os.read(self._file, 1)

    def close(self) -> None:
        os.close(self._file)
        os.close(self._other_end)


class Channel:
    """A command that runs on a host, as a stream of bytes both ways."""

    def __init__(self, host: str, connection: fabric.Connection, channel: paramiko.Channel) -> None:
        self._host = host
        self._connection = connection
        self._channel = channel
        self._readable: _Readable | None = None

    def fileno(self) -> int:
        """Return a file that can be read while `receive` returns anything; see `release`."""
        if self._readable is None:
            self._readable = _Readable()
            self._channel.in_buffer.set_event(self._readable)
        return self._readable.fileno()

    def release(self) -> None:
        """Close the file of `fileno`, which nothing may wait for any more; safe to call twice."""
        if self._readable is not None:
            self._channel.in_buffer.set_event(Event())
            self._readable.close()
            self._readable = None

    def send(self, data: bytes) -> None:
        """Send to the command's standard input; raise HostError when the connection is lost.

        Blocks for ten seconds at most, whatever the other side does.
        """
        try:
            self._channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostError(self._host, f"the SSH channel broke: {error or 'closed'}") from error

    def receive(self) -> bytes | None:
        """Return output of the command, None where nothing has come, or empty bytes at the end.

        Never waits. The end is that of the output, or of the connection.
        """
        has_ended = self._channel.eof_received or self._channel.closed
        try:
            if self._channel.recv_ready():
                return self._channel.recv(1 << 16)
        except (OSError, EOFError, paramiko.SSHException):
            return b""
        # A packet may hold no data: what it woke must sleep again.
        return self._channel.in_buffer.empty() or (b"" if has_ended else None)

    def complaint(self) -> str:
        """Return the text that the command has written to standard error so far."""
        text = b""
        while self._channel.recv_stderr_ready():
            text += self._channel.recv_stderr(1 << 16)
        return text.decode(errors="replace").strip()

    def close(self) -> None:
        """Close the channel and the connection; safe to call twice, never waits for the host."""
        for hop in _hops(self._connection):
            if hop.transport is not None:
                hop.transport.close()


def run(host: str, target: str, command: str, deadline: Deadline) -> Channel:
    """Start a command on a host and return its streams.

    Blocks for a connection at most until the deadline, whatever hangs: name service, TCP, key
    exchange or login. Raise HostError with a remedy, HostTimeout when the deadline passes.
    """
    try:
        return bounded(lambda: _connect(host, target, command, deadline), deadline, Channel.close)
    except Exception as error:
        raise _explained(host, target, error) from error


def _connect(host: str, target: str, command: str, deadline: Deadline) -> Channel:
    limit = max(0.1, deadline.left)
    connection = fabric.Connection(target)
    hops = _hops(connection)
    for hop in hops:
        hop.connect_timeout = limit
        limits = {"banner_timeout": limit, "auth_timeout": limit}
        hop.connect_kwargs = {**hop.connect_kwargs, **limits, "transport_factory": _transport}
        hop.client = _strict_client(hop)
    try:
        connection.open()
        for hop in hops:
            _fit_for_dead_peers(hop.transport.sock)
            hop.transport.clear_to_send_timeout = _SEND_LIMIT  # while keys are exchanged anew
        transport = connection.transport
        assert transport is not None
        channel = transport.open_session(_WINDOW, timeout=max(0.001, deadline.left))
        channel.settimeout(_SEND_LIMIT)
        channel.exec_command(command)
    except BaseException:
        for hop in hops:
            hop.client.close()
        raise
    return Channel(host, connection, channel)


def _hops(connection: fabric.Connection) -> list[fabric.Connection]:
    """Return a connection and those to the jump hosts that it is made through, if any."""
    hops = [connection]
    while isinstance(hops[-1].gateway, fabric.Connection):  # it is a text for a ProxyCommand
        hops.append(hops[-1].gateway)
    return hops


def _strict_client(connection: fabric.Connection) -> paramiko.SSHClient:
    """Return a client that refuses unknown host keys; fabric's own accepts any."""
    client = paramiko.SSHClient()
    for file in _known_hosts(connection):
        if file.is_file():
            client.load_system_host_keys(str(file))
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    return client


def _transport(*arguments: Any, **options: Any) -> paramiko.Transport:
    """Return a transport that prefers AES-GCM, which needs no HMAC of each packet (RFC 5647).

    By default paramiko prefers ciphers whose HMAC it computes in Python. They are still offered,
    for servers that lack AES-GCM.
    """
    transport = paramiko.Transport(*arguments, **options)
    offered = transport.get_security_options()
    offered.ciphers = sorted(offered.ciphers, key=lambda name: "-gcm@" not in name)
    return transport


def _fit_for_dead_peers(line: object) -> None:
    """Have the kernel send at once, and give up on a peer that no longer takes what is sent."""
    if isinstance(line, socket.socket):  # not so behind a jump host, whose own line is one
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limit = int(_SEND_LIMIT * 1000)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit)


def _explained(host: str, target: str, error: Exception) -> HostError:
    """Return what a failed connection means and what to do about it."""
    failure = HostError
    match error:
        case paramiko.BadHostKeyException():
            hint = changed_hint(server(target))
        case paramiko.AuthenticationException():
            hint = f"check that `ssh {target}` logs in"
        case socket.gaierror():
            hint = "the name is unknown; check `ssh:` and your SSH configuration"
        case _ if "not found in known_hosts" in str(error):
            hint = (
                "its key is unknown: compare it with the host's own, then accept it with `ssh "
                f"{target} true`, or all of the lab with `{typed('doctor', '--accept-host-keys')}`"
            )
        case TimeoutError():
            failure, hint = (
                HostTimeout,
                "check that the host is up, and that the name service answers",
            )
        case _:
            hint = f"check that `ssh {target} true` works"
    return failure(host, f"SSH to {target} failed: {error}", hint=hint)


def changed_hint(where: Server) -> str:
    """Return a hint for a server whose host key has changed."""
    return (
        "its key has CHANGED: another machine may sit between; if you know why, remove the old one "
        f"with `ssh-keygen -R {where.name}` and accept the new one"
    )
