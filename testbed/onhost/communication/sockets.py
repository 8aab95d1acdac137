"""Sockets of ranks: bound to a fabric port, non-blocking, closed without sending the rest."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

SEND_BUFFER = 256 << 10
"""Bytes of socket buffer towards the next rank; Linux grants twice as much. Left to itself the
kernel takes 4 MiB, which fall out of the cache before they are sent (64 MiB over four ranks on two
cores: 105 ms instead of 75) and delay a new generation by what the old one had queued."""

BACKLOG = 128
"""Ranks that may call at the same moment."""


@dataclass(frozen=True)
class Port:
    """One of the host's fabric ports; without an interface the routing table applies."""

    interface: str | None
    address: str


LOOPBACK = Port(None, "127.0.0.1")
"""By which ranks on one host reach each other."""


def listen(port: Port) -> socket.socket:
    """Return a non-blocking listening socket on a free TCP port of one fabric port."""
    listener = bound(port)
    listener.listen(BACKLOG)
    return listener


def discard(connection: socket.socket) -> None:
    """Close a connection and discard its unsent data; safe to call twice.

    Bytes of an abandoned collective would compete with the next generation for the same link.
    """
    if connection.fileno() < 0:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def bound(port: Port) -> socket.socket:
    """Return a socket that uses one fabric port only, independent of the routing table."""
    unbound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port.interface is not None:
            name = os.fsencode(port.interface)
            unbound.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
        unbound.bind((port.address, 0))
    except OSError:
        unbound.close()
        raise
    prepare(unbound)
    return unbound


def prepare(connection: socket.socket) -> None:
    """Make a connection non-blocking, without Nagle's delay and with a small send buffer."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
