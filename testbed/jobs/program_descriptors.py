"""Descriptors of the jobs that run ordinary programs; importing them loads no job code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from testbed.fabric.topologies import RING
from testbed.jobs.option_checks import check_counts, check_mesh
from testbed.plugins import Kind, nearest
from testbed.schema.topology import TopologyOption
from testbed.units import DIMENSIONS, Bytes

Better = Literal["lower", "higher", "neither"]

LONGEST_PATTERN = 500
MOST_METRICS = 32

_METRIC = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A metric that a program prints: the group of a regular expression matches the number.

    Of several such lines, of all ranks, the median counts.
    """

    pattern: str
    """A regular expression of Python, searched in each line."""
    unit: str
    """What the printed number is in: `Mbit/s`, `ms`, `MiB`, `%`, ...; `1` or `1/s` for others."""
    better: Better

    def __post_init__(self) -> None:
        """Refuse a pattern without exactly one group, and unknown units."""
        if len(self.pattern) > LONGEST_PATTERN:
            raise ValueError(f"a pattern of {len(self.pattern)} characters is too long")
        try:
            groups = re.compile(self.pattern).groups
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{self.pattern!r} is not a regular expression: {error}") from None
        if groups != 1:
            raise ValueError(f"{self.pattern!r} has {groups} groups, and the number must be in one")
        if self.unit not in (known := list(_FACTORS)):
            raise ValueError(f"{self.unit!r} is not a unit; {nearest(self.unit, known)}")

    @property
    def base(self) -> tuple[str, float]:
        """Return the base unit, and the factor that converts numbers in `unit` to it."""
        return _FACTORS[self.unit]


_FACTORS = {
    unit: (next(base for base, one in dimension.units.items() if one == 1), factor)
    for dimension in DIMENSIONS[:-1]
    for unit, factor in dimension.units.items()
} | {"1": ("1", 1.0), "%": ("%", 1.0)}
"""By unit, its base unit and its factor."""


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """Any program; one process per host of a rank, all started together."""

    ranks: int
    command: tuple[str, ...]
    """The program and its arguments; no shell reads them."""
    metrics: Mapping[str, Pattern] = field(default_factory=dict)
    """By name, what is read from its standard output."""
    topology: TopologyOption = RING

    def __post_init__(self) -> None:
        """Refuse a program without a name."""
        _check_program(self, self.command)

    def measures(self) -> tuple[str, ...]:
        """Return no metrics besides those that `metrics` defines."""
        return ()


@dataclass(frozen=True, slots=True)
class TorchrunOptions:
    """A script under torchrun; one torchrun agent per host of a rank."""

    ranks: int
    script: tuple[str, ...]
    """The script and its arguments, as on torchrun's command line."""
    gpus: int = 1
    """Processes on each host."""
    port: int = 29500
    """Where the first host listens on the management network."""
    mesh: dict[str, int] | None = None
    """Sizes of the dimensions along which the script makes its groups, the last varying fastest:
    on a circuit switch its rails are re-pointed for them, if its backend is `testbed`."""
    metrics: Mapping[str, Pattern] = field(default_factory=dict)
    """By name, what is read from its standard output."""
    topology: TopologyOption = RING

    def __post_init__(self) -> None:
        """Refuse a script without a name, and ports that only root may listen on."""
        _check_program(self, self.script)
        check_counts(self, "gpus")
        if self.mesh is not None:
            check_mesh(self.mesh, self.ranks, 0)
            if self.gpus > 1:
                raise ValueError("the ranks of a mesh are hosts, each with one process: gpus is 1")
        if not 1024 <= self.port < 65536:
            raise ValueError(f"{self.port} is not a port from 1024 to 65535")

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return what of PyTorch the hosts need."""
        return ("torchrun",)

    def measures(self) -> tuple[str, ...]:
        """Return no metrics besides those that `metrics` defines."""
        return ()


@dataclass(frozen=True, slots=True)
class NcclTestsOptions:
    """A program of nccl-tests or rccl-tests on the GPUs of all ranks' hosts."""

    ranks: int
    """Hosts; `gpus` on each take part."""
    program: str = "all_reduce_perf"
    """As the hosts find it; any of theirs."""
    launch: Literal["mpirun", "srun", "agent"] = "mpirun"
    """Who starts it: MPI over all hosts, or one process per host, each measuring its own GPUs."""
    gpus: int = 8
    smallest: Bytes = 8
    largest: Bytes = 1 << 27
    factor: int = 2
    """Between one size and the next."""
    iterations: int = 20
    warmup: int = 5
    report: Literal["table", "json"] = "table"
    """What is read: the table on standard output, or the JSON of nccl-tests since October 2025."""
    arguments: tuple[str, ...] = ()
    """More of its own arguments, as [-o, sum, -I, '1']."""
    topology: TopologyOption = RING

    def __post_init__(self) -> None:
        """Refuse programs that are not of nccl-tests, and sizes in the wrong order."""
        from testbed.analysis.nccl import COLLECTIVES, collective_of

        if collective_of(self.program) == "unknown":
            known = [f"{name}_perf" for name in COLLECTIVES]
            raise ValueError(
                f"{self.program!r} is not a program of nccl-tests; {nearest(self.program, known)}"
            )
        check_counts(self, "ranks", "gpus", "iterations", "smallest")
        check_counts(self, "warmup", least=0)
        check_counts(self, "factor", least=2)
        if self.largest < self.smallest:
            raise ValueError("largest is less than smallest")

    @property
    def any_size(self) -> bool:
        """Return true: the sizes that it measures depend on its arguments."""
        return True

    def measures(self) -> tuple[str, ...]:
        """Return no metrics besides those of message sizes."""
        return ()


def _check_program(options: CommandOptions | TorchrunOptions, command: tuple[str, ...]) -> None:
    check_counts(options, "ranks")
    if not command or not command[0]:
        raise ValueError("the command names no program")
    if any("\0" in word for word in command):
        raise ValueError("an argument of a program must not contain a NUL character")
    if len(options.metrics) > MOST_METRICS:
        raise ValueError(f"expected at most {MOST_METRICS} metrics, got {len(options.metrics)}")
    for name in options.metrics:
        if not _METRIC.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for a metric, such as 'throughput'")


COMMAND = Kind(
    "any program on the hosts, begun together; metrics are read from what it prints",
    "testbed.jobs.programs:Command",
    options=CommandOptions,
)
TORCHRUN = Kind(
    "a script under torchrun; metrics are read from what it prints",
    "testbed.jobs.programs:Torchrun",
    options=TorchrunOptions,
)
NCCL_TESTS = Kind(
    "a program of nccl-tests or rccl-tests on GPUs: algbw and busbw by message size",
    "testbed.jobs.nccl_programs:NcclTests",
    options=NcclTestsOptions,
)
