"""The jobs `command` and `torchrun`: the command lines of their hosts, and their metrics.

Tried with PyTorch 2.13 and gloo on a twin; not on GPUs.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.analysis.metric_definitions import MetricDefinition
from testbed.fabric.topologies import Topology
from testbed.jobs.contracts import FIRST_ADDRESS, Job, ProgramOutput, Reading
from testbed.jobs.patterns import readings
from testbed.jobs.program_descriptors import CommandOptions, Pattern, TorchrunOptions
from testbed.schema import Host

_NOT_STARTED = {126: "it may not be executed", 127: "it was not found"}
"""What shells, and launchers after them, mean by these codes."""


class Program(Job):
    """A program on the host of each rank, with patterns that read metrics from its output."""

    hardware_only = ""

    def __init__(
        self, ranks: int, topology: Topology | None, patterns: Mapping[str, Pattern]
    ) -> None:
        self.ranks = ranks
        self.topology = topology
        self._patterns = patterns

    @property
    def metrics(self) -> Mapping[str, MetricDefinition]:
        """Return the definitions of the metrics in the experiment file."""
        return {
            name: MetricDefinition(pattern.base[0], pattern.better, f"read by {pattern.pattern!r}")
            for name, pattern in self._patterns.items()
        }

    def for_rank(self) -> Mapping[str, Any]:
        """Return the configuration of a rank that runs a program."""
        return {"kind": "program", "options": {}}

    def verdict(self, code: int) -> str:
        """Return why an exit code (negative for a signal) means failure; empty for success."""
        if not code:
            return ""
        if code in _NOT_STARTED:
            return f"it ended with code {code}: {_NOT_STARTED[code]}"
        number = -code if code < 0 else code - 128  # as shells hand on the end of what they ran
        try:
            return f"it was ended by {signal.Signals(number).name}"
        except ValueError:
            return f"it ended with code {code}"

    def readings(self, said: Sequence[ProgramOutput]) -> Iterator[Reading]:
        """Yield every metric that a pattern found in the output."""
        yield from readings(self._patterns, [one.stdout for one in said])


class Command(Program):
    """Any program, the same on every host; environment variables tell it its rank."""

    def __init__(self, options: CommandOptions) -> None:
        super().__init__(options.ranks, options.topology, options.metrics)
        self._command = options.command

    def command_lines(self, hosts: Sequence[Host]) -> tuple[tuple[str, ...], ...]:
        """Return the command line for each rank's host."""
        return tuple(self._command for _ in hosts)


class Torchrun(Program):
    """A script under torchrun, whose agents rendezvous over the management network.

    Each rank has an agent of its own, so several on a host are so many nodes to torchrun.
    """

    shares_hosts = True

    def __init__(self, options: TorchrunOptions) -> None:
        super().__init__(options.ranks, options.topology, options.metrics)
        self._options = options

    def on_circuits(self) -> Job:
        """Return the job with the groups of its mesh on rails, if it has one."""
        return self if self._options.mesh is None else TorchrunOnRails(self._options)

    def command_lines(self, hosts: Sequence[Host]) -> tuple[tuple[str, ...], ...]:
        """Return the command line for each rank's host."""
        options = self._options
        return tuple(
            (
                "torchrun",
                *("--nnodes", str(len(hosts)), "--node-rank", str(rank)),
                *("--nproc-per-node", str(options.gpus)),
                *("--master-addr", FIRST_ADDRESS, "--master-port", str(options.port)),
                *options.script,
            )
            for rank in range(len(hosts))
        )


class TorchrunOnRails(Torchrun):
    """A script whose groups have their circuits when it communicates, by the backend `testbed`."""

    controllers = ("rails",)

    def __init__(self, options: TorchrunOptions) -> None:
        from testbed.collectives.groups import groups, named
        from testbed.collectives.halving import pairs_met

        super().__init__(options)
        assert options.mesh is not None
        self._along = groups(options.mesh)
        self.topology = None
        self.groups = named(self._along)
        self.matchings = {
            name: tuple(
                tuple((ranks[one], ranks[other]) for one, other in pairs)
                for pairs in pairs_met(len(ranks))
            )
            for name, ranks in self.groups.items()
            if len(ranks) > 2
        }

    def for_rank(self) -> Mapping[str, Any]:
        """Return the configuration of a rank that runs a program, with all groups of the mesh.

        Of dimensions whose groups meet in pairs only, it has the matchings, and the collectives
        that they can do so.
        """
        from testbed.collectives.halving import in_pairs, pairs_met
        from testbed.collectives.schedule import to_json

        told = {name: list(map(list, found)) for name, found in self._along.items()}
        ranks = {name: len(found[0]) for name, found in told.items() if len(found[0]) > 2}
        options = {
            "groups": told,
            "matchings": {
                n: [list(map(list, p)) for p in pairs_met(of)] for n, of in ranks.items()
            },
            "in_pairs": {n: [to_json(each) for each in in_pairs(of)] for n, of in ranks.items()},
        }
        return {"kind": "program", "options": options}
