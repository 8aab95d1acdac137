"""The circuits that a rail's word stands for. Pure.

A word has a bit for each pipeline stage: set while its ranks talk to those of another stage, clear
while they talk among themselves. Which hosts are a stage is not on the wire: as in the recorded
job they are numbered by stage, so that stage s of S has N / S hosts after each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.fabric.circuits import Matching, Wiring, cross_connects, matching
from testbed.rails.stage import RankPorts, Stage, circuits_of


class WordCircuits:
    """The circuits of one rail by its word."""

    def __init__(self, ports: RankPorts, stages: int, wiring: Wiring) -> None:
        """Take the ports of each host's rank on the rail; raise ValueError where a word has none.

        So it is where stages have unlike numbers of hosts, where ranks have too few ports for two
        neighbours or a ring, and where no switch joins them.
        """
        if len(ports) % stages:
            raise ValueError(f"{len(ports)} hosts do not make {stages} pipeline stages of one size")
        self._ports, self._stages = ports, stages
        self._width = len(ports) // stages
        for word in (0, (1 << stages) - 1):
            cross_connects(self.circuits(word), wiring)

    def circuits(self, word: int) -> Matching:
        """Return the circuits of a word; raise ValueError for a bit of no stage.

        A stage whose bit is set and whose neighbours' are not has none.
        """
        if not 0 <= word < 1 << self._stages:
            raise ValueError(f"word {word} has a bit for more than {self._stages} pipeline stages")
        return matching(circuit for part in self._parts(word) for circuit in part)

    def _parts(self, word: int) -> Iterator[Matching]:
        for stage in range(self._stages):
            is_pipeline = bool(word >> stage & 1)
            if not is_pipeline and self._width > 1:
                yield self._joined(self._hosts(stage), self._hosts(stage))
            if is_pipeline and word >> (stage + 1) & 1:
                for place in range(self._width):
                    line = tuple(range(place, len(self._ports), self._width))
                    yield self._joined(line[stage : stage + 2], line)

    def _hosts(self, stage: int) -> tuple[int, ...]:
        return tuple(range(stage * self._width, (stage + 1) * self._width))

    def _joined(self, hosts: tuple[int, ...], group: tuple[int, ...]) -> Matching:
        return circuits_of(Stage("", 0, hosts), group, self._ports)
