"""Collectives that lose a rank in a random round, again and again, between the same processes."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.collectives.catalogue import ALGORITHMS, all_reduce
from testbed.collectives.schedule import to_json
from testbed.onhost.communication.rank_schedule import RankSchedule
from tests.unit.onhost.rank_driver import PATIENCE, Gang, RankProcess

SIZE = 4 << 20
STEPS = 3
"""Steps of each generation; as no multiple of the algorithms, so that each of them is broken."""

DOOMED = str(Path(__file__).with_name("doomed_rank.py"))


@dataclass(frozen=True)
class Broken:
    """One round that a rank did not survive, and what became of the others."""

    algorithm: str
    round: int
    fate: str
    committed: Sequence[int]
    """Of the steps of the broken generation, how many each survivor committed."""
    exits: Sequence[float]
    """Seconds from the order to leave until each survivor was out."""


class Breaking:
    """A job `collective` of all algorithms, one step each in turn."""

    def __init__(self, ranks: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._schedules = {name: to_json(all_reduce(name, ranks)) for name in ALGORITHMS}
        given = {"sizes": [SIZE], "schedules": self._schedules, "iterations": 10**6, "warmup": 0}
        self.gang = Gang("collective", given, ranks)
        self._generation = self._step = 0

    def close(self) -> None:
        self.gang.close()

    def lose_one(self) -> Broken:
        """Lose a rank in the next step; then let all do that step again, and more, verified."""
        chance, gang, step = self._random, self.gang, self._step
        algorithm = ALGORITHMS[step % len(ALGORITHMS)]
        rank = chance.randrange(len(gang.members))
        sends = RankSchedule.of(self._schedules[algorithm], rank).sends
        number, fate = chance.choice(sends).round, chance.choice(["SIGKILL", "SIGSTOP"])
        doom = ["--round", str(number), "--share", str(chance.random()), "--fate", fate]
        doomed = gang.start([DOOMED, *doom])
        gang.tell("finish", after_step=step + STEPS - 1)
        with gang.taken(rank, doomed):
            self._join()
            await_fate(doomed)
            committed, exits = self._leave([m for m in gang.members if m is not doomed])
        doomed.close()
        self._join()
        gang.hear("done", step=step + STEPS)
        self._step += STEPS
        return Broken(algorithm, number, fate, [said - step for said in committed], exits)

    def _join(self) -> None:
        self._generation += 1
        self.gang.join(self._generation, step=self._step)

    def _leave(self, survivors: Sequence[RankProcess]) -> tuple[list[int], list[float]]:
        told = time.monotonic()
        for member in survivors:
            member.tell("leave", generation=self._generation)
        left = [member.hear("left", generation=self._generation) for member in survivors]
        return [said["committed"] for said in left], [said["mono"] - told for said in left]


def await_fate(doomed: RankProcess) -> None:
    """Wait until a doomed rank was killed or stands still."""
    how = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
    deadline = time.monotonic() + PATIENCE
    while os.waitid(os.P_PID, doomed.process.pid, how) is None:
        assert time.monotonic() < deadline, "it lives on"
        time.sleep(1e-3)
