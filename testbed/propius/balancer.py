"""The balancer: each client always gets the same client manager, another only while it is down."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from testbed.propius import control_pb2 as messages
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.rpc import Caller, Unreachable

SERVICE = DESCRIPTOR.services_by_name["ClientManager"]


class Balancer:
    """Passes the messages of clients on, by their names.

    All that a message changes is in the store, and a message that is sent again changes nothing
    more; so one that a manager did not answer goes to the next.
    """

    def __init__(self, managers: Sequence[str]) -> None:
        self._managers = [Caller(address, SERVICE) for address in managers]

    def check_in(self, asked: messages.Presence) -> Any:
        """Pass a check-in on."""
        return self._pass("CheckIn", asked)

    def ping(self, asked: messages.ClientName) -> Any:
        """Pass a ping on."""
        return self._pass("Ping", asked)

    def accept(self, asked: messages.Acceptance) -> Any:
        """Pass an acceptance on."""
        return self._pass("Accept", asked)

    def release(self, asked: messages.Acceptance) -> Any:
        """Pass a release on."""
        return self._pass("Release", asked)

    def has_manager(self) -> bool:
        """Return whether a manager is reached that can do its work."""
        return any(manager.is_serving() for manager in self._managers)

    def close(self) -> None:
        """Close all connections."""
        for manager in self._managers:
            manager.close()

    def _pass(self, method: str, asked: Any) -> Any:
        first = zlib.crc32(asked.client.encode()) % len(self._managers)
        order = [*self._managers[first:], *self._managers[:first]]
        for manager in order[:-1]:
            try:
                return manager(method, asked)
            except Unreachable:
                continue
        return order[-1](method, asked)
