"""The job `nccl-tests`: command lines to launch its programs, and reading of their output.

It was not tried on GPUs. Command lines follow the READMEs of the programs, Open MPI 5 and Slurm;
the samples of output in tests were written by hand from the programs' sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.analysis.metric_definitions import size_name
from testbed.analysis.nccl import Half, Output
from testbed.analysis.nccl_files import read_output
from testbed.errors import LabError
from testbed.jobs.contracts import ProgramOutput, Reading
from testbed.jobs.program_descriptors import NcclTestsOptions
from testbed.jobs.programs import Program
from testbed.schema import Host

_CODES = {
    1: "an internal error",
    2: "CUDA failed",
    3: "NCCL failed",
    4: "its own time limit passed",
    5: "it is not implemented, or there are fewer GPUs than asked for",
    6: "it does not know one of its arguments",
    7: "values were wrong, or the bandwidth was below its own minimum",
}
"""Exit codes of nccl-tests 2.19 (src/common.h); a launcher hands on that of one rank."""

_SOCKET_NAMES = "NCCL_SOCKET_IFNAME"

_MARK = "TESTBED_AGENT"
"""What every process of a run has in its environment; agents end by it what a launcher elsewhere
has started on their hosts (`onhost/agent/processes.py`). `srun` hands on the whole environment."""


class NcclTests(Program):
    """A program of nccl-tests or rccl-tests, launched once over all hosts or on each host.

    It measures metrics per message size only; it has no patterns.
    """

    hardware_only = "it measures GPUs and their network, of which a twin has none"

    def __init__(self, options: NcclTestsOptions) -> None:
        super().__init__(options.ranks, options.topology, patterns={})
        self._options = options

    def command_lines(self, hosts: Sequence[Host]) -> tuple[tuple[str, ...], ...]:
        """Return the command line for each rank's host; with MPI, the first host launches all.

        Raise ValueError when the lab file does not say which interfaces carry its data.
        """
        options = self._options
        if options.launch == "agent":
            return tuple((options.program, *self._arguments(options.gpus)) for _ in hosts)
        _check_paths(hosts)
        launcher = self._mpirun(hosts) if options.launch == "mpirun" else self._srun(hosts)
        line = (*launcher, options.program, *self._arguments(1))
        return (line, *(() for _ in hosts[1:]))

    def verdict(self, code: int) -> str:
        """Return why an exit code means failure; empty for success."""
        if code in _CODES:
            return f"it ended with code {code}: {_CODES[code]}"
        return super().verdict(code)

    def readings(self, said: Sequence[ProgramOutput]) -> Iterator[Reading]:
        """Yield time, algbw and busbw of every size; of several outputs, those of the slowest host.

        Raise UnreadableOutput for output of another program, LabError where a program counted wrong
        values.
        """
        is_json, program = self._options.report == "json", self._options.program
        outputs = [read_output(one.report if is_json else one.stdout, program) for one in said]
        yield from _of_sizes(outputs)
        wrong = sum(h.wrong or 0 for o in outputs for row in o.rows for h in row.halves)
        if wrong:
            raise LabError(f"{wrong} values were wrong", hint="see logs/ in the run directory")

    def _arguments(self, gpus: int) -> tuple[str, ...]:
        options = self._options
        return (
            *("-b", str(options.smallest), "-e", str(options.largest), "-f", str(options.factor)),
            *("-n", str(options.iterations), "-w", str(options.warmup), "-g", str(gpus)),
            *(("-J", "{report}") if options.report == "json" else ()),
            *options.arguments,
        )

    def _mpirun(self, hosts: Sequence[Host]) -> tuple[str, ...]:
        """Return the launcher of Open MPI; its own connections keep to the management network."""
        gpus = self._options.gpus
        slots = ",".join(f"{host.ssh_name}:{gpus}" for host in hosts)
        passed = [word for name in (*hosts[0].environment, _MARK) for word in ("-x", name)]
        fabric = {port.interface for host in hosts for port in host.ports.values()}
        kept_off = ("--mca", "btl_tcp_if_exclude", ",".join(("lo", *sorted(fabric))))
        return ("mpirun", "--host", slots, "-np", str(gpus * len(hosts)), *kept_off, *passed)

    def _srun(self, hosts: Sequence[Host]) -> tuple[str, ...]:
        names = ",".join(host.ssh_name for host in hosts)
        counts = ("--nodes", str(len(hosts)), "--ntasks-per-node", str(self._options.gpus))
        return ("srun", "--nodelist", names, *counts, "--kill-on-bad-exit=1")


def _check_paths(hosts: Sequence[Host]) -> None:
    """Raise ValueError unless bootstrap and data are each where the lab wants them.

    NCCL_SOCKET_IFNAME names the network of the bootstrap and, without RDMA, that of the data.
    """
    environments = [host.environment for host in hosts]
    if any(one != environments[0] for one in environments):
        raise ValueError(
            "its hosts have different environments, and a launcher passes on only that "
            "of the first host; give their ports the same `rdma` names and the hosts the same `env`"
        )
    if all(port.rdma for host in hosts for port in host.ports.values()):
        return
    given = str(environments[0].get(_SOCKET_NAMES, "not set"))
    names = given.lstrip("=").split(",")
    fabric = {port.interface for host in hosts for port in host.ports.values()}
    if not set(names) <= fabric:
        raise ValueError(
            f"its data would not go over the fabric: {_SOCKET_NAMES} is {given}, and not every "
            "port names an RDMA device (`rdma`)"
        )


def _of_sizes(outputs: Sequence[Output]) -> Iterator[Reading]:
    """Yield the readings of each half of each size: medians over cycles, worst over outputs."""
    for half, ending_ in (("out_of_place", ""), ("in_place", "_in_place")):
        sizes = {row.size for output in outputs for row in output.rows if row.size}
        for size in sorted(sizes):
            found = [_median(output, size, half) for output in outputs]
            if any(one is None for one in found):
                continue  # some host was ended before this size
            worst = max((one for one in found if one is not None), key=lambda one: one.time)
            name = f"{size_name(size)}{ending_}"
            yield Reading(f"time_{name}", worst.time, "s", "lower", len(found))
            yield Reading(f"algbw_{name}", worst.algbw, "bit/s", "higher", len(found))
            yield Reading(f"busbw_{name}", worst.busbw, "bit/s", "higher", len(found))


def _median(output: Output, size: int, half: str) -> Half | None:
    """Return the half of a size whose time is the median one of its cycles."""
    rows = [row for row in output.rows if row.size == size]
    if len({(row.type, row.redop, row.root) for row in rows}) > 1:
        raise LabError(
            f"{size} bytes were run with several types, reductions or roots",
            hint="give each an experiment, or a variant, of its own",
        )
    found = [one for row in rows if (one := getattr(row, half)) is not None]
    return sorted(found, key=lambda one: one.time)[(len(found) - 1) // 2] if found else None
