"""Descriptors of the built-in policies and controllers; importing them loads no code of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from testbed.plugins import PHASES, Kind, Phase, RecoveryProperties
from testbed.units import TIME, Seconds

LONGEST_WAIT = 60.0
"""Seconds that ranks wait for the circuits of a stage at most (onhost/communication/rails.py)."""

SHORTEST_SLOT = 1e-3
"""Seconds; no switch changes its circuits sooner."""


def _phases(**others: Phase) -> tuple[Phase, ...]:
    """Return the phases of a recovery with others in place of some that are named."""
    return tuple(others.get(phase.name, phase) for phase in PHASES)


_SURVIVORS = Phase("waiting", "ready", "waiting", "for the switch's answer or the last survivor")
_STARTING = Phase("starting", "ready", "waiting", "until every rank has been started again")
_READING = Phase("restoring", "t9", "restoring", "until every rank has read or was sent its state")


def check_heartbeat(limit: float) -> None:
    """Raise ValueError for a heartbeat limit, in seconds, that no healthy rank could meet."""
    if limit <= 0:
        raise ValueError(
            "heartbeat must be above 0: a rank that is silent for longer is replaced; "
            "200 ms is usual"
        )


@dataclass(frozen=True, slots=True)
class SpliceOptions:
    """The options of the policy `splice`."""

    standby: Literal["warm", "cold"] = "warm"
    """`warm`: the spare's process runs with its imports done; `cold`: it starts at the failure."""
    heartbeat: Seconds = 0.2
    """How long a rank may be silent before it counts as frozen."""
    probe: Seconds = 0.01
    """How long a host whose circuits went dark may take to answer, beyond what it usually takes.

    Then it is asked once more, for twenty times as long, and its outlet is looked at.
    """

    def __post_init__(self) -> None:
        """Raise ValueError for a heartbeat limit that no healthy rank could meet."""
        check_heartbeat(self.heartbeat)


SPLICE = Kind(
    "a spare host takes the victim's place through the fabric; survivors stay up",
    "testbed.control.splice:Splice",
    options=SpliceOptions,
    recovery=RecoveryProperties(shares_hosts=True, finds_fibres=True),
)


@dataclass(frozen=True, slots=True)
class ShrinkOptions:
    """The options of the policy `shrink`."""

    heartbeat: Seconds = 0.2
    """How long a rank may be silent before it counts as frozen."""
    probe: Seconds = 0.01
    """How long a host whose circuits went dark may take to answer, beyond what it usually takes."""

    def __post_init__(self) -> None:
        """Raise ValueError for a heartbeat limit that no healthy rank could meet."""
        check_heartbeat(self.heartbeat)


_AT_ONCE = Phase("waiting", "ready", "waiting", "for the spare or the last survivor")
_ON_CIRCUITS = Phase(
    "joining", "t8", "reconfiguration", "until groups are joined by circuits, and the last rank"
)


@dataclass(frozen=True, slots=True)
class ReplaceOptions:
    """The options of the policy `replace`."""

    standby: Literal["warm", "cold"] = "warm"
    """`warm`: processes wait on the spare, imports done; `cold`: they start at the failure."""
    heartbeat: Seconds = 0.2
    """How long a rank may be silent before it counts as frozen."""
    probe: Seconds = 0.05
    """How long a host to which a circuit went dark may take to answer, beyond what it usually
    takes. Then it is asked once more, for twenty times as long, and its outlet is looked at."""
    quiet: Seconds = 0.2
    """How long no rank may say anything of its stages before all hosts are probed."""

    def __post_init__(self) -> None:
        """Raise ValueError for limits that no healthy rank could meet."""
        check_heartbeat(self.heartbeat)
        if self.quiet <= 0:
            raise ValueError("quiet must be above 0; 200 ms is usual")


REPLACE = Kind(
    "a spare host takes the ranks of a host that fails; another controller moves the circuits",
    "testbed.control.replace:Replace",
    options=ReplaceOptions,
    acts_on=("membership",),
    recovery=RecoveryProperties(
        shares_hosts=True, phases=_phases(waiting=_AT_ONCE, joining=_ON_CIRCUITS)
    ),
)


SHRINK = Kind(
    "the ring is closed past a host that failed; the others share its part of each batch",
    "testbed.control.shrink:Shrink",
    options=ShrinkOptions,
    recovery=RecoveryProperties(newcomer="never", phases=_phases(waiting=_SURVIVORS)),
)


@dataclass(frozen=True, slots=True)
class RestartOptions:
    """The options of the policies `restart` and `migrate`."""

    heartbeat: Seconds = 0.2
    """How long a rank may be silent before it counts as frozen."""
    probe: Seconds = 0.01
    """How long a host whose circuits went dark may take to answer, beyond what it usually takes."""

    def __post_init__(self) -> None:
        """Raise ValueError for a heartbeat limit that no healthy rank could meet."""
        check_heartbeat(self.heartbeat)


RESTART = Kind(
    "all ranks end and start again from the newest checkpoint, on a spare where a host failed",
    "testbed.control.restart:Restart",
    options=RestartOptions,
    recovery=RecoveryProperties(
        newcomer="host", restarts=True, phases=_phases(waiting=_STARTING, restoring=_READING)
    ),
)


MIGRATE = Kind(
    "the whole job moves to as many spare hosts, and starts again there from its newest checkpoint",
    "testbed.control.restart:Migrate",
    options=RestartOptions,
    recovery=RecoveryProperties(
        restarts=True,
        moves_all=True,
        phases=_phases(waiting=_STARTING, restoring=_READING),
    ),
)


@dataclass(frozen=True, slots=True)
class RotateSlot:
    """A time slot of `rotate`: which ranks are joined in it, and how long it lasts."""

    topology: Literal["all-to-all", "pairs", "ring"] | None = None
    """Ranks are joined as it says. Of `all-to-all`, each matching has a slot of its own."""
    links: tuple[tuple[int, int], ...] | None = None
    """Pairs of ranks, instead: each takes the lowest fabric port that its ranks have left."""
    steps: int | None = None
    """How many steps of the job it lasts."""
    hold: Annotated[float | None, TIME] = None
    """How long it lasts, whatever the job does, instead."""

    def __post_init__(self) -> None:
        """Refuse a slot that says both or neither of what it joins, and of how long."""
        for one, other in (("topology", "links"), ("steps", "hold")):
            if (getattr(self, one) is None) == (getattr(self, other) is None):
                raise ValueError(f"a time slot has either {one!r} or {other!r}")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"a time slot lasts at least 1 step, not {self.steps}")
        if self.hold is not None and self.hold < SHORTEST_SLOT:
            raise ValueError(f"a time slot lasts at least 1 ms, not {TIME.format(self.hold)}")


@dataclass(frozen=True, slots=True)
class RotateOptions:
    """The table of time slots that the controller `rotate` goes through again and again."""

    slots: tuple[RotateSlot, ...]

    def __post_init__(self) -> None:
        """Refuse an empty table, and one that counts steps and seconds."""
        if not self.slots:
            raise ValueError("a rotation needs at least one time slot")
        if len({slot.steps is None for slot in self.slots}) > 1:
            raise ValueError("all time slots last so many steps, or all so long: not some of each")


ROTATE = Kind(
    "circuits follow a table of time slots, by steps or by time, while the job goes on",
    "testbed.control.rotate:rotate",
    options=RotateOptions,
    acts_on=("circuits",),
)

CIRCUIT_REQUESTS = Kind(
    "circuits that the ranks of a job ask for are made; such a job brings it along",
    "testbed.control.circuit_requests:circuit_requests",
    acts_on=("circuits",),
    lives_with="job",
)


@dataclass(frozen=True, slots=True)
class RailsOptions:
    """When the circuits of a stage on a rail are requested, and how long ranks wait for them."""

    mode: Literal["on-demand", "provisioned", "learned"] = "on-demand"
    """As ranks reach a stage; as they leave the one before; or in between, as was quicker."""
    limit: Seconds = 10.0
    """How long ranks wait for their circuits until the trial fails, as in Opus."""
    forward: bool = False
    """`learned` may forward groups over the circuits of other rails, where that is cheaper."""

    def __post_init__(self) -> None:
        """Refuse limits that no switch could keep, or that ranks would not wait for."""
        if self.forward and self.mode != "learned":
            raise ValueError(f"forward is for the mode learned, not for {self.mode}")
        if not 0 < self.limit <= LONGEST_WAIT:
            raise ValueError(
                f"limit must be above 0 and at most {TIME.format(LONGEST_WAIT)}, "
                f"not {TIME.format(self.limit)}"
            )


RAILS = Kind(
    "the circuits of each rail follow the stages that its ranks say they reach and leave",
    "testbed.control.rails:Rails",
    options=RailsOptions,
    acts_on=("circuits",),
    lives_with="job",
    handlers="testbed.run.rail_commands:handlers",
)

COLLECTIVE_CHOICE = Kind(
    "the AllReduce that suits the ranks as they arrive; `collective: auto` brings it along",
    "testbed.control.collective_chooser:collective_choice",
    acts_on=("collective",),
    measures=("communication_share", "collective_gain", "step_gain", "gain_agreement"),
    handlers="testbed.run.collective_choices:handlers",
)
