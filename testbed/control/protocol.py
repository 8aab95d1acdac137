"""The observations that a policy receives and the commands that it returns, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from testbed.fabric.circuits import Circuit, HostPort, Matching

# --- observations: reports of agents -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CarrierLost:
    """A port of a host lost its carrier, as its own agent reports."""

    port: HostPort


@dataclass(frozen=True, slots=True)
class RankEnded:
    """A rank's process ended on its own."""

    rank: int
    code: int


@dataclass(frozen=True, slots=True)
class HeartbeatMissed:
    """A rank's process has been silent for longer than its limit."""

    rank: int


@dataclass(frozen=True, slots=True)
class ValuesCorrupt:
    """A rank found sums that cannot be right."""

    rank: int
    why: str


@dataclass(frozen=True, slots=True)
class AgentLost:
    """The link to a host's agent ended."""

    host: str


# --- observations: outcomes of commands ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostAnswered:
    """A probed host's agent answered."""

    host: str


@dataclass(frozen=True, slots=True)
class HostSilent:
    """A probed host's agent did not answer within the limit."""

    host: str


@dataclass(frozen=True, slots=True)
class HostOff:
    """The outlet of a host that did not answer is off: nothing runs there."""

    host: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """The victim can no longer take part."""


@dataclass(frozen=True, slots=True)
class FenceFailed:
    """The fence that was commanded for a host failed, or is not permitted any more."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class LinksGood:
    """The circuits read back, carry light, and both ends of each were identified.

    `newcomer` is that of the command; if empty, the present one.
    """

    newcomer: str = ""


@dataclass(frozen=True, slots=True)
class RankLeft:
    """A rank has left the broken generation; `committed` steps are in its state."""

    rank: int
    committed: int


@dataclass(frozen=True, slots=True)
class SpareReady:
    """The replacement's process runs and waits to join; if `host` is empty, the present one's."""

    host: str = ""


@dataclass(frozen=True, slots=True)
class StepDone:
    """A rank of the new generation finished a step with verified values."""

    rank: int
    step: int


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """A command could not be carried out; `spare` if the spare is to blame.

    `newcomer` is the spare that the command brought in; if empty, the present one.
    """

    reason: str
    spare: bool = False
    newcomer: str = ""


Observation = (
    CarrierLost
    | RankEnded
    | HeartbeatMissed
    | ValuesCorrupt
    | AgentLost
    | HostAnswered
    | HostSilent
    | HostOff
    | Fenced
    | FenceFailed
    | LinksGood
    | RankLeft
    | SpareReady
    | StepDone
    | CommandFailed
)

# --- commands ------------------------------------------------------------------------------


Means = Literal["power", "network", "process", "none"]
"""How a victim is fenced: its outlet is turned off; its circuits are disconnected; its processes
are ended by an agent; nothing is done, because its outlet is off already."""


@dataclass(frozen=True, slots=True)
class ProbeHost:
    """Ask a host's agent to answer within `limit` seconds; read its outlet if it does not."""

    host: str
    limit: float


@dataclass(frozen=True, slots=True)
class Decide:
    """Record which host or circuit failed, and what replaces it."""

    because: str
    victim: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Ensure, by these means and no others, that a rank can no longer take part."""

    rank: int
    host: str
    means: Means


@dataclass(frozen=True, slots=True)
class SetCircuits:
    """Program the circuits, then verify `verify` from both ends.

    `newcomer` is the spare host that they bring in: when it does not answer, the spare has failed.
    """

    circuits: Matching
    verify: frozenset[Circuit]
    newcomer: str = ""


@dataclass(frozen=True, slots=True)
class Leave:
    """Have ranks abandon a generation."""

    ranks: frozenset[int]
    generation: int


@dataclass(frozen=True, slots=True)
class PrepareSpare:
    """Have a process ready on the spare host to become a rank."""

    rank: int
    host: str


@dataclass(frozen=True, slots=True)
class Join:
    """Form a new generation that goes on after `committed` steps.

    `restore` maps each rank that needs the state to the rank that sends it.
    """

    generation: int
    hosts: tuple[str, ...]
    committed: int
    restore: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the recovery as failed, for this reason."""

    reason: str


Command = ProbeHost | Decide | Fence | SetCircuits | Leave | PrepareSpare | Join | GiveUp


@dataclass(frozen=True, slots=True)
class Situation:
    """The running job that a policy starts from.

    `hosts` are the ranks' hosts in rank order, `spares` the hosts that could replace one. `fences`
    are those that the lab permits of each host.
    """

    hosts: tuple[str, ...]
    spares: tuple[str, ...]
    ports: Mapping[str, tuple[str, ...]]
    generation: int
    fences: Mapping[str, Collection[Means]]


class Policy(Protocol):
    """A recovery policy, made from its options; states are its own frozen data."""

    def begin(self, situation: Situation) -> Any:
        """Return the state for a job that runs without failures."""

    def step(self, state: Any, observation: Observation) -> tuple[Any, tuple[Command, ...]]:
        """Return the next state and what to do."""

    def is_recovering(self, state: Any) -> bool:
        """Tell whether a recovery is under way."""
