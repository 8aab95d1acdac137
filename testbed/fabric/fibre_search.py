"""Find which circuits to light to identify every port's fibres; pure functions.

Two ports whose plugs are swapped receive each other's light as if nothing were wrong. So a port
counts as found once it receives from another and one of the two receives from a third: then no swap
explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from testbed.fabric.circuits import Circuit, Fibres, HostPort, Side, Wiring, can_join

Losses = Mapping[HostPort, float]
"""The share of frames lost, as each end of a circuit counted it."""

Carries = Callable[[Circuit, Wiring], Losses | None]
"""Lights a circuit where a wiring has its ends; returns None when it stays silent."""


@dataclass(frozen=True, slots=True)
class PortFinding:
    """The finding for one host port's fibres."""

    port: HostPort
    state: str
    """`found`, `lossy`, `swapped` or `dark`."""
    text: str
    lost: float | None = None
    """The share of frames lost over its circuit; None where none was carried."""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return asdict(self) | {"port": str(self.port)}


class FibreSearch:
    """The search for the fibres of every port of a wiring.

    `tell` receives each finding as soon as it is certain.
    """

    def __init__(
        self, wiring: Wiring, carries: Carries, tell: Callable[[PortFinding], None]
    ) -> None:
        self._wiring = wiring
        self._carries = carries
        self._tell = tell
        self._heard: dict[HostPort, dict[HostPort, float]] = {port: {} for port in wiring}
        """Whom each port has heard, and the share of frames that were lost."""
        self._tried: set[Circuit] = set()
        self._findings: dict[HostPort, PortFinding] = {}

    def run(self) -> list[PortFinding]:
        """Light one circuit after the other; return a finding per port, in the wiring's order."""
        chain = _chain(self._wiring)
        for one, other in pairwise(chain):
            self._light(one, other)
            self._tell_proved(chain[: chain.index(other)])  # the other has its next circuit yet
        for one, other in zip(chain, chain[2:], strict=False):
            if not self._proved(one):  # every other port may be wrong, so that no neighbours hear
                self._light(one, other)
        self._tell_proved(chain)
        for port in self._open():
            self._try_alone(port)
            self._tell_proved(chain)
        for port in self._open():
            self._say(self._examined(port))
        return [self._findings[port] for port in self._wiring]

    # --- what is known ----------------------------------------------------------------------

    def _open(self) -> list[HostPort]:
        return [port for port in self._wiring if port not in self._findings]

    def _is_proved(self, port: HostPort) -> bool:
        heard = self._heard[port]
        return len(heard) > 1 or any(len(self._heard[other]) > 1 for other in heard)

    def _joinable(self, port: HostPort) -> list[HostPort]:
        """Return the ports that a circuit can join with this one; a host drops its own frames."""
        return [
            other
            for other in self._wiring
            if other.host != port.host and can_join(port, other, self._wiring)
        ]

    def _references(self, port: HostPort) -> list[HostPort]:
        """Return the ports to try this one with: one that is proved, else all that were heard."""
        return self._proved(port)[:1] or [p for p in self._joinable(port) if self._heard[p]]

    def _proved(self, port: HostPort) -> list[HostPort]:
        return [other for other in self._joinable(port) if self._is_proved(other)]

    # --- what is tried ----------------------------------------------------------------------

    def _light(self, one: HostPort, other: HostPort) -> None:
        """Try a circuit between two ports where the wiring has them, unless it was tried."""
        circuit = Circuit.between(one, other)
        if other not in self._joinable(one) or circuit in self._tried:
            return
        self._tried.add(circuit)
        losses = self._carries(circuit, self._wiring)
        if losses is not None:
            self._heard[one][other], self._heard[other][one] = losses[one], losses[other]

    def _try_alone(self, port: HostPort) -> None:
        """Try a port of a silent circuit with those that are known to be better."""
        for reference in self._references(port):
            if self._is_proved(port):
                return
            self._light(port, reference)

    def _examined(self, port: HostPort) -> PortFinding:
        """Say what is wrong with a port that nothing proved."""
        for other in self._alike(port):
            if finding := self._exchanged(port, other):
                return finding
        if self._heard[port]:
            return self._found(port)
        fibres = self._wiring[port]
        if not self._proved(port):
            text = f"no port that {fibres.tx.switch} could join it to is certain to be in place"
            return PortFinding(port, "dark", f"{text}: this port cannot be tested")
        text = f"no light to or from {fibres.tx} and {fibres.rx}: unplugged, broken or elsewhere"
        return PortFinding(port, "dark", text)

    def _alike(self, port: HostPort) -> list[HostPort]:
        """Return the ports, not proved either, whose fibres these could have been swapped with."""
        mine = self._wiring[port]
        return [
            other
            for other, theirs in self._wiring.items()
            if other != port
            and not self._is_proved(other)
            and (mine.tx.switch, mine.rx.switch) == (theirs.tx.switch, theirs.rx.switch)
            and mine.is_bidi == theirs.is_bidi
        ]

    def _exchanged(self, port: HostPort, other: HostPort) -> PortFinding | None:
        """Try each exchange of fibres that two ports may have had."""
        references = [reference for reference in self._references(port) if reference != other]
        if other in self._heard[port]:  # so any third may be the one that is right
            references = [third for third in self._joinable(port) if third != other]
        for reference in references:
            circuit = Circuit.between(port, reference)
            for text, mine, theirs in _swaps(self._wiring[port], self._wiring[other], other):
                swapped = {**self._wiring, port: mine, other: theirs}
                losses = (
                    self._carries(circuit, swapped) if can_join(*circuit.ends, swapped) else None
                )
                if losses is not None:
                    return PortFinding(port, "swapped", text, losses[port])
        return None

    # --- what is said -----------------------------------------------------------------------

    def _tell_proved(self, ports: Iterable[HostPort]) -> None:
        for port in ports:
            if port not in self._findings and self._is_proved(port):
                self._say(self._found(port))

    def _found(self, port: HostPort) -> PortFinding:
        """Say how well a port is heard, over the best of its circuits: others have other fibres."""
        partner, lost = min(self._heard[port].items(), key=lambda heard: heard[1])
        text = f"hears {partner} and is heard; {lost:.1%} of its frames lost"
        return PortFinding(port, "lossy" if lost else "found", text, lost)

    def _say(self, finding: PortFinding) -> None:
        self._findings[finding.port] = finding
        self._tell(finding)


def _chain(wiring: Wiring) -> list[HostPort]:
    """Return the ports so that most neighbours can be joined: of one switch, of different hosts.

    The first ports of all hosts come first, then their second ones; of ports with one fibre, those
    on the two sides of a switch take turns.
    """
    columns: dict[HostPort, int] = {}
    count: dict[str, int] = {}
    for port in wiring:
        columns[port] = count[port.host] = count.get(port.host, -1) + 1

    rows = {host: row for row, host in enumerate(count)}

    def place(port: HostPort) -> tuple[list[str], int, int]:
        fibres, row = wiring[port], rows[port.host]
        switches = sorted((fibres.tx.switch, fibres.rx.switch))
        if not (fibres.is_bidi and fibres.side in (Side.INPUT, Side.OUTPUT)):
            return switches, columns[port], 0
        return switches, (row + (fibres.side is Side.OUTPUT)) % 2, row

    return sorted(wiring, key=place)


def _swaps(mine: Fibres, theirs: Fibres, other: HostPort) -> Iterator[tuple[str, Fibres, Fibres]]:
    """Yield each exchange of fibres that two ports may have had, in words first."""
    if not mine.is_bidi:
        what = f"fibre and that of {other} are swapped"
        text = f"its transmit {what}: {mine.tx} and {theirs.tx}"
        yield text, replace(mine, tx=theirs.tx), replace(theirs, tx=mine.tx)
        text = f"its receive {what}: {mine.rx} and {theirs.rx}"
        yield text, replace(mine, rx=theirs.rx), replace(theirs, rx=mine.rx)
    yield f"its fibres and those of {other} are swapped", theirs, mine
