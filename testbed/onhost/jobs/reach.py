"""The job `reach`: who reaches whom, on one matching of the ranks after the other.

Every rank asks all others on each matching. It asks for the circuits of the next one when it is
done, so circuits stay until the last rank has finished, and by then all that was asked has arrived.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..communication.circuits import RING, CircuitGroup
from ..communication.control import Control
from ..communication.reach import ReachPort, median_of_each
from .state import State


@dataclass(frozen=True)
class Options:
    """The options: how many `probes` to each other rank, `interval` seconds apart.

    `circuits` are the options of `CircuitGroup`: those of the ring, and the matchings, which use
    port 0 of every rank.
    """

    probes: int
    interval: float
    circuits: Mapping[str, Any]


class Job:
    """Goes through all matchings once and ends; the matching follows from the step number."""

    connects_to = "everybody"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        self._options = Options(**options)
        self._matchings = len(self._options.circuits["circuits"]) - 1
        self.state = State(0)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Do nothing."""

    def run(self, group: CircuitGroup, control: Control) -> None:
        """Ask on every matching from the next step on."""
        port = ReachPort(group.rank, group.ports[0], group.numbers)
        try:
            step = self.state.step
            assert step is not None
            if step < self._matchings:
                group.light(step + 1)
            while step < self._matchings and not control.ends_before(step):
                self._ask(step, port, group, control)
                step += 1
        finally:
            port.close()

    def _ask(self, step: int, port: ReachPort, group: CircuitGroup, control: Control) -> None:
        """Ask on one matching, and go on to the next: report when all ranks have asked."""
        matching = step + 1
        peer = next(iter(group.peers(matching)), None)
        begin = time.monotonic()
        options = self._options
        answers = port.ask(matching, options.probes, options.interval, peer, group.raise_if_left)
        end = time.monotonic()
        group.light(matching + 1 if matching < self._matchings else RING)
        self.state.commit()
        control.emit(
            "reach",
            end,
            generation=group.generation,
            step=step,
            begin=begin,
            end=end,
            peer=peer,
            asked=options.probes,
            answered={str(rank): len(times) for rank, times in answers.items()},
            heard={str(rank): count for rank, count in port.heard(matching).items()},
            rtt=median_of_each(answers),
        )
