"""The observations of a running job that its agents and ranks report, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.analysis.clocks import Instant
from testbed.fabric.circuits import HostPort
from testbed.rails.stage import Stage


@dataclass(frozen=True, slots=True)
class CarrierFound:
    """A fabric port has its carrier, and had none before."""

    port: HostPort


@dataclass(frozen=True, slots=True)
class CarrierLost:
    """The agent of a host reports that a port lost its carrier."""

    port: HostPort


@dataclass(frozen=True, slots=True)
class RankEnded:
    """A rank's process ended on its own."""

    rank: int
    code: int


@dataclass(frozen=True, slots=True)
class HeartbeatMissed:
    """A rank's process has sent no heartbeat for longer than its limit."""

    rank: int


@dataclass(frozen=True, slots=True)
class ValuesCorrupt:
    """A rank found a sum of the AllReduce that cannot be right."""

    rank: int
    why: str


@dataclass(frozen=True, slots=True)
class CheckpointWritten:
    """The state of a rank before a step is durable on the disk of its host."""

    rank: int
    step: int


@dataclass(frozen=True, slots=True)
class CheckpointMissed:
    """The state of a rank before a step was not written, as was due or ordered."""

    rank: int
    step: int
    why: str


@dataclass(frozen=True, slots=True)
class CheckpointsFound:
    """A rank has verified its checkpoints, and could go on with the state before these steps."""

    rank: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AgentLost:
    """The connection to a host's agent has ended."""

    host: str


@dataclass(frozen=True, slots=True)
class CircuitsAsked:
    """A rank asks for circuits, by their number; it counts once all ranks in `of` have asked.

    Requests of one generation of the job are numbered.
    """

    rank: int
    generation: int
    number: int
    circuits: int
    of: frozenset[int]

    @property
    def key(self) -> tuple[int, int]:
        """Return what the same request of all its ranks has in common."""
        return self.generation, self.number


@dataclass(frozen=True, slots=True)
class GroupJoined:
    """A rank is ready to take part in a group whose ranks are on one rail."""

    rank: int
    group: str


@dataclass(frozen=True, slots=True)
class StageReached:
    """A rank has come to a stage, and waits where its circuits are not lit."""

    rank: int
    stage: Stage


@dataclass(frozen=True, slots=True)
class StageLeft:
    """A rank has ended its traffic in a stage; `following` is the next, where it knows one."""

    rank: int
    following: Stage | None


@dataclass(frozen=True, slots=True)
class StepTimed:
    """A rank finished a step, in a job whose AllReduce is chosen while it runs.

    `choice` is the number of the one that it followed; it `entered` the collective and came to its
    `end` in seconds of the log, None where the clock of its host was not measured.
    """

    rank: int
    generation: int
    step: int
    choice: int
    entered: Instant | None
    end: Instant | None
