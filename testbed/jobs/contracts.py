"""The interfaces of jobs, which the orchestrator uses before and while ranks run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from testbed.analysis.metric_definitions import Better, MetricDefinition
from testbed.fabric.topologies import RING, Topology
from testbed.schema import Host

if TYPE_CHECKING:
    from testbed.collectives.cost import Links
    from testbed.collectives.repointing import Joint
    from testbed.collectives.schedule import Schedule


class Job(Protocol):
    """The interface of a kind of job; an instance holds the options."""

    ranks: int
    spares: int = 0
    topology: Topology | None = RING
    """How circuits join its ranks; None where each talks to all others, over a packet switch."""
    last_step: int | None = None
    """The step after which its ranks are told to end; None when it ends by itself or never."""
    controllers: tuple[str, ...] = ()
    """The kinds of the controllers that it cannot do without: each reacts while it runs."""
    controller_options: Mapping[str, Mapping[str, Any]] = {}
    """By kind of such a controller, its options as a file would give them; it has none unless they
    are here."""
    endless: bool = False
    """It lives on from trial to trial; a job with an end starts anew in each."""

    def for_rank(self) -> Mapping[str, Any]:
        """Return the configuration of a rank: `kind`, the name of its program, and `options`.

        The program is a module of `testbed.onhost.jobs`, or, with a dot in its name, one of a
        package that is registered under `testbed.onhost`.

        With `checkpoint`, a mapping of `every` and `keep`, its state is written to disk, too.
        """


@runtime_checkable
class PredictableJob(Protocol):
    """A `Job` whose metrics the cost model predicts."""

    def predict(self, links: Links, late: Mapping[int, float]) -> Mapping[str, float]:
        """Return the predicted metrics; `late` maps late ranks to their delay in seconds."""


@runtime_checkable
class SlotsJob(Protocol):
    """A `Job` whose circuits follow a table of time slots."""

    def predict_slots(self, links: Links, dark: float) -> Mapping[str, float]:
        """Return the metrics that follow from how long a slot begins without light.

        `dark` is what switch and link are known to take, in seconds, and no measurement.
        """


@runtime_checkable
class SizesJob(Protocol):
    """A `Job` that repeats a collective of several sizes, alone on its links."""

    def predict_sizes(self, links: Links) -> Mapping[str, float]:
        """Return the metrics that the rate of the links predicts, where nothing is broken."""


@runtime_checkable
class StepJob(Protocol):
    """A `Job` that consists of steps, each ending with an AllReduce."""

    chooses: Schedule | None
    """The schedule that it begins with where the AllReduce is chosen while it runs; else None."""

    def gradient_bytes(self, state_bytes: int) -> int:
        """Return the bytes that an AllReduce sums, for ranks with `state_bytes` of state."""

    def predict_steps(
        self, links: Links, late: Mapping[int, float], step: float, state_bytes: int
    ) -> Mapping[str, float]:
        """Return the predicted metrics; `late` maps late ranks to their delay in seconds.

        `step` is the time of a step without a delay, in seconds; 0 where it is not known.
        """


@runtime_checkable
class FabricDependentJob(Protocol):
    """A job that runs differently on a circuit switch and on a packet switch."""

    def on_circuits(self) -> Job:
        """Return the job for a circuit switch; raise ValueError if it cannot run on one."""


@runtime_checkable
class CircuitRequestingJob(Protocol):
    """A `PredictableJob` whose ranks request circuits while it runs, or are told of them."""

    circuits: Sequence[Sequence[Joint]]
    """All that they ask for or are told of, by number; 0 are those that it begins with."""

    def choices(self, links: Links) -> Mapping[str, Mapping[str, str]]:
        """Return, by algorithm and size, the schedule to run; empty where there is no choice."""


@runtime_checkable
class RailsJob(Protocol):
    """A `Job` whose ranks are in groups that are joined by circuits, stage by stage, on rails.

    A rail is all ranks with one number on their host, each of which has ports of its own.
    """

    groups: Mapping[str, tuple[int, ...]]
    """The ranks of each group, by name."""


@runtime_checkable
class PairedRailsJob(Protocol):
    """A `RailsJob` of which some groups exchange two ranks at a time, in matchings."""

    matchings: Mapping[str, tuple[tuple[tuple[int, int], ...], ...]]
    """By group that does, the pairs of its ranks in each matching."""


@runtime_checkable
class ReplicatedJob(Protocol):
    """A `RailsJob` in which several ranks hold the same state."""

    replicas: tuple[tuple[int, ...], ...]
    """Groups of ranks with the same state, on one rail each."""


PREDICTED = "predicted"
Values = Mapping[str, float | str | Mapping[str, float]]


class Model(Protocol):
    """A kind of job that is computed by a model and not run; the role of its `Kind` is `model`."""

    def values(self, seed: int) -> Values:
        """Return the values of the job's metrics by name, with random draws from a seed if any.

        Under `PREDICTED` may be what a formula expects of some of them, by name.
        """


@runtime_checkable
class DividedModel(Model, Protocol):
    """A `Model` that first computes parts which do not depend on one another."""

    def parts(self) -> int:
        """Return the number of parts; 0 where there is nothing to divide."""

    def part(self, seed: int, number: int) -> Any:
        """Compute one part; the result goes to another process, so it must be picklable."""

    def values_of_parts(self, seed: int, parts: Iterable[Any]) -> Values:
        """Return what `values` returns, from all parts in their order."""


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The standard output of one rank's program, and the contents of its report file."""

    host: str
    stdout: str
    report: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric found in the output of programs, in the base unit of its dimension."""

    metric: str
    value: float
    unit: str
    better: Better
    count: int
    """How many numbers it is the median, or the worst, of."""


FIRST_ADDRESS = "{address of rank 0}"
"""In a command line: the address of the first host on the management network."""


@runtime_checkable
class ProgramJob(Protocol):
    """A `Job` whose ranks each run an ordinary program."""

    hardware_only: str
    """Why a twin cannot run it, or an empty string."""

    @property
    def metrics(self) -> Mapping[str, MetricDefinition]:
        """Return the metrics that the options define, by name."""

    def command_lines(self, hosts: Sequence[Host]) -> tuple[tuple[str, ...], ...]:
        """Return the command line for each rank's host, in rank order; empty to run nothing.

        A word `FIRST_ADDRESS` is replaced as the program is started, for only hosts know it.
        Raise ValueError where the hosts lack what the program needs.
        """

    def verdict(self, code: int) -> str:
        """Return why an exit code (negative for a signal) means failure; empty for success."""

    def readings(self, said: Sequence[ProgramOutput]) -> Iterator[Reading]:
        """Yield the metrics in the programs' output; raise LabError for unreadable output."""


@runtime_checkable
class HostSharingProgram(Protocol):
    """A `ProgramJob` of which several ranks may be on one host."""

    shares_hosts: bool
