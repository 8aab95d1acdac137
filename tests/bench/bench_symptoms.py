"""How soon a symptom is decided upon while a thousand agents report their steps.

The orchestrator's side is the real one from the bytes of the links on: `AgentLink`, the inbox, the
record on the disk, what is known of the running job, the policy. It has one core, the process that
is all the agents has another. The lines are TCP: SSH is left out, and with it most of what a report
takes of a core (`bench_ssh_reports.py`).
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest

from testbed.bench.bench import Bench
from testbed.bench.link import AgentLink
from testbed.cli.running import SWITCH_INTERVAL
from testbed.clock import Deadline, now
from testbed.control import protocol
from testbed.control.controller import JobObserved, JobView, Observation, PolicyController, View
from testbed.control.descriptors import SpliceOptions
from testbed.control.splice import Splice
from testbed.errors import HostError
from testbed.events import Event
from testbed.jobs.descriptors import TrainOptions
from testbed.jobs.training import Train
from testbed.onhost.frames import Decoder
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.active_controller import ActiveController
from testbed.run.agent_reports import observation
from testbed.run.controllers import ControllerExecutor
from testbed.run.inbox import Inbox, Report
from testbed.run.places import Membership, Place
from testbed.run.recovery_wait import RecoveryWait
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RankProcess, RunningJob
from testbed.run.running_jobs import RunningJobs
from testbed.run.step_pace import StepPace
from testbed.run.step_record import StepRecord
from testbed.schema import Lab, load_lab

ROOT = Path(__file__).parents[2]
AGENTS = 1000
STEPS_S = 10.0
SYMPTOMS_S = 50.0
SECONDS = 25.0
WARM_UP_S = 1.0
P99_S = 2e-3


class SocketChannel:
    """A connection in place of an SSH channel."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def send(self, data: bytes) -> None:
        try:
            self._line.sendall(data)
        except OSError as error:
            raise HostError("an agent", str(error)) from error

    def fileno(self) -> int:
        return self._line.fileno()

    def receive(self) -> bytes:
        try:
            return self._line.recv(1 << 16)
        except OSError:
            return b""

    def complaint(self) -> str:
        return ""

    def close(self) -> None:
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        self._line.close()


class Repeated(PolicyController):
    """The policy `splice`, which begins anew after each decision: the next symptom is the first."""

    def step(self, state: Any, now: float, observation: Observation) -> Any:
        """Return the commands with the state before them, if there are any."""
        after, commands = super().step(state, now, observation)
        return state if commands else after, commands


class Orchestrator:
    """What a trial does with every item, and how long each symptom took until it was decided."""

    def __init__(self, bench: Bench, inbox: Inbox, log: EventLog, ranks: int) -> None:
        hosts = tuple(f"h{rank}" for rank in range(ranks))
        train = Train(TrainOptions(ranks=ranks, spares=1))
        places, spare = tuple(map(Place, hosts)), Place(f"h{ranks}")
        self.job = RunningJob(
            bench, inbox, train, 7, 0.2, Membership(places, (spare,)), generation=1
        )
        self.job.processes |= {place: RankProcess(port=1) for place in places}
        self._pace, self._log = StepPace(ranks), log
        for host in hosts:
            bench.clocks.known.add(log.append("clock.offset", host, ahead=log.started, bound=1e-4))
        self._responses = ResponseTracker(ranks, bench.clocks.known)
        self._jobs = RunningJobs({self.job.name: self.job})
        self._records = {self.job.name: StepRecord(log, 1, None)}
        fences = {host: bench.lab.fences(host) for host in bench.lab.hosts}
        seen = {self.job.name: JobView(hosts, (), spares=(spare.host,))}
        view = View(now(), seen, (spare.host,), bench.lab.ports(), fences)
        splice = Repeated(Splice(SpliceOptions()), self.job.name)
        of_job = {self.job.name: {protocol.Fence: self._note_decision}}
        self._controllers = ControllerExecutor({"splice": splice}, view, inbox, log, {}, of_job)
        self.wait = RecoveryWait(self.job, self._controllers, self._pace, inbox, SECONDS)
        self.since_sent: list[float] = []
        self.since_received: list[float] = []
        self.steps = 0

    def handle(self, item: Any) -> None:
        """Do what `Trial` does with a report of an agent."""
        assert isinstance(item, Report)
        self._jobs.record(item, self._log, self._follow, self._records)

    def _follow(self, job: RunningJob, report: Report, event: Event | None) -> None:
        rank = job.rank_in(report)
        assert event is not None and rank is not None
        self._responses.handle(event)
        seen = observation(report, job)
        job.handle(report)
        if report.said.get("event") == "step":
            self._pace.add_step(rank, report.said, report.received)
            self.steps += 1
        self._symptom = report
        if seen is not None:
            self._controllers.observe(JobObserved(job.name, seen))

    def _note_decision(self, command: protocol.Fence, sender: ActiveController) -> None:
        """Note when the victim would be fenced: the decision is recorded by then."""
        at, symptom = now(), self._symptom
        assert command.host == symptom.host
        self.since_sent.append(at - symptom.message["mono"])
        self.since_received.append(at - symptom.received)
        self.job.processes[Place(symptom.host)] = RankProcess(port=1)
        self.job.failed.clear()


def large_lab(path: Path, hosts: int) -> Lab:
    """Return a lab of so many hosts, each with two ports to one switch."""
    rows = ["lab: large", "hosts:"]
    for number in range(hosts):
        rows += [f"  h{number}:", f"    ssh: h{number}", "    ports:"]
        for port in range(2):
            cell = 2 * number + port + 1
            address = f"10.{cell >> 16}.{cell >> 8 & 255}.{cell & 255}/8"
            fibres = f"tx: ocs.{cell}, rx: ocs.{2 * hosts + cell}"
            rows.append(
                f"      p{port}: {{interface: eth{port + 1}, address: {address}, {fibres}}}"
            )
    ports = f"ports: [1-{4 * hosts}]"
    rows += ["switches:", f'  ocs: {{driver: polatis, resource: "{_ADDRESS}", {ports}}}']
    rows += ["allow: [rank-kill]", "fence: [network, process]"]
    path.write_text("\n".join(rows) + "\n")
    return load_lab(path)


_ADDRESS = "TCPIP::192.0.2.10::5025::SOCKET"


@contextmanager
def agents(count: int, seconds: float) -> Iterator[tuple[subprocess.Popen[str], list[Any]]]:
    """Start the process that is all agents, on a core of its own; give its connections by rank."""
    cores = sorted(os.sched_getaffinity(0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # of the other process as well
    lines: dict[int, socket.socket] = {}
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        numbers = (count, STEPS_S, SYMPTOMS_S, seconds)
        arguments = ["127.0.0.1", str(server.getsockname()[1]), *map(str, numbers)]
        process = subprocess.Popen(
            ["taskset", "-c", str(cores[-1]), sys.executable, "-m", _AGENTS, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        os.sched_setaffinity(0, {cores[0]})
        try:
            for _ in range(count):
                line, _ = server.accept()
                lines[_rank(line)] = line
            yield process, [lines[rank] for rank in range(count)]
        finally:
            os.sched_setaffinity(0, set(cores))
            process.kill()
            process.communicate()
            for line in lines.values():
                line.close()


_AGENTS = "tests.bench.simulated_agents"


def _rank(line: socket.socket) -> int:
    """Return which agent is at the other end, by its first frame."""
    decoder, found = Decoder(), []
    while not found:
        found = decoder.feed(line.recv(1))
    rank: int = found[0]["rank"]
    return rank


@pytest.mark.parametrize("count", [10, 100, AGENTS])
def test_a_symptom_among_the_steps_of_many_agents(tmp_path: Path, count: int) -> None:
    inbox, log = Inbox(), EventLog(tmp_path / "events.jsonl")
    sys.setswitchinterval(SWITCH_INTERVAL)
    run = RunDirectory.create(tmp_path / "results", "large")
    lab = large_lab(tmp_path / "lab.yaml", count + 1)
    with closing(Journal(run.journal)) as journal, agents(count, SECONDS) as (process, lines):
        bench = Bench(lab, run, journal, log, inbox.listen)
        orchestrator = Orchestrator(bench, inbox, log, count)
        inbox.handler = orchestrator.handle
        links = [
            AgentLink(f"h{rank}", SocketChannel(line), inbox.listen)  # type: ignore[arg-type]
            for rank, line in enumerate(lines)
        ]
        lines[0].sendall(b"!")
        never = sys.maxsize
        assert "did not reach" in orchestrator.wait.wait_for_step(never, Deadline.after(WARM_UP_S))
        skipped, began = len(orchestrator.since_sent), time.process_time()
        left = Deadline.after(SECONDS - WARM_UP_S)
        assert "did not reach" in orchestrator.wait.wait_for_step(never, left)
        busy = (time.process_time() - began) / (SECONDS - WARM_UP_S)
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        for link in links:
            link.close()
    inbox.close()
    log.close()
    _report(count, orchestrator, skipped, {**said, "busy": busy})


def _report(count: int, found: Orchestrator, skipped: int, said: dict[str, Any]) -> None:
    sent, received = found.since_sent[skipped:], found.since_received[skipped:]
    p99 = quantiles(sent, n=100)[98]
    waiting, late = said["sent"] - found.steps, said["late"]
    print(
        f"\n{count} agents: {found.steps} of {said['sent']} steps handled in {SECONDS:g} s, "
        f"{waiting} waiting at the end, the agents late by {late * 1e3:.0f} ms at most, "
        f"{said['busy']:.0%} of a core; "
        f"{len(sent)} symptoms, from sent to decided: median {median(sent) * 1e3:.2f} ms, "
        f"p99 {p99 * 1e3:.2f} ms, longest {max(sent) * 1e3:.2f} ms; from received: p99 "
        f"{quantiles(received, n=100)[98] * 1e3:.2f} ms"
    )
    # The load was there, all of it was carried, and there is enough to tell a percentile from.
    assert said["sent"] > 0.99 * count * STEPS_S * SECONDS
    assert waiting < 0.1 * count * STEPS_S
    assert len(sent) > 0.95 * SYMPTOMS_S * (SECONDS - WARM_UP_S)
    assert p99 <= P99_S
