"""The ordinary programs that a job's ranks run: their arguments, output and exit codes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.fabric.circuits import HostPort, Matching
from testbed.jobs.contracts import FIRST_ADDRESS, ProgramJob, ProgramOutput, Reading
from testbed.record.log import EventLog
from testbed.run.inbox import Inbox
from testbed.run.planning.job_circuits import RingPorts
from testbed.schema import Host
from testbed.schema.validation import shown
from testbed.secret import redacted

_STREAMS = ("stdout", "stderr", "report")
_LAST_ERROR = 200
_READ_LIMIT = 60.0


@dataclass(slots=True)
class _Program:
    """One rank's program: its output so far, and its exit code once it has ended."""

    name: str
    said: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _STREAMS})
    code: int | None = None

    def text(self, stream: str) -> str:
        return "".join(self.said[stream])

    @property
    def last_error(self) -> str:
        """Return the last line that the program wrote to standard error."""
        lines = [line for line in self.text("stderr").splitlines() if line.strip()]
        return f": {lines[-1].strip()[:_LAST_ERROR]}" if lines else ""


class Programs:
    """The programs of a job's ranks, on hosts in rank order."""

    def __init__(
        self,
        job: ProgramJob,
        bench: Bench,
        hosts: Sequence[str],
        ring: Sequence[RingPorts],
        circuits: Matching,
        seed: int,
    ) -> None:
        """Take the ports of each rank to its neighbours, and all circuits between ranks.

        `seed` is what programs are to draw from.
        """
        self._job = job
        self._bench = bench
        self._hosts = tuple(hosts)
        self._ring = ring
        self._circuits = circuits
        self._seed = seed
        specs = [bench.lab.hosts[host] for host in self._hosts]
        lines = job.command_lines(specs)
        self._programs = {rank: _Program(_name(lines[rank])) for rank in range(len(hosts))}
        self.failure = ""
        """Why the first one that failed did."""

    def options(self, rank: int) -> dict[str, Any]:
        """Return the options of a rank's program for the rank's configuration."""
        specs = [self._bench.lab.hosts[host] for host in self._hosts]
        return {
            "argv": self._words(self._job.command_lines(specs)[rank]),
            "environment": specs[rank].revealed_environment() | self._place(rank, specs),
        }

    def _words(self, line: Sequence[str]) -> list[str]:
        """Return a command line with the address at which other hosts reach the first one.

        A name for SSH means something on this machine only.
        """
        if FIRST_ADDRESS not in line:
            return list(line)
        host = self._bench.hosts[self._hosts[0]]
        address = host.facts["address"] or host.spec.ssh_name
        return [address if word == FIRST_ADDRESS else word for word in line]

    def _place(self, rank: int, specs: Sequence[Host]) -> dict[str, str]:
        """Return where a program is: its rank, and the way to each neighbour and over each link."""
        found = {"TESTBED_RANK": str(rank), "TESTBED_RANKS": str(len(specs))}
        found["TESTBED_SEED"] = str(self._seed)
        own = self._ring[rank]
        after, before = (rank + 1) % len(specs), (rank - 1) % len(specs)
        for name, port, other, far in (
            ("NEXT", own.to_next, after, self._ring[after].from_previous),
            ("PREVIOUS", own.from_previous, before, self._ring[before].to_next),
        ):
            mine, peer = specs[rank].ports[port], specs[other].ports[far]
            found |= {
                f"TESTBED_{name}_INTERFACE": mine.interface,
                f"TESTBED_{name}_LOCAL": str(mine.address.ip),
                f"TESTBED_{name}_PEER": str(peer.address.ip),
            }
        if links := list(self._links(rank, specs)):
            found["TESTBED_LINKS"] = json.dumps(links)
        return found

    def _links(self, rank: int, specs: Sequence[Host]) -> Iterator[dict[str, Any]]:
        """Yield where each circuit of a rank leads, in the order of its ports."""
        far_ends = {near: far for circuit in self._circuits for near, far in circuit.directions}
        for name, port in specs[rank].ports.items():
            far = far_ends.get(HostPort(self._hosts[rank], name))
            if far is not None:
                other = self._hosts.index(far.host)
                peer = specs[other].ports[far.port].address.ip
                own = {"interface": port.interface, "local": str(port.address.ip)}
                yield {"rank": other, **own, "peer": str(peer)}

    def handle(self, rank: int, said: Mapping[str, Any]) -> None:
        """Process a rank's report of its program; secrets in the output are masked first."""
        host, program = self._hosts[rank], self._programs[rank]
        match said["event"]:
            case "output":
                program.said[said["stream"]].append(said["text"])
                if said["stream"] != "report":  # which comes in pieces, and is masked as a whole
                    program.said[said["stream"]][-1] = text = redacted(said["text"])
                    self._bench.keep_output(host, f"program.{said['stream']}", text)
            case "program.begin":
                line = f"# rank {rank}: {shlex.join(said['argv'])}\n"
                self._bench.keep_output(host, "program.stdout", redacted(line))
            case "program.end":
                self.failure = self.failure or self._end(host, program, said)

    def _end(self, host: str, program: _Program, said: Mapping[str, Any]) -> str:
        """Keep the outcome of a program; return why it has failed, if it has."""
        if report := redacted(program.text("report")):
            program.said["report"] = [report]
            self._bench.keep_output(host, "program.report", report + "\n")
        if "failed" in said:
            return f"{program.name} on {host} could not be started: {said['failed']}"
        if "code" not in said:
            return f"{program.name} on {host} was lost: its keeper process was killed"
        program.code = said["code"]
        if said["left"]:
            return f"{said['left']} processes of {program.name} on {host} survived SIGKILL"
        verdict = self._job.verdict(said["code"])
        return f"{program.name} on {host} failed: {verdict}{program.last_error}" if verdict else ""

    def measure(self, inbox: Inbox, log: EventLog, deadline: Deadline) -> str:
        """Record the metrics in the output; return why the output cannot be read, if it cannot."""
        limit = deadline.later(_READ_LIMIT)
        try:
            found = inbox.in_worker("reading the output", lambda _: list(self.readings()), limit)
        except LabError as error:
            return str(error)
        for one in found:
            data: dict[str, Any] = {"value": one.value, "unit": one.unit, "better": one.better}
            log.append("reading", one.metric, **data, count=one.count)
        return ""

    def readings(self) -> Iterator[Reading]:
        """Yield the metrics in the output; raise LabError when the output cannot be read."""
        said = [
            ProgramOutput(self._hosts[rank], program.text("stdout"), program.text("report"))
            for rank, program in self._programs.items()
            if program.said["stdout"] or program.code is not None
        ]
        yield from self._job.readings(said)


def _name(command: Sequence[str]) -> str:
    """Return the name of a program in messages; the line of a rank that runs none is empty."""
    return f"the program {shown(command[0])}" if command else "the program"
