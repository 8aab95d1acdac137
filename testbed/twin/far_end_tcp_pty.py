"""Serve simulated far ends on TCP ports and pseudo-terminals, where drivers find them."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
import tty
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from testbed.bench.sites import FarEnd

_PIECE = 65536
_HANDSHAKE_SECONDS = 5.0
_OVERRUN_SECONDS = 1.0
"""How long a serial reply waits for a client that does not read; then it is lost, as on a cable."""


def serve_tcp(
    far_end: FarEnd, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None
) -> TcpServer:
    """Serve a far end on a TCP port (0: any free one) until closed; OSError if it is taken."""
    return TcpServer(far_end, socket.create_server((host, port)), tls)


def serve_pty(far_end: FarEnd, link: Path | None = None, *, baud: int = 0) -> PtyServer:
    """Serve a far end on a new pseudo-terminal until closed.

    `link` becomes a symbolic link to it, so that it has a name from a lab file. With `baud`, bytes
    take as long as on a real cable (10 bits each); a pseudo-terminal ignores its baud rate.
    """
    return PtyServer(far_end, link, baud)


class TcpServer:
    """A far end on a TCP port; every client has its own session and thread."""

    def __init__(
        self, far_end: FarEnd, listener: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        self._far_end = far_end
        self._listener = listener
        self._tls = tls
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.host, self.port = listener.getsockname()[:2]
        self._thread = _started(self._accept)

    def cut(self) -> None:
        """Close the connections of all clients; new ones are accepted."""
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            _hang_up(client)

    def close(self) -> None:
        """Stop listening and close all connections; safe to call twice."""
        self._closed = True
        _hang_up(self._listener)
        self._thread.join()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):  # how accepting ends once the listener is shut down
            while True:
                client, _ = self._listener.accept()
                _started(partial(self._serve, client))

    def _serve(self, client: socket.socket) -> None:
        line = self._encrypted(client) if self._tls else client
        if line is None:
            return
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with line:
            with self._lock:
                self._clients.add(line)
            if self._closed:
                _hang_up(line)
            session = self._far_end.session(
                lambda data: _send_all(line, data), hang_up=lambda: _hang_up(line)
            )
            while data := _received(line):
                session.receive(data)
            with self._lock:
                self._clients.discard(line)

    def _encrypted(self, client: socket.socket) -> ssl.SSLSocket | None:
        """Return the client's line inside TLS; None when it would not agree, as its side says."""
        assert self._tls is not None
        client.settimeout(_HANDSHAKE_SECONDS)
        try:
            line = self._tls.wrap_socket(client, server_side=True)
        except OSError:
            client.close()
            return None
        line.settimeout(None)
        return line


class PtyServer:
    """A far end on a pseudo-terminal: one session for all that open the device."""

    def __init__(self, far_end: FarEnd, link: Path | None, baud: int) -> None:
        self._baud = baud
        self._closed = False
        self._master, self._slave = os.openpty()  # our slave end keeps reads from failing with EIO
        self._wake, self._waker = os.pipe()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        device = Path(os.ttyname(self._slave))
        self.path = link or device
        if link is not None:
            if link.is_symlink():
                link.unlink()
            link.symlink_to(device)
        self._session = far_end.session(self._send, serial=True)
        self._thread = _started(self._converse)

    def close(self) -> None:
        """Remove the device, which closes it for all clients; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        os.write(self._waker, b"x")
        self._thread.join()
        if self.path.is_symlink():
            self.path.unlink()
        for descriptor in (self._master, self._slave, self._wake, self._waker):
            os.close(descriptor)

    def _converse(self) -> None:
        while True:
            ready, _, _ = select.select([self._master, self._wake], [], [])
            if self._wake in ready:
                return
            data = os.read(self._master, _PIECE)
            self._pace(data)
            self._session.receive(data)

    def _send(self, data: bytes) -> None:
        self._pace(data)
        while data and not self._closed:
            _, ready, _ = select.select([], [self._master], [], _OVERRUN_SECONDS)
            if not ready:
                return
            data = data[os.write(self._master, data) :]

    def _pace(self, data: bytes) -> None:
        if self._baud:
            time.sleep(len(data) * 10 / self._baud)


def _started(action: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=action, name="far end", daemon=True)
    thread.start()
    return thread


def _send_all(line: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # the client is gone
        line.sendall(data)


def _received(line: socket.socket) -> bytes:
    try:
        return line.recv(_PIECE)
    except OSError:
        return b""


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # it hung up first
        line.shutdown(socket.SHUT_RDWR)
