"""Verify a change beyond its read-back: the switch reports it steady, and light passes.

Each level polls, at first every 2 ms and then less and less often, until the longest settle time of
the device is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from testbed.bench.contracts import OpticalSwitch
from testbed.clock import Deadline, now
from testbed.errors import Garbled, InstrumentError, LinkLost, NoReply
from testbed.fabric.change import Change
from testbed.fabric.device import State
from testbed.fabric.reading import DARK, NOT_MEASURED, Readings

MARGIN = 0.1
"""Seconds that a device may take beyond its longest settle time to report it."""
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.05
_BACK_OFF = 1.5
FINAL = ("failed", "disabled")
"""Beginnings of a device's words where waiting does not help."""

Look = TypeVar("Look")


@dataclass(frozen=True, slots=True)
class WallTime:
    """The clock that verification waits on; tests replace it."""

    now: Callable[[], float] = now
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Verified:
    """When the device reported a change steady, and when its light was right.

    Monotonic seconds on this machine; None where it cannot report that, or nothing was made.
    """

    steady: float | None
    lit: float | None


class Verification:
    """Waits for the steady report and for the light of one switch's changes."""

    def __init__(self, name: str, switch: OpticalSwitch, clock: WallTime) -> None:
        self._name = name
        self._switch = switch
        self._clock = clock

    def verify(
        self,
        change: Change,
        shown: State,
        deadline: Deadline,
        unsteady: Mapping[int, str] | None = None,
    ) -> Verified:
        """Wait until the circuits of a change are steady and lit, as far as the switch reports.

        `shown` is the state that was read back, and `unsteady` which of its new circuits were not
        steady, where that was read with it. Raise InstrumentError with the circuit that is not.
        """
        moved = dict({*change.adds.items(), *change.disturbs} & shown.items())
        gone = {i: e for i, e in change.removes.items() if e not in shown.values()}
        is_known = unsteady is not None and not change.disturbs
        steady = now() if moved and is_known and not unsteady else self._steady(moved, deadline)
        return Verified(steady, self._lit(moved, gone, deadline))

    def _steady(self, moved: State, deadline: Deadline) -> float | None:
        if not moved or not self._switch.capabilities.steadiness:
            return None
        for last in self._looks(deadline):
            words = self._read(self._switch.unsteady, deadline, last)
            if words is None:
                continue
            bad = {i: words[i] for i in sorted(moved) if i in words}
            if not bad:
                return now()
            final = {i: word for i, word in bad.items() if word.startswith(FINAL)}
            if last or final:
                ingress, word = next(iter((final or bad).items()))
                raise InstrumentError(self._name, f"reports {ingress}→{moved[ingress]}: {word}")
        raise AssertionError("unreachable: the last poll always returns or raises")

    def _lit(self, moved: State, gone: State, deadline: Deadline) -> float | None:
        """Compare the light that leaves with the light that enters, where both are measured."""
        monitored = self._switch.capabilities.monitored
        paths = [pair for pair in (*moved.items(), *gone.items()) if {*pair} <= monitored]
        if not paths:
            return None
        ports = sorted({port for pair in paths for port in pair})
        for last in self._looks(deadline, self._switch.capabilities.averaging):
            levels = self._read(lambda until: self._switch.power(ports, until), deadline, last)
            if levels is None:
                continue
            wrong = [w for pair in paths if (w := self._wrong(*pair, moved, levels))]
            if not wrong:
                return now()
            if last:
                raise InstrumentError(
                    self._name, wrong[0], hint="look for dirt, a bent fibre or a mirror out of tune"
                )
        raise AssertionError("unreachable: the last poll always returns or raises")

    def _wrong(self, ingress: int, egress: int, moved: State, seen: Readings) -> str:
        """Return what is wrong with the light of one path, or an empty string."""
        leaves = seen.get(egress, NOT_MEASURED)
        launched, left = seen.get(ingress, NOT_MEASURED).dbm, leaves.dbm
        if launched is None or (left is None and leaves != DARK):
            return ""  # an end that is not measured says nothing about the path
        least, most = self._switch.capabilities.loss
        arrives = left is not None and launched - left <= most
        if moved.get(ingress) != egress:
            return f"port {egress} still gets light of {launched:.1f} dBm" if arrives else ""
        if left is None:
            return f"{ingress}→{egress} is dark: {launched:.1f} dBm enter and nothing leaves"
        if least <= launched - left <= most:
            return ""
        return (
            f"{ingress}→{egress} takes {launched - left:.1f} dB from the light, expected at most "
            f"{most:g} dB"
        )

    def _looks(self, deadline: Deadline, averaging: float = 0.0) -> Iterator[bool]:
        """Yield for each poll whether it is the last one, and pause between them."""
        until = self._clock.now() + self._switch.capabilities.settle_max + averaging + MARGIN
        pause = _FIRST_PAUSE
        while True:
            last = self._clock.now() >= until or deadline.passed
            yield last
            if last:
                return
            self._clock.wait(min(pause, deadline.left))
            pause = min(_BACK_OFF * pause, _LONGEST_PAUSE)

    def _read(self, ask: Callable[[Deadline], Look], deadline: Deadline, last: bool) -> Look | None:
        """Return what was read; None when the answer was lost and may be asked for again."""
        try:
            return ask(deadline)
        except (NoReply, LinkLost, Garbled):
            if last:
                raise
            return None
