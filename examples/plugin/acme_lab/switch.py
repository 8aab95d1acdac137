"""Driver of an Acme crossbar: inputs are ports 1…N, outputs N+1…N+M.

Its SCPI: `JOIN (@1,2),(@9,10)` connects pairs, `PART` disconnects them, `MAP?` answers with all of
them in the same form, `SIZE?` with N,M. What it refuses is in the error queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from acme_lab.descriptors import AcmeOptions
from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.fabric.change import Change
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.dialects.scpi_syntax import port_list, port_lists
from testbed_drivers.switches.switch import (
    ChangeResult,
    Switch,
    capabilities_of,
    checked_state,
    sides,
    size,
)
from testbed_drivers.transports.base import Endpoint


class Acme(Switch[AcmeOptions, Scpi]):
    """Driver of an Acme crossbar."""

    def _new_dialect(self, endpoint: Endpoint) -> Scpi:
        return Scpi(endpoint, ends=(b"\n", b"\n"), denied=("*RST",))

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, including those of other clients."""
        parse = partial(_state, self.capabilities, self._ports)
        return self._dialect.query(":MAP?", parse, deadline)

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        return capabilities_of(
            self._options, sides(*self._dialect.query(":SIZE?", _size, deadline))
        )

    def _carry_out(self, change: Change, deadline: Deadline) -> ChangeResult:
        """Remove and add in one line, each as one list."""
        return ChangeResult(*self._dialect.execute(list(_orders(change)), deadline))


def _orders(change: Change) -> Iterator[str]:
    for verb, pairs in (("PART", change.removes), ("JOIN", change.adds)):
        if pairs:
            yield f":{verb} {port_list(pairs)},{port_list(pairs.values())}"


def _size(reply: str) -> tuple[int, int]:
    inputs, outputs = reply.split(",")
    return size(int(inputs), int(outputs))


def _state(can: Capabilities, ours: frozenset[int], reply: str) -> State:
    lists = port_lists(reply)
    if len(lists) != 2 or len(lists[0]) != len(lists[1]):
        raise ValueError(f"{reply!r}, expected two port lists of equal length")
    return checked_state(zip(*lists, strict=True), can, reply, ours)
