"""The interface of a group of ranks: barrier, generation, and the opening of each message."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from ..errors import ProtocolError, WrongGeneration
from .connections import Peer, PeerConnections
from .tasks import receive_all, run, send_all

Vector = npt.NDArray[Any]

_BARRIER = struct.Struct("!4sIII")  # kind, generation, epoch, turn


class Communicator:
    """All ranks of one generation; every rank makes the same calls in the same order.

    Each message begins with its kind, the generation and other fields; a receiver that expects
    another raises WrongGeneration or ProtocolError. Left and PeerLost may come from any call. After
    either the buffers hold garbage, and the object must not be used any more.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        connections: PeerConnections,
        barrier: Sequence[tuple[Peer, Peer]],
    ) -> None:
        """Take as `barrier` the peers to send to and receive from in each of its turns."""
        self.rank, self.ranks, self.connections = rank, ranks, connections
        self._barrier = barrier
        self._epoch = 0
        """Barriers so far."""

    @property
    def generation(self) -> int:
        """Return the generation that all ranks agreed on."""
        return self.connections.generation

    def raise_if_left(self) -> None:
        """Raise Left when this generation must be left."""
        self.connections.raise_if_left()

    def close(self) -> None:
        """Close every connection and discard unsent data."""
        self.connections.close()

    def barrier(self) -> None:
        """Return when every rank has called this."""
        self._epoch += 1
        for turn, (destination, source) in enumerate(self._barrier):
            message = _BARRIER.pack(b"sync", self.generation, self._epoch, turn)
            received = bytearray(len(message))
            run(
                self.connections,
                send_all(self.connections, destination, message),
                receive_all(self.connections, source, received),
            )
            check_opening(received, message)


def check_opening(received: bytes | bytearray, expected: bytes) -> None:
    """Raise WrongGeneration or ProtocolError unless a message has the expected opening.

    Every opening begins with four bytes for its kind and four for its generation.
    """
    if received == expected:
        return
    came, wanted = (int.from_bytes(opening[4:8], "big") for opening in (received, expected))
    if received[:4] == expected[:4] and came != wanted:
        raise WrongGeneration(f"received a message of generation {came}, expected {wanted}")
    raise ProtocolError(f"a rank opened a message with {bytes(received)!r}, not with {expected!r}")


def chunk_bounds(size: int, chunks: int) -> list[tuple[int, int]]:
    """Cut `size` elements into chunks; the first ones are longer by at most one element."""
    short, longer = divmod(size, chunks)
    starts = [short * chunk + min(chunk, longer) for chunk in range(chunks + 1)]
    return [(starts[chunk], starts[chunk + 1]) for chunk in range(chunks)]
