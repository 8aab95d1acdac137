"""The lines of one process of a script to its partners in a group that circuits join in pairs.

The processes of a group meet in a store, where each writes at which addresses it listens. Over the
lines goes what our executor sends, a step at a time.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from ..communication.communicator import Vector
from ..communication.connections import PeerConnections
from ..communication.control import LeaveOrder
from ..communication.group import Group
from ..communication.handshake import connect_peers
from ..communication.pair_steps import PairStep
from ..communication.rails import LONGEST_WAIT
from ..communication.rank_identity import RankIdentity
from ..communication.sockets import Port, listen
from ..errors import Left


class Store(Protocol):
    """Where the processes of a group meet; `get` waits until somebody has set the key."""

    def set(self, key: str, value: str) -> None:
        """Set the value of a key."""

    def get(self, key: str) -> bytes:
        """Return the value of a key."""


class PairLines:
    """A line to each partner, and the runs over it; ranks are those in the group.

    A run that takes longer than `timeout` seconds ends, and no other begins any more.
    """

    def __init__(
        self,
        ports: Sequence[Port],
        place: tuple[int, int],
        generation: int,
        store: Store,
        timeout: float,
    ) -> None:
        """Listen on all ports of this rank, and tell the others of the group where.

        `place` is the number of this process among them, and how many there are. Block until the
        first of them has set the token by which all know each other.
        """
        self._ports, self._store, self._timeout = ports, store, timeout
        self._listeners = [listen(port) for port in ports]
        rank, size = place
        store.set(f"listens {rank}", json.dumps([one.getsockname() for one in self._listeners]))
        if rank == 0:
            store.set("token", secrets.token_hex(16))
        self._identity = RankIdentity(store.get("token").decode(), generation, rank, size)
        self._leave = LeaveOrder()
        self._groups: dict[int, Group] = {}

    def connect(self, partner: int, own: int, far: int) -> None:
        """Connect to a partner, over the circuit between the ports with these numbers.

        Raise TimeoutError where it does not answer.
        """
        listens = json.loads(self._store.get(f"listens {partner}"))
        path = self._ports[own], tuple(listens[far])
        patience = min(self._timeout, LONGEST_WAIT)
        until = time.monotonic() + patience
        try:
            found: dict[Any, socket.socket] = {
                **connect_peers(
                    self._listeners, {partner: path}, self._identity, self._leave, until
                )
            }
        except TimeoutError:
            address, number = path[1]
            raise TimeoutError(
                f"nobody answers at {address}, TCP port {number} in {patience:g} s"
            ) from None
        rank, size = self._identity.rank, self._identity.ranks
        connections = PeerConnections(found, self._identity.generation, self._leave)
        self._groups[partner] = Group(rank, size, connections, shared=False)

    def stop_listening(self) -> None:
        """Close the listening sockets; all lines are there."""
        for listener in self._listeners:
            listener.close()

    def run(self, step: PairStep, vector: Vector) -> None:
        """Run a step on a contiguous vector, together with its peer.

        Raise TimeoutError, and what the connection raises.
        """
        limit = threading.Timer(self._timeout, self._leave.give, [self._identity.generation])
        limit.daemon = True
        limit.start()
        try:
            self._groups[step.peer].run(step.schedule, vector)
        except Left:
            raise TimeoutError(f"it was not over in {self._timeout:g} s") from None
        finally:
            limit.cancel()

    def close(self) -> None:
        """Close all lines; safe to call twice."""
        for group in self._groups.values():
            group.close()
