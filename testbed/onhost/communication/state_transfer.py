"""The transfer of a job's state over one connection, with a checksum at its end."""

from __future__ import annotations

import zlib
from struct import Struct

from ..errors import Corrupt
from .communicator import check_opening
from .connections import Peer, PeerConnections
from .tasks import Task, receive_all, run, send_all

OPENING = Struct("!4sIQQ")  # kind, generation, number of the message on its link, bytes
STATE = b"STAT"

_SEGMENT = 256 << 10
"""Bytes after which the checksum goes on."""
_CHECKSUM = Struct("!I")  # CRC-32


def send_state(connections: PeerConnections, peer: Peer, opening: bytes, state: memoryview) -> None:
    """Send a state to a peer, which calls `receive_state` with the same opening.

    Block until TCP has taken all of it. Raise Left and PeerLost.
    """
    run(connections, _state_out(connections, peer, opening, state))


def receive_state(
    connections: PeerConnections, peer: Peer, opening: bytes, buffer: memoryview
) -> None:
    """Fill a buffer with the state that a peer sends; Corrupt for a wrong checksum.

    Block until all of it is there. Raise Left, PeerLost, WrongGeneration and ProtocolError, too.
    """
    run(connections, _state_in(connections, peer, opening, buffer))


def receive_opening(connections: PeerConnections, expected: bytes, source: Peer) -> Task:
    """Receive a message's opening from a peer; raise unless it is the expected one."""
    opening = bytearray(len(expected))
    yield from receive_all(connections, source, opening)
    check_opening(opening, expected)


def _state_out(connections: PeerConnections, peer: Peer, opening: bytes, state: memoryview) -> Task:
    yield from send_all(connections, peer, opening)
    checksum = 0
    for start in range(0, len(state), _SEGMENT):
        segment = state[start : start + _SEGMENT]
        checksum = zlib.crc32(segment, checksum)
        yield from send_all(connections, peer, segment)
    yield from send_all(connections, peer, _CHECKSUM.pack(checksum))


def _state_in(connections: PeerConnections, peer: Peer, opening: bytes, buffer: memoryview) -> Task:
    yield from receive_opening(connections, opening, peer)
    checksum = 0
    for start in range(0, len(buffer), _SEGMENT):
        segment = buffer[start : start + _SEGMENT]
        yield from receive_all(connections, peer, segment)
        checksum = zlib.crc32(segment, checksum)
    sent = bytearray(_CHECKSUM.size)
    yield from receive_all(connections, peer, sent)
    if sent != _CHECKSUM.pack(checksum):
        raise Corrupt(f"{len(buffer)} bytes of state were received with a wrong checksum")
