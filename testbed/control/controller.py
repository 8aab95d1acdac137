"""The interface of controllers: a pure step from an observation to commands, and a wake time.

Recovery policies, schedules of circuits and all else that reacts while jobs run are controllers.
Each has scopes, in which no other controller of the same experiment acts, and owns only circuits
that it made itself. One executor brings observations, in the order in which their sources sent
them, and carries commands out; every command that has an outcome gets exactly one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from testbed.control import protocol
from testbed.control.policy import Policy, Situation
from testbed.control.slices import RackFibres, fibres_of
from testbed.fabric.circuits import HostPort, Matching
from testbed.plugins import RECOVERS, JobPart

if TYPE_CHECKING:
    from testbed.collectives.cost import Links
    from testbed.collectives.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a job that a controller acts on: its membership, circuits or AllReduce.

    `part` names a rail or a slice of the job; empty, it is all of the job.
    """

    of: JobPart
    job: str
    part: str = ""

    def __str__(self) -> str:
        part = f" on {self.part}" if self.part else ""
        return f"the {self.of} of job {self.job}{part}"

    def overlaps(self, other: Scope) -> bool:
        """Tell whether controllers with these two scopes could contradict each other."""
        parts = self.part == other.part or not (self.part and other.part)
        return self.of == other.of and self.job == other.job and parts


# --- what a controller begins with -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChosenCollective:
    """The AllReduce of a job that leaves it to the testbed, of `size` bytes in each step.

    `number` is that of the choice, 0 of the one that ranks begin with; `links` are known once the
    ranks have probed them.
    """

    schedule: Schedule
    size: int
    links: Links | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class JobView:
    """A running job: the host and the fabric ports of each rank, as topologies number them.

    `step` is the last one that every rank has finished, -1 before the first; `requests` are all
    circuits that its ranks may ask for, by number; `collective` is there where it is chosen;
    `spares` are hosts that could replace one; `groups` are the ranks of each group that is joined
    by rails, `replicas` those with the same state, `matchings` the pairs of ranks, one matching
    after the other, of groups that are not joined as a whole. With `is_recovered` a controller acts
    on its membership, which may replace a rank that has ended.
    """

    hosts: tuple[str, ...]
    ports: tuple[tuple[HostPort, ...], ...]
    generation: int = 1
    step: int = 0
    requests: tuple[Matching, ...] = ()
    collective: ChosenCollective | None = None
    spares: tuple[str, ...] = ()
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    replicas: tuple[tuple[int, ...], ...] = ()
    matchings: Mapping[str, Sequence[Sequence[tuple[int, int]]]] = field(
        default_factory=dict, hash=False
    )
    is_recovered: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """The initial state that a controller begins with.

    `spares` are the hosts that could replace another, `ports` the fabric ports of every host,
    `fences` the means of fencing that the lab permits for each host, `circuits` the lit circuits
    that this controller owns, `rack` is there where circuits pass several switches. `now` is in
    seconds, as all times that a controller gets or returns.
    """

    now: float
    jobs: Mapping[str, JobView]
    spares: tuple[str, ...] = ()
    ports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fences: Mapping[str, Collection[protocol.Means]] = field(default_factory=dict)
    circuits: Matching = frozenset()
    rack: RackFibres | None = None


# --- observations ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimerExpired:
    """The time that `wake_at` returned has come."""


@dataclass(frozen=True, slots=True)
class JobObserved:
    """An observation about a job: a report of an agent, or the outcome of a job's command."""

    job: str
    what: protocol.Observation


@dataclass(frozen=True, slots=True)
class MembershipChanged:
    """The hosts that run the ranks of a job have changed."""

    job: str
    view: JobView


@dataclass(frozen=True, slots=True)
class CircuitsChanged:
    """The controller's change of circuits was made and read back; all others are as before."""


@dataclass(frozen=True, slots=True)
class ChangeFailed:
    """The controller's change was refused, or failed and was rolled back: no circuit changed.

    Or it was made, and an end of a new circuit is not what it should be.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class OwnObservation:
    """The base of outcomes that a package adds, with its own commands."""


Observation = (
    TimerExpired | JobObserved | MembershipChanged | CircuitsChanged | ChangeFailed | OwnObservation
)

# --- commands --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeCircuits:
    """Remove circuits that the controller owns, then add others; all of it or nothing.

    With `identify`, both ends of each new circuit are identified over its light besides. Its
    outcome is CircuitsChanged or ChangeFailed.
    """

    remove: Matching
    add: Matching
    identify: bool = False


@dataclass(frozen=True, slots=True)
class CommandJob:
    """Carry out a command on a job; its outcomes, if any, are observations of that job."""

    job: str
    what: protocol.Command


@dataclass(frozen=True, slots=True)
class Fail:
    """End the trial as failed: the controller cannot go on, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """The base of commands that a package adds: its controller's `Kind` names their handlers."""


Command = ChangeCircuits | CommandJob | Fail | OwnCommand


class Controller(Protocol):
    """A controller, made from its options; its states are immutable data of its own."""

    @property
    def scopes(self) -> Sequence[Scope]:
        """Return the scopes that the controller acts on."""

    def begin(self, view: View) -> Any:
        """Return the first state; raise ValueError where the options do not fit the view."""

    def step(
        self, state: Any, now: float, observation: Observation
    ) -> tuple[Any, tuple[Command, ...]]:
        """Return the next state and the commands to carry out."""

    def wake_at(self, state: Any) -> float | None:
        """Return when the controller wants a TimerExpired at the latest, or None."""


@runtime_checkable
class RecoveryController(Controller, Protocol):
    """A controller that recovers jobs: what waits for a recovery asks it whether one goes on."""

    def is_recovering(self, state: Any) -> bool:
        """Tell whether a recovery is in progress."""


@runtime_checkable
class CircuitPlanner(Controller, Protocol):
    """A controller whose circuits are known before a run."""

    def circuits(self, view: View) -> tuple[Matching, ...]:
        """Return every matching that it may command; raise ValueError as `begin` does."""


def overlapping(scopes: Mapping[str, Collection[Scope]]) -> str | None:
    """Return two controllers, given by name, whose scopes overlap, or None."""
    for (one, mine), (other, theirs) in combinations(scopes.items(), 2):
        for scope in mine:
            if any(scope.overlaps(their) for their in theirs):
                return f"{one} and {other} both act on {scope}"
    return None


def seen_by(controller: Controller, view: View) -> View:
    """Return the view of one controller of several jobs, without what is another job's.

    Left out are spares of jobs that it does not act on, and circuits of jobs whose it does not
    move: their fibres are taken.
    """
    jobs = {scope.job for scope in controller.scopes}
    others = {host for name, job in view.jobs.items() if name not in jobs for host in job.spares}
    moved = {scope.job for scope in controller.scopes if scope.of == "circuits"}
    hosts = {host for job in moved & view.jobs.keys() for host in view.jobs[job].hosts}
    own = frozenset(circuit for circuit in view.circuits if hosts.issuperset(circuit.hosts))
    rack = view.rack and replace(view.rack, taken=fibres_of(view.circuits - own))
    spares = tuple(host for host in view.spares if host not in others)
    return replace(view, spares=spares, circuits=own, rack=rack)


class PolicyController:
    """A recovery policy as the controller of one job's membership, and mostly of its circuits."""

    def __init__(self, policy: Policy, job: str, acts_on: Sequence[JobPart] = RECOVERS) -> None:
        self._policy = policy
        self._job = job
        self.scopes = tuple(Scope(part, job) for part in acts_on)

    def begin(self, view: View) -> Any:
        """Return the policy's state for a job that runs without failures."""
        job = view.jobs[self._job]
        routed = view.circuits if view.rack else frozenset()
        about = job.generation, view.fences, job.replicas, view.rack, routed
        return self._policy.begin(Situation(job.hosts, view.spares, view.ports, *about))

    def step(
        self, state: Any, now: float, observation: Observation
    ) -> tuple[Any, tuple[Command, ...]]:
        """Return the policy's next state, and its commands as commands of the job."""
        match observation:
            case JobObserved(job, what) if job == self._job:
                state, commands = self._policy.step(state, what)
                return state, tuple(CommandJob(job, command) for command in commands)
        return state, ()

    def wake_at(self, state: Any) -> float | None:
        """Return None: policies have no timers and wait for observations only."""
        return None

    def is_recovering(self, state: Any) -> bool:
        """Tell whether the policy has a recovery under way."""
        return self._policy.is_recovering(state)
