"""The running job: the place of each rank, and the messages from and to its ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline, now
from testbed.control.controller import ChosenCollective
from testbed.errors import HostError, LabError
from testbed.fabric.circuits import Matching
from testbed.jobs.contracts import Job, ProgramJob, RailsJob
from testbed.run.all_hold import AllHold
from testbed.run.inbox import Inbox, Report
from testbed.run.places import Membership, Place
from testbed.run.planning.job_circuits import RingPorts
from testbed.run.programs import Programs
from testbed.schema import FabricKind

_START_LIMIT = 30.0
_GRACE = 5.0
"""Seconds that a rank may take to start before its silence counts."""
_LATE_PROBE = 1.0
"""Seconds for which a probe may be reported later than the failure of a rank that went on."""


@dataclass(slots=True)
class RankProcess:
    """A rank's process on a host: its listening address once it is ready, and its progress."""

    address: str = ""
    port: int = 0
    second: tuple[str, int] | None = None
    """Where it listens on its other port, if it does."""
    local: tuple[str, int] | None = None
    """Where it listens for ranks on its own host, if it does."""
    own: list[tuple[str, int]] | None = None
    """Where it listens on each of its own ports, on rails…"""
    beside: list[list[tuple[str, int]]] | None = None
    """… and on those of each rank of its host, in their order."""
    state_bytes: int = 0
    committed: int | None = None
    generation: int = 0

    @property
    def is_ready(self) -> bool:
        """Return whether the process is ready to join a generation."""
        return self.port > 0

    def listens_at(self) -> dict[str, Any]:
        """Return where it listens, as the other ranks are told."""
        where = {"address": self.address, "port": self.port}
        rails = {"own": self.own, "beside": self.beside}
        return {**where, "second": self.second, "local": self.local, **rails}


@dataclass(slots=True)
class RunningJob:
    """A job on the bench. Its `members` are joined by `fabric`."""

    bench: Bench
    inbox: Inbox
    job: Job
    seed: int
    heartbeat: float
    members: Membership
    fabric: FabricKind = "circuit"
    circuits: Matching = frozenset()
    """Those that it begins with; none on a packet switch."""
    ring_ports: Mapping[str, RingPorts] = field(default_factory=dict)
    """By host, the ports to its neighbours in the ring of ranks, if not its first and its last."""
    generation: int = 0
    processes: dict[Place, RankProcess] = field(default_factory=dict)
    done: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """By rank, its last report, once the job has ended."""
    failed: dict[Place, str] = field(default_factory=dict)
    """By place, why the process that was started there last cannot take part."""
    failure: str = ""
    """Why the job cannot go on, when it cannot."""
    probes: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """By rank, what it has measured of its links."""
    reached: int = 0
    """How often ranks have reached a stage on rails, or have asked for other circuits."""
    changes: dict[str, list[float]] = field(default_factory=dict)
    """The seconds of each change of circuits that a host timed between iterations."""
    programs: Programs | None = None
    """What the ranks run, where that is ordinary programs."""
    requests: tuple[Matching, ...] = ()
    """All circuits that the ranks may ask for, by number."""
    collective: ChosenCollective | None = None
    """What the ranks follow to sum, where that is chosen while they run."""
    name: str = "main"
    trial_seed: int = 0
    """What ordinary programs draw from: the same for all arms of a block of trials."""
    start_seconds: float = 0.0
    """How long its processes took to start, all together."""
    is_recovered: bool = False
    """A controller acts on its membership."""
    history: str = field(default_factory=partial(token_hex, 8))
    """The course of the job from its first step on, whose checkpoints are no other's."""

    def __post_init__(self) -> None:
        """Prepare for the reports of programs, where the ranks run those."""
        if isinstance(self.job, ProgramJob):
            ring = [self.ring_ports_of(host) for host in self.hosts]
            self.programs = Programs(
                self.job, self.bench, self.hosts, ring, self.circuits, self.trial_seed
            )

    def start(self, deadline: Deadline) -> None:
        """Start a process for every rank and wait until all are ready to join."""
        began = now()
        for place in self.places:
            self.start_one(place, deadline)
        self.await_ready(self.places, deadline)
        self.start_seconds = now() - began

    def start_one(self, place: Place, deadline: Deadline) -> None:
        """Start a process as `start_process` does, in a worker that can be interrupted."""
        start = partial(self.start_process, place)
        self.inbox.in_worker(f"starting a rank on {place.host}", start, deadline)

    def end_one(self, place: Place, deadline: Deadline) -> None:
        """End the process in a place, in a worker, and verify that it is gone."""
        end = partial(self.bench.hosts[place.host].end_rank, place.slot)
        self.inbox.in_worker(f"ending the rank on {place.host}", end, deadline)
        self.processes.pop(place, None)

    def start_process(self, place: Place, deadline: Deadline) -> None:
        """Start a process in a place and configure it; it reports `ready` later."""
        host, rank = place.host, self.members.rank_of(place)
        bench_host = self.bench.hosts[host]
        self.failed.pop(place, None)
        self.bench.guard.host(host)
        bench_host.start_rank(place.slot, deadline)
        self.processes[place] = RankProcess()
        ports = self.ring_ports_of(host)
        message = {
            "do": "configure",
            "job": self._for_rank(rank),
            "rank": rank,
            "ranks": self.job.ranks,
            "token": self.bench.token,
            "seed": self.seed,
            "history": self.history,
            "heartbeat": self.heartbeat,
            "to_next": self._port(host, ports.to_next),
            "from_previous": self._port(host, ports.from_previous),
            **self._rail_ports(place),
        }
        bench_host.send_to_rank(place.slot, message, grace=_GRACE)

    def _rail_ports(self, place: Place) -> dict[str, Any]:
        """Return, on rails, the fabric ports of a place alone, and those of each on its host."""
        if not isinstance(self.job, RailsJob):
            return {}
        names = self.bench.lab.hosts[place.host].ports_on("circuit")
        share = len(names) * len({*self.hosts}) // len(self.hosts)
        ports = [self._port(place.host, name) for name in names]
        each = [ports[first : first + share] for first in range(0, len(ports), share or 1)]
        return {"own": each[place.slot], "beside": each}

    def ring_ports_of(self, host: str) -> RingPorts:
        """Return the ports of a host to the neighbours that it has, or would have, as a rank."""
        if found := self.ring_ports.get(host):
            return found
        ports = self.bench.lab.hosts[host].ports_on(self.fabric)
        return RingPorts(ports[0], ports[-1])

    def _for_rank(self, rank: int | None) -> dict[str, Any]:
        told = dict(self.job.for_rank())
        if self.programs and rank is not None:
            told["options"] = {**told["options"], **self.programs.options(rank)}
        return told

    def join(
        self, generation: int, committed: int, restore: Mapping[int, int | str], probe: bool
    ) -> None:
        """Order every rank to form a generation and continue after `committed` steps.

        With `probe` ranks first probe their links, and then wait for `begin`.
        """
        self.generation = generation
        members = [
            {"rank": rank, "host": place.host, **self.processes[place].listens_at()}
            for rank, place in enumerate(self.places)
        ]
        for rank in range(len(self.places)):
            message = {
                "do": "join",
                "generation": generation,
                "rank": rank,
                "members": members,
                "step": committed,
                "restore": {str(k): source for k, source in restore.items()},
                "probe": probe,
                "held": probe,
            }
            self.tell(rank, message)
        if self.job.last_step is not None:  # long before that step comes
            self.tell_all({"do": "finish", "after_step": self.job.last_step})

    def begin(self) -> None:
        """Have ranks that have probed their links begin their steps."""
        self.tell_all({"do": "begin", "generation": self.generation})

    def await_probes(self, limit: float) -> None:
        """Wait until every rank has probed its links; raise LabError when one cannot.

        On rails, or where ranks ask for circuits, wait on while they reach some in `limit` seconds.
        `failure` is set if a rank went on to its first step and failed meanwhile.
        """

        def are_there() -> bool:
            return len(self.probes) == len(self.places)

        reached = -1
        while self.reached > reached and not (are_there() or self.failure):
            reached = self.reached
            self.inbox.wait(lambda: are_there() or bool(self.failure), Deadline.after(limit))
        if not self.inbox.wait(are_there, Deadline.after(_LATE_PROBE if self.failure else 0.0)):
            raise LabError(f"the job did not start: {self.failure or 'its links were not probed'}")

    def leave(self, ranks: frozenset[int], generation: int) -> None:
        """Order ranks to leave a generation."""
        for rank in sorted(ranks):
            self.tell(rank, {"do": "leave", "generation": generation})

    @property
    def places(self) -> tuple[Place, ...]:
        """Return the places of the ranks, in rank order."""
        return self.members.places

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the ranks, in rank order."""
        return self.members.hosts

    @property
    def spares(self) -> tuple[Place, ...]:
        """Return the places of the spares."""
        return self.members.spares

    def rank_in(self, report: Report) -> int | None:
        """Return the rank that a report is about: of its process, or the only one on its host."""
        if (place := report.place) is not None:
            return self.members.rank_of(place)
        here = self.members.ranks_on(report.host)
        return here[0] if len(here) == 1 else None

    def handle(self, report: Report) -> None:
        """Record the progress that a rank or its agent reports."""
        event, place = report.message["event"], report.place
        if place is None:
            return
        if event == "exit":
            self.processes.pop(place, None)
            self.failed.setdefault(place, f"it ended with code {report.message['code']}")
        elif event == "rank" and place in self.processes:
            self._handle_rank(self.processes[place], place, report.said)

    def _handle_rank(self, process: RankProcess, place: Place, said: Mapping[str, Any]) -> None:
        rank, host = self.members.rank_of(place), place.host
        match said["event"]:
            case "ready":
                process.address, process.port = said["address"], said["port"]
                process.second, process.local = said.get("second"), said.get("local")
                process.own, process.beside = said.get("own"), said.get("beside")
                process.state_bytes = said["state_bytes"]
            case "probe" if rank is not None:
                self.probes[rank] = said
            case "stage-reached" | "circuits":
                self.reached += 1
            case "left":
                process.committed = said["committed"]
            case "step" | "sample" | "reach":
                process.committed = said["step"] + 1
                process.generation = said["generation"]
                if changes := said.get("changes"):
                    self.changes.setdefault(host, []).extend(changes)
            case "done" if rank is not None:
                self.done[rank] = said
            case "failed":
                self.failed[place] = said["why"]
            case "refused" | "corrupt":
                self.failure = f"rank {rank} on {host} {said['event']}: {said['why']}"
            case "output" | "program.begin" | "program.end" if self.programs and rank is not None:
                self.programs.handle(rank, said)

    def tell(self, rank: int, message: Mapping[str, Any]) -> None:
        """Send a message to a rank."""
        host, slot = self.places[rank]
        self.bench.hosts[host].send_to_rank(slot, message)

    def tell_all(self, message: Mapping[str, Any]) -> None:
        """Send a message to every rank."""
        for rank in range(len(self.places)):
            self.tell(rank, message)

    @property
    def completed(self) -> int:
        """Return the number of steps that every rank has committed."""
        return min(map(self._committed, self.places))

    def has_completed(self, step: int) -> Callable[[], bool]:
        """Return what tells, as often as it is asked, whether all ranks have committed so many."""
        return AllHold(lambda: self.places, lambda place: self._committed(place) >= step)

    def _committed(self, place: Place) -> int:
        process = self.processes.get(place)
        return (process.committed or 0) if process else 0

    @property
    def has_ended(self) -> bool:
        """Return whether every rank has reached the end of the job."""
        return len(self.done) == len(self.places)

    @property
    def state_bytes(self) -> int:
        """Return the size of one rank's state."""
        return max((process.state_bytes for process in self.processes.values()), default=0)

    def await_ready(self, places: tuple[Place, ...], deadline: Deadline) -> None:
        """Wait until the processes in some places are ready; raise HostError if one fails."""

        def is_ready(place: Place) -> bool:
            process = self.processes.get(place)
            return process is not None and process.is_ready

        are_ready = AllHold(lambda: places, is_ready)

        def settled() -> bool:
            has_failed = bool(self.failed) and any(place in self.failed for place in places)
            return has_failed or are_ready()

        self.inbox.wait(settled, deadline.within(_START_LIMIT))
        late = [place for place in places if not is_ready(place)]
        for place in sorted(late, key=lambda place: place not in self.failed):
            why = self.failed.get(place, "it did not report in time")
            hint = "see logs/ in the run directory"
            raise HostError(place.host, f"its rank is not ready: {why}", hint=hint)

    def _port(self, host: str, name: str) -> dict[str, str]:
        port = self.bench.hosts[host].spec.ports[name]
        return {"interface": port.interface, "address": str(port.address.ip)}
