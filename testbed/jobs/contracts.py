"""The contracts of jobs: what the orchestrator asks of one before and while its ranks run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from testbed.analysis.metric_definitions import Better, MetricDefinition
from testbed.schema import Host

if TYPE_CHECKING:
    from testbed.collectives.cost import Links
    from testbed.collectives.repointing import Joint
    from testbed.collectives.schedule import Schedule


class Job(Protocol):
    """A kind of job, made from its options."""

    ranks: int
    spares: int = 0
    topology: str = "ring"
    last_step: int | None = None
    """The step after which its ranks are told to end; None when it ends by itself or never."""
    endless: bool = False
    """It lives on from trial to trial; a job with an end starts anew in each."""

    def for_rank(self) -> Mapping[str, Any]:
        """Return what a rank is configured with: the name of its program and its options."""


@runtime_checkable
class PredictableJob(Protocol):
    """A `Job` whose metrics the cost model predicts."""

    def predict(self, links: Links, late: Mapping[int, float]) -> Mapping[str, float]:
        """Return what is expected of its metrics, with some ranks `late` by seconds."""


@runtime_checkable
class StepJob(Protocol):
    """A `Job` of steps that end with an AllReduce."""

    chooses: Schedule | None
    """The schedule that it begins with where the AllReduce is chosen while it runs; else None."""

    def gradient_bytes(self, state_bytes: int) -> int:
        """Return the size of what is summed, for ranks with so much state."""

    def predict_steps(
        self, links: Links, late: Mapping[int, float], step: float, state_bytes: int
    ) -> Mapping[str, float]:
        """Return what is expected of its metrics with some ranks `late` by seconds.

        `step` is what a step took before that.
        """


@runtime_checkable
class FabricDependentJob(Protocol):
    """A job that runs differently on a circuit switch than on a packet switch."""

    def on_circuits(self) -> Job:
        """Return the job for circuits; raise ValueError where it cannot run on any."""


@runtime_checkable
class CircuitRequestingJob(Protocol):
    """A `PredictableJob` whose ranks ask for circuits while it runs."""

    circuits: Sequence[Sequence[Joint]]
    """All that they ask for, by number; 0 are those that it begins with."""

    def choices(self, links: Links) -> Mapping[str, Mapping[str, str]]:
        """Return, by algorithm and size, which schedule to run; nothing where no choice is left."""


class Model(Protocol):
    """A kind of job that is computed and not run; the role of its `Kind` is `model`."""

    def values(self) -> Mapping[str, float]:
        """Return its metrics by name."""


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The standard output of one rank's program, and the contents of its report file."""

    host: str
    stdout: str
    report: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric read from the output of programs, in the base unit of its dimension."""

    metric: str
    value: float
    unit: str
    better: Better
    count: int
    """How many numbers it is the median, or the worst, of."""


@runtime_checkable
class ProgramJob(Protocol):
    """A `Job` whose ranks run an ordinary program each."""

    hardware_only: str
    """Why a twin cannot run it, or an empty string."""

    @property
    def metrics(self) -> Mapping[str, MetricDefinition]:
        """Return the metrics that its options define, by name."""

    def command_lines(self, hosts: Sequence[Host]) -> tuple[tuple[str, ...], ...]:
        """Return what each rank's host runs, in rank order; nothing where it is empty.

        Raise ValueError where the hosts lack what the program needs.
        """

    def verdict(self, code: int) -> str:
        """Return why an exit code (negative for a signal) is none of success, or nothing."""

    def readings(self, said: Sequence[ProgramOutput]) -> Iterator[Reading]:
        """Yield what was measured; raise LabError when what was said cannot be read."""
