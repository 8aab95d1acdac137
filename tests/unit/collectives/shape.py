"""Find malformed rounds of a schedule, before any of it is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from testbed.collectives.schedule import Round, Schedule

Trouble = Literal[
    "shape",
    "conflict",
    "straggler",
    "missing",
    "double",
    "redundant",
    "incomplete",
    "unused",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a schedule, and its round; None stands for the end of the schedule."""

    trouble: Trouble
    round: int | None
    text: str

    def __str__(self) -> str:
        where = "in the end" if self.round is None else f"in round {self.round}"
        return f"{where}, {self.text}"


def misshapen(schedule: Schedule, number: int, step: Round) -> list[Problem]:
    """Return the malformed sends of a round, or that the round has no sends."""
    if not len(step):
        return [Problem("shape", number, "no rank sends anything")]
    ranks, chunks = schedule.ranks, schedule.chunks
    ends = np.stack([step.source, step.destination])
    wrong = (step.source == step.destination) | (ends < 0).any(axis=0) | (ends >= ranks).any(axis=0)
    wrong |= (step.chunk < 0) | (step.count < 1) | (step.chunk + step.count > chunks)
    sends = list(step) if wrong.any() else []
    return [
        Problem(
            "shape",
            number,
            f"{sends[at]} is not a valid send among {ranks} ranks and {chunks} chunks",
        )
        for at in np.flatnonzero(wrong)
    ]


def conflicts(number: int, step: Round) -> list[Problem]:
    """Return the ranks that send twice or receive twice in a round."""
    found = []
    for ends, does in ((step.source, "sends"), (step.destination, "receives")):
        uses = np.bincount(ends)
        found += [
            Problem("conflict", number, f"rank {rank} {does} {uses[rank]} times")
            for rank in np.flatnonzero(uses > 1)
        ]
    return found


def straggler_violations(schedule: Schedule, early: int, number: int, step: Round) -> list[Problem]:
    """Return where a schedule breaks the rules for schedules that expect a straggler.

    Such a schedule begins with `early` rounds without the straggler, unless there are only two
    ranks; from the straggler's arrival on each rank has one peer in a round.
    """
    if schedule.straggler is None:
        return []
    if number == 0 == early and schedule.ranks > 2:
        text = f"rank {schedule.straggler} takes part, which is expected last"
        return [Problem("straggler", number, text)]
    if number < early:
        return []
    peers = np.bincount(np.array(step.pairs, np.int32).ravel())
    return [
        Problem("straggler", number, f"rank {rank} has {peers[rank]} peers")
        for rank in np.flatnonzero(peers > 1)
    ]
