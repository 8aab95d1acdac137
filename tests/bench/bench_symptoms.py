"""How soon a symptom is decided upon while a thousand agents report their steps.

The orchestrator's side is the real one from the bytes of the links on: `AgentLink`, the inbox, the
record on the disk, what is known of the running job, the policy. It has one core, the process that
is all the agents has another. The lines are TCP; the encryption of SSH is left out.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest

from testbed.bench.bench import Bench
from testbed.bench.link import AgentLink
from testbed.clock import Deadline, now
from testbed.control import protocol
from testbed.control.descriptors import SpliceOptions
from testbed.control.policy import Situation
from testbed.control.splice import Splice
from testbed.errors import HostError
from testbed.events import Event
from testbed.events.origin import Origin, attributed
from testbed.jobs.descriptors import TrainOptions
from testbed.jobs.training import Train
from testbed.onhost.frames import Decoder
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.agent_reports import observation, record
from testbed.run.inbox import Inbox, Report
from testbed.run.places import Membership, Place
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RankProcess, RunningJob
from testbed.run.step_pace import StepPace
from testbed.schema import Lab, load_lab

ROOT = Path(__file__).parents[2]
AGENTS = 1000
STEPS_S = 10.0
SYMPTOMS_S = 25.0
SECONDS = 12.0
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

    def receive(self) -> bytes:
        try:
            return self._line.recv(1 << 16)
        except OSError:
            return b""

    def complaint(self) -> str:
        return ""

    def close(self) -> None:
        self._line.close()


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
        lab = bench.lab
        fences = {host: lab.fences(host) for host in lab.hosts}
        situation = Situation(hosts, (spare.host,), lab.ports(), 1, fences)
        self._policy = Splice(SpliceOptions())
        self._begun = self._state = self._policy.begin(situation)
        self.since_sent: list[float] = []
        self.since_received: list[float] = []
        self.steps = 0

    def handle(self, item: Any) -> None:
        """Do what `Trial` does with a report of an agent."""
        assert isinstance(item, Report)
        rank = self.job.rank_in(item)
        with attributed(Origin(self.job.name)):
            event = record(item, rank, self._log)
            assert event is not None and rank is not None
            with attributed(Origin(cause=event.seq)):
                self._follow(item, rank, event)

    def _follow(self, item: Report, rank: int, event: Event) -> None:
        self._responses.handle(event)
        seen = observation(item, self.job)
        self.job.handle(item)
        if item.said.get("event") == "step":
            self._pace.add_step(rank, item.said, item.received)
            self.steps += 1
        if seen is not None:
            self._state, commands = self._policy.step(self._state, seen)
            if any(isinstance(command, protocol.Decide) for command in commands):
                self._decided(item)

    def _decided(self, symptom: Report) -> None:
        at = now()
        self.since_sent.append(at - symptom.message["mono"])
        self.since_received.append(at - symptom.received)
        self._state = self._begun
        self.job.processes[Place(symptom.host)] = RankProcess(port=1)


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
        inbox.pause(Deadline.after(WARM_UP_S))
        skipped = len(orchestrator.since_sent)
        inbox.pause(Deadline.after(SECONDS - WARM_UP_S))
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        for link in links:
            link.close()
    inbox.close()
    log.close()
    _report(count, orchestrator, skipped, said)


def _report(count: int, found: Orchestrator, skipped: int, said: dict[str, Any]) -> None:
    sent, received = found.since_sent[skipped:], found.since_received[skipped:]
    p99 = quantiles(sent, n=100)[98]
    waiting, late = said["sent"] - found.steps, said["late"]
    print(
        f"\n{count} agents: {found.steps} of {said['sent']} steps handled in {SECONDS:g} s, "
        f"{waiting} waiting at the end, the agents late by {late * 1e3:.0f} ms at most; "
        f"{len(sent)} symptoms, from sent to decided: median {median(sent) * 1e3:.2f} ms, "
        f"p99 {p99 * 1e3:.2f} ms, longest {max(sent) * 1e3:.2f} ms; from received: p99 "
        f"{quantiles(received, n=100)[98] * 1e3:.2f} ms"
    )
    assert len(sent) > 0.9 * SYMPTOMS_S * (SECONDS - WARM_UP_S) - 1
    assert p99 < P99_S
