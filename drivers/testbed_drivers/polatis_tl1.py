"""Driver for Polatis (HUBER+SUHNER) piezo switches, over their TL1.

Inputs are ports 1..N, outputs N+1..N+M. Commands used and their evidence: drivers/README.md.
The flap that the switch times itself is left alone: the units of its intervals are not confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from testbed.bench.contracts import Identity, Tracer
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.cards_tl1 import PolatisTl1Options
from testbed_drivers.piecewise import Refused
from testbed_drivers.polatis import WITHOUT_MONITORS
from testbed_drivers.switch import checked_state, sides
from testbed_drivers.tl1 import Rows, Tl1, refusal_of
from testbed_drivers.tl1_switch import Tl1Switch
from testbed_drivers.tl1_syntax import Request, listed
from testbed_drivers.transport import Dial, dial_for

PORTS_PER_COMMAND = 64
"""The longest list that is sent; the switch's own limit is not public."""


class PolatisTl1(Tl1Switch):
    """A Polatis switch; `dial` replaces the way its line is opened."""

    def __init__(
        self,
        name: str,
        resource: str,
        ports: frozenset[int],
        identity: str | None,
        options: PolatisTl1Options,
        tracer: Tracer,
        *,
        dial: Dial | None = None,
    ) -> None:
        dial = dial or dial_for(name, resource, options.transport)
        tl1 = Tl1(
            name,
            lambda deadline: dial(name, resource, baud=0, deadline=deadline),
            tracer,
            user=options.user,
            password=options.password,
            introduction=(Request("RTRV-NETYPE", "", ("",)), Request("RTRV-INV", "OCS", ("",))),
            who=_identity,
            serial=identity,
        )
        super().__init__(name, ports, tl1)
        self._options = options

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, ours or not."""
        parse = partial(_state, self.capabilities)
        return self._tl1.ask([Request("RTRV-PATCH", "", ("",))], parse, deadline)

    def power(self, ports: Iterable[int], deadline: Deadline) -> Mapping[int, float | None]:
        """Return the light level at monitored ports in dBm; None where the monitor sees none."""
        wanted = sorted(self.capabilities.monitored.intersection(ports))
        queries = [
            Request("RTRV-PORT-POWER", listed(wanted[start : start + PORTS_PER_COMMAND]), ("",))
            for start in range(0, len(wanted), PORTS_PER_COMMAND)
        ]
        parse = partial(_levels, wanted, self._options.floor)
        return self._tl1.ask(queries, parse, deadline) if wanted else {}

    def _learn(self, who: Identity, deadline: Deadline) -> Capabilities:
        query = Request("RTRV-EQPT", "SYSTEM", ("", "", "PARAMETER=SIZE"))
        ingress, egress = sides(*self._tl1.ask([query], _size, deadline))
        has_monitors = not who.model.startswith(WITHOUT_MONITORS)
        monitored = ingress | egress if has_monitors else frozenset[int]()
        settle, longest = self._options.settle, self._options.settle_max
        return Capabilities(ingress, egress, settle, longest, monitored=monitored)

    def _take_down(self, pairs: State, deadline: Deadline) -> Refused:
        # One end names a circuit. Both ends would name two when somebody has just moved one.
        portions = list(_portions(pairs))
        orders = [Request("DLT-PATCH", listed(some), ("",)) for some in portions]
        return self._refused(portions, orders, deadline)

    def _set_up(self, pairs: State, deadline: Deadline) -> Refused:
        portions = list(_portions(pairs))
        orders = [
            Request("ENT-PATCH", f"{listed(some)},{listed(some.values())}", ("",))
            for some in portions
        ]
        return self._refused(portions, orders, deadline)

    def _refused(
        self, portions: Sequence[State], orders: Sequence[Request], deadline: Deadline
    ) -> Refused:
        replies = self._tl1.do(orders, deadline)
        return {
            ingress: words
            for some, reply in zip(portions, replies, strict=True)
            if (words := refusal_of(reply))
            for ingress in some
        }


def _portions(pairs: State) -> Iterator[dict[int, int]]:
    rows = sorted(pairs.items())
    for start in range(0, len(rows), PORTS_PER_COMMAND):
        yield dict(rows[start : start + PORTS_PER_COMMAND])


def _identity(answers: Sequence[Rows]) -> Identity:
    (kind,), inventory = answers
    maker, model, _, firmware = (part.strip() for part in kind.split(",", 3))
    serial = re.search(r"\bSN=([^,:\s]+)", ",".join(inventory))
    if serial is None:
        raise ValueError(f"{inventory} has no serial number")
    return Identity(maker, model, serial[1], firmware)


def _size(answers: Sequence[Rows]) -> tuple[int, int]:
    match = re.search(r"\bSIZE=(\d+)x(\d+)", ",".join(answers[0]))
    if match is None:
        raise ValueError(f"{answers[0]} has no size")
    return int(match[1]), int(match[2])


def _state(can: Capabilities, answers: Sequence[Rows]) -> State:
    """Return the cross-connects of rows `1,17`; either end may come first."""
    pairs = [tuple(sorted(map(int, row.split(",")))) for row in answers[0]]
    return checked_state(((i, e) for i, e in pairs), can, ", ".join(answers[0]))


def _levels(ports: Sequence[int], floor: float, answers: Sequence[Rows]) -> dict[int, float | None]:
    """Return the levels of rows `17:-3.1`, which must be of exactly these ports."""
    rows = [row.partition(":") for rows in answers for row in rows]
    levels = {int(port): float(level) for port, _, level in rows}
    if sorted(levels) != list(ports):
        raise ValueError(f"levels of ports {sorted(levels)} instead of {list(ports)}")
    return {port: level if level > floor else None for port, level in levels.items()}
