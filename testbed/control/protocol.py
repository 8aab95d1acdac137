"""The observations that a policy receives and the commands that it returns, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from testbed.control.reports import AgentLost as AgentLost
from testbed.control.reports import CarrierFound as CarrierFound
from testbed.control.reports import CarrierLost as CarrierLost
from testbed.control.reports import CheckpointMissed as CheckpointMissed
from testbed.control.reports import CheckpointsFound as CheckpointsFound
from testbed.control.reports import CheckpointWritten as CheckpointWritten
from testbed.control.reports import CircuitsAsked as CircuitsAsked
from testbed.control.reports import GroupJoined as GroupJoined
from testbed.control.reports import HeartbeatMissed as HeartbeatMissed
from testbed.control.reports import RankEnded as RankEnded
from testbed.control.reports import StageLeft as StageLeft
from testbed.control.reports import StageReached as StageReached
from testbed.control.reports import StepTimed as StepTimed
from testbed.control.reports import ValuesCorrupt as ValuesCorrupt
from testbed.fabric.circuits import Circuit, HostPort, Matching

# --- observations: outcomes of commands ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostAnswered:
    """A probed host's agent has answered."""

    host: str
    number: int = field(default=0, compare=False)
    """The number of the probe that it answers; an answer without one, 0, always counts."""


@dataclass(frozen=True, slots=True)
class HostSilent:
    """A probed host's agent did not answer within the limit."""

    host: str


@dataclass(frozen=True, slots=True)
class HostOff:
    """The outlet of a host that did not answer a probe is off."""

    host: str


@dataclass(frozen=True, slots=True)
class FarEndDark:
    """A circuit from a port to the host went dark and was not taken away."""

    port: HostPort
    host: str


@dataclass(frozen=True, slots=True)
class NothingHeard:
    """No rank has said anything of a group, stage or step for as long as the policy waits."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The victim is fenced: it can no longer take part in the job. An empty `host` is any one."""

    host: str = ""


@dataclass(frozen=True, slots=True)
class FenceFailed:
    """The fence that was commanded for a host failed, or is no longer permitted."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class LinksGood:
    """The commanded circuits read back, carry light, and both ends of each were identified.

    `newcomer`, empty for the present one, and `number` are those of the command.
    """

    newcomer: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class RankLeft:
    """A rank has left the broken generation; its state includes `committed` steps."""

    rank: int
    committed: int


@dataclass(frozen=True, slots=True)
class SpareReady:
    """The spare's process runs and waits to join; an empty `host` is the present spare."""

    host: str = ""


@dataclass(frozen=True, slots=True)
class StepDone:
    """A rank of the new generation finished a step with verified values."""

    rank: int
    step: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """Circuits that were commanded are not wanted any more: others were commanded after them.

    So it is where a host that they lead to was to be fenced after them: command them anew once it
    is. No link was verified. `newcomer` and `number` are those of the command that was dropped.
    """

    newcomer: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """A command could not be carried out; `spare` is true if the spare is the cause.

    `newcomer` is the spare that the command brought in; empty means the present one. `number` is
    that of a command of circuits, 0 for any other command.
    """

    reason: str
    spare: bool = False
    newcomer: str = ""
    number: int = 0


_OfHost = CarrierFound | CarrierLost | AgentLost
_Reported = _OfHost | RankEnded | HeartbeatMissed | ValuesCorrupt | CircuitsAsked
_OnRails = GroupJoined | StageReached | StageLeft
_Written = CheckpointWritten | CheckpointMissed | CheckpointsFound
_Probed = HostAnswered | HostSilent | HostOff | FarEndDark | NothingHeard
_Repaired = Fenced | FenceFailed | LinksGood | RankLeft | SpareReady | Superseded | CommandFailed
Observation = _Reported | _OnRails | _Written | _Probed | _Repaired | StepDone | StepTimed

# --- commands ------------------------------------------------------------------------------


DISK = "disk"
"""In place of the rank that a state is taken from: the checkpoint of the rank itself."""

Means = Literal["power", "network", "process", "none"]
"""How a victim is fenced: its outlet is turned off; its circuits are disconnected; its processes
are ended by an agent; nothing is done, because its outlet is off already."""


@dataclass(frozen=True, slots=True)
class ProbeHost:
    """Probe a host's agent with a limit of `limit` seconds; on no answer, read its outlet."""

    host: str
    limit: float
    number: int = field(default=0, compare=False)
    """Repeated by the answer, which tells it from answers to earlier probes."""


@dataclass(frozen=True, slots=True)
class NameFarEnd:
    """Name the host at the other end of the circuit that a port has now, which went dark.

    Its outcome is FarEndDark. Nothing comes of it where the port has no circuit any more, or where
    that is being changed: then it was taken away.
    """

    port: HostPort


@dataclass(frozen=True, slots=True)
class Decide:
    """Record which host or circuit is judged to have failed, and what replaces it, if anything."""

    because: str
    victim: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Fence a rank by the given means and no others, so that it can no longer take part."""

    rank: int
    host: str
    means: Means


@dataclass(frozen=True, slots=True)
class SetCircuits:
    """Set up circuits on the switches, then verify the circuits in `verify` from both ends.

    `newcomer` is the spare host that the circuits connect: when it does not answer, the spare has
    failed. A policy that commands circuits while others are being made numbers them, so that it
    knows which of them an outcome is of.
    """

    circuits: Matching
    verify: frozenset[Circuit]
    newcomer: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Leave:
    """Make ranks leave a generation."""

    ranks: frozenset[int]
    generation: int


@dataclass(frozen=True, slots=True)
class PrepareSpare:
    """Start a process on the spare host that can become a rank."""

    rank: int
    host: str


@dataclass(frozen=True, slots=True)
class RestartRank:
    """End what runs on a host of the job, and start a process there that can become the rank.

    SpareReady follows once it waits to join; CommandFailed where it cannot be started.
    """

    rank: int
    host: str


@dataclass(frozen=True, slots=True)
class Join:
    """Form a new generation of ranks that continues after `committed` steps.

    `restore` maps each rank that needs the state to the rank that sends it, or to DISK for its own
    checkpoint.
    """

    generation: int
    hosts: tuple[str, ...]
    committed: int
    restore: Mapping[int, int | str]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Make all ranks write their state before a step, which none of them has come to yet.

    Its outcomes are CheckpointWritten or CheckpointMissed of each rank; CommandFailed where the job
    writes no checkpoints.
    """

    step: int


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell the ranks of a request that its circuits are lit, which took so many seconds."""

    request: CircuitsAsked
    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Send ranks a message: one of those that `onhost/jobs/rank.py` lists."""

    ranks: tuple[int, ...]
    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the recovery as failed, for the given reason."""

    reason: str


_Find = ProbeHost | NameFarEnd | Decide
_Recover = Fence | SetCircuits | Leave | PrepareSpare | RestartRank | Join
Command = _Find | _Recover | Checkpoint | Acknowledge | Tell | GiveUp
