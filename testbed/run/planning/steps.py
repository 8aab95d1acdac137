"""The steps of a plan, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.fabric.circuits import Circuit, CrossConnect, HostPort


@dataclass(frozen=True, slots=True)
class OpenInstruments:
    """Lock, open and identify instruments; read the circuits on the plan's ports."""

    switches: tuple[str, ...]
    power: tuple[str, ...]
    attenuators: tuple[str, ...] = ()
    meters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenHosts:
    """Start the agent of each host and give its fabric ports addresses and routes."""

    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Light:
    """One direction of a circuit: the cross-connect that carries it, and its two host ports."""

    cross: CrossConnect
    source: HostPort
    sink: HostPort


@dataclass(frozen=True, slots=True)
class ProgramCircuits:
    """Make the job's circuits: the cross-connects to add, then verify from both ends."""

    circuits: tuple[Circuit, ...]
    adds: tuple[Light, ...]


@dataclass(frozen=True, slots=True)
class VerifyPaths:
    """Identify every port on a packet switch from the next; no circuit is made."""

    ports: tuple[HostPort, ...]


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start the ranks, connect them, and probe every link."""

    name: str
    kind: str
    hosts: tuple[str, ...]
    spares: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...] = ()
    """By rank, the command line of an ordinary program; empty where the ranks are our own."""
    asked: tuple[tuple[Circuit, ...], ...] = ()
    """All circuits that the ranks will ask for while they run, by number."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One fault of one trial, drawn from the seed.

    It fires `phase` of a step's time into step `step` of the trial, counted from its baseline; or
    `after` seconds after the one before it, which fires in that step or later.
    """

    kind: str
    rank: int
    step: int
    phase: float
    hold: float | None
    port: str = ""
    """The fabric port that is hit, where the fault hits one."""
    entry: int = 0
    """Which of the experiment's faults it is."""
    after: float | None = None
    """Seconds after the fault before it; None where it waits for its step."""
    job: str = ""
    """The job that it strikes."""


@dataclass(frozen=True, slots=True)
class FarEndFault:
    """A fault of a switch's far end from a step until the end of the trial; on twins only."""

    kind: str
    switch: str
    step: int
    entry: int
    """Which of the experiment's faults it is."""


@dataclass(frozen=True, slots=True)
class PredictedDecision:
    """What a controller is expected to judge as failed, and what replaces it."""

    victim: str
    replacement: str


@dataclass(frozen=True, slots=True)
class PredictedFence:
    """The host that is expected to be fenced, and by which means."""

    host: str
    means: str


@dataclass(frozen=True, slots=True)
class PredictedRecovery:
    """The expected course of the recovery of a job after the fault of a trial."""

    job: str
    controller: str
    decisions: tuple[PredictedDecision, ...]
    fences: tuple[PredictedFence, ...]
    circuits: tuple[tuple[Circuit, ...], ...]
    """Those of the job after each change, in order."""
    hosts: tuple[str, ...]
    """Of each rank, once it is over."""


@dataclass(frozen=True, slots=True)
class RunTrial:
    """One trial of one arm."""

    number: int
    arm: str
    faults: tuple[FaultPlan, ...]
    """Those of jobs, in the order in which they are injected."""
    far_end_faults: tuple[FarEndFault, ...] = ()
    removes: tuple[Circuit, ...] = ()
    """The circuits of the arm before that this arm does not have, removed before the trial."""
    adds: tuple[Circuit, ...] = ()
    """The circuits of this arm that the arm before does not have."""
    recoveries: tuple[PredictedRecovery, ...] = ()
    """What is expected to recover each job from the fault, where something does."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Undo all changes of the run."""

    keep_circuits: bool


Step = OpenInstruments | OpenHosts | ProgramCircuits | VerifyPaths | StartJob | RunTrial | Restore
