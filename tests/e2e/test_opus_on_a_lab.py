"""Programs that speak the words of the Opus artifact move the circuits of a live twin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.commandline import COMMAND, ROOT, CommandLine, Started
from tests.e2e.running_twin import RunningTwin
from tests.unit.opus.stranger import Job, answer_to
from tests.unit.opus.test_servers import ask_worker
from tests.unit.opus.transcript import transactions

SHIMS = Path(__file__).parent / "inside" / "opus_shims.py"
CONTROLLER = "100.64.0.1"
"""Where hosts of a twin reach what runs on the controller's side."""
HOSTS = ("h0", "h1", "h2", "h3")
JOB = Job(stages=2, datas=2, tensors=2)
"""The job of the recorded transcript: rank = 4 × stage + 2 × data + tensor, two ranks a host."""
A, B = "A" * 64, "B" * 64
DATA = {"h0–h1", "h2–h3"}
PIPELINE = {"h0–h2", "h1–h3"}


@pytest.fixture(scope="module")
def rails() -> Iterator[str]:
    name = f"test-opus-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", "rails", "--name", name], cwd=ROOT, check=True)
    yield name
    subprocess.run([*COMMAND, "twin", "down", name], cwd=ROOT, check=True)


class Shims:
    """The shims of all ranks, each a connection from the rank's host, written as bytes."""

    def __init__(self, twin: str, port: int, stack: ExitStack) -> None:
        self._programs = {
            host: RunningTwin(twin).start_on(
                host, sys.executable, str(SHIMS), f"{CONTROLLER}:{port}"
            )
            for host in HOSTS
        }
        for program in self._programs.values():
            stack.callback(program.communicate)
            for _ in range(JOB.tensors):
                self._write(program, "open")

    def send(self, rank: int, line: bytes) -> None:
        self._tell(rank, f"send {line.decode().rstrip()}")

    def line(self, rank: int) -> str:
        """Return the next line that a rank gets; empty when its line was ended."""
        self._tell(rank, "line")
        out = self._programs[HOSTS[rank // JOB.tensors]].stdout
        assert out is not None
        return out.readline().rstrip("\n")

    def close(self, rank: int) -> None:
        self._tell(rank, "close")

    def _tell(self, rank: int, words: str) -> None:
        host, number = divmod(rank, JOB.tensors)
        self._write(self._programs[HOSTS[host]], f"{number} {words}")

    def _write(self, program: subprocess.Popen[str], line: str) -> None:
        assert program.stdin is not None
        program.stdin.write(line + "\n")
        program.stdin.flush()


def begin(testbed: CommandLine, rails: str, *options: str) -> tuple[Started, int]:
    """Start the controller's side on a twin; return it and the port that it listens on."""
    where = ["--hosts", ",".join(HOSTS), "--listen", "0.0.0.0:0", "--for", "100 s"]
    served = testbed.start("opus", "controller", *where, "--json", "--twin", rails, *options)
    first = said(served)
    assert (first["event"], first["label"]) == ("listening", "measured-twin")
    return served, int(first["address"].rpartition(":")[2])


def said(served: Started) -> dict:
    """Return the next JSON line of a command."""
    assert served.process.stdout is not None
    line = served.process.stdout.readline()
    assert line, served.process.communicate()
    return json.loads(line)


def circuits(testbed: CommandLine, twin: str, switch: str) -> set[str]:
    """Return the pairs of hosts that a switch joins both ways, as `testbed switch` shows them."""
    done = testbed("switch", switch, "show", "--twin", twin, "--json")
    assert done.code == 0, done.err
    pairs = {(row["ingress"], row["egress"] - 5) for row in done.json()}
    assert {(b, a) for a, b in pairs} == pairs
    return {f"h{a - 1}–h{b - 1}" for a, b in pairs if a < b}


def lit_ports(twin: str) -> set[str]:
    """Return the host ports that get light at this moment."""
    rows = RunningTwin(twin).ask(do="light")
    light = {port: what for _, port, what in rows if what in ("lit", "dark")}
    return {port for port, what in light.items() if what == "lit"}


def all_say(shims: Shims, lines: dict[int, bytes]) -> None:
    """Have ranks send their lines, and get the answer to each."""
    for rank, line in lines.items():
        shims.send(rank, line)
    for rank, line in lines.items():
        assert shims.line(rank).startswith(answer_to(line).decode())


def join_two_hosts(shims: Shims) -> None:
    """Have a rank on each of two hosts make a communicator, and a circuit for it."""
    all_say(shims, dict.fromkeys((0, 2), f"COMM;{A},2,0".encode()))
    all_say(shims, dict.fromkeys((0, 2), f"CONFIG_REQ;{A},2,5".encode()))


def test_shims_on_the_hosts_of_a_twin_move_its_circuits_which_are_put_back(
    testbed: CommandLine, rails: str
) -> None:
    with ExitStack() as stack:
        served, port = begin(testbed, rails)
        shims = Shims(rails, port, stack)
        scripts = [JOB.script(rank, 2) for rank in range(JOB.ranks)]
        steps = [dict(enumerate(lines)) for lines in zip(*scripts, strict=True)]
        for step in steps[:4]:  # they check in
            all_say(shims, step)
        for number, step in enumerate(steps[4:]):
            all_say(shims, step)
            assert lit_ports(rails) == {f"{host}.{port}" for host in HOSTS for port in ("p0", "p1")}
            wanted = PIPELINE if number % 4 in (1, 2) else DATA
            if number < 4:
                assert circuits(testbed, rails, "rail0") == wanted
                assert circuits(testbed, rails, "rail1") == wanted
        served.signal(signal.SIGINT)
        done = served.finish()
    assert done.code == 128 + signal.SIGINT, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    rows = [row for row in rows if row["event"] == "answer"]
    # Two groups a rail: data, pipeline forward, backward and data again, in two iterations.
    for rail in (0, 1):
        changed = [row["changed"] for row in rows if row["rail"] == rail]
        first = [True, True, True, True, False, False, True, True]
        assert changed == [*first, False, False, True, True, False, False, True, True]
    assert all(len(row["added"]) == 1 for row in rows if row["changed"])
    assert circuits(testbed, rails, "rail0") == circuits(testbed, rails, "rail1") == set()


def test_a_client_that_vanishes_and_one_with_a_wrong_counter_leave_no_circuit(
    testbed: CommandLine, rails: str
) -> None:
    with ExitStack() as stack:
        served, port = begin(testbed, rails)
        shims = Shims(rails, port, stack)
        join_two_hosts(shims)
        assert said(served)["added"] == ["h0.p0–h1.p0"]
        shims.close(2)
        assert said(served)["text"].endswith("ended: it ended its line")
        await_no_circuit(testbed, rails)
        shims.send(0, f"CONFIG_REQ;{A},2,6".encode())
        assert shims.line(0) == ""
        assert "has left, so it is never complete" in said(served)["text"]
    with ExitStack() as stack:
        shims = Shims(rails, port, stack)
        join_two_hosts(shims)
        while said(served)["event"] != "answer":
            pass
        shims.send(0, f"CONFIG_REQ;{A},2,5".encode())
        assert shims.line(0) == ""
        assert "asks with counter 5 after 5" in said(served)["text"]
        await_no_circuit(testbed, rails)
        served.signal(signal.SIGTERM)
        assert served.finish().code == 128 + signal.SIGTERM


def await_no_circuit(testbed: CommandLine, twin: str) -> None:
    end = time.monotonic() + 20
    while circuits(testbed, twin, "rail0"):
        assert time.monotonic() < end


def test_recover_takes_back_the_circuits_of_a_controller_that_was_killed(
    testbed: CommandLine, rails: str
) -> None:
    with ExitStack() as stack:
        served, port = begin(testbed, rails)
        join_two_hosts(Shims(rails, port, stack))
        served.signal(signal.SIGKILL)
        served.process.communicate(timeout=20)
        assert circuits(testbed, rails, "rail0") == {"h0–h1"}
    done = testbed("recover", "--twin", rails, "--results", str(testbed.results), "--json")
    assert done.code == 0, done.err
    assert [row["exit_code"] for row in done.json()] == [0]
    assert circuits(testbed, rails, "rail0") == set()


def test_ports_that_are_leased_are_refused_by_name(testbed: CommandLine, rails: str) -> None:
    served, _ = begin(testbed, rails)
    other = testbed("opus", "controller", "--hosts", "h3,h4", "--twin", rails, "--for", "1 s")
    assert other.code == 5, other.err
    assert "rail0.4" in other.err and "opus" in other.err
    served.signal(signal.SIGTERM)
    served.finish()


def test_a_lab_that_does_not_permit_it_is_refused(testbed: CommandLine, rails: str) -> None:
    where = ["--twin", rails, "--results", str(testbed.results), "--for", "1 s"]
    done = testbed("opus", "controller", *where, "-S", "lab.controlled_by=[]")
    assert done.code == 2
    assert "lab rails does not permit programs that speak opus to move its circuits" in done.err
    assert "controlled_by: [opus]" in done.err


def test_the_authors_controller_moves_the_circuits_of_a_twin_by_the_recorded_words(
    testbed: CommandLine, rails: str, tmp_path: Path
) -> None:
    where = ["--hosts", ",".join(HOSTS), "--stages", "2", "--sockets", str(tmp_path)]
    served = testbed.start("opus", "worker", *where, "--for", "100 s", "--json", "--twin", rails)
    assert len(said(served)["sockets"]) == 2
    wanted = {0: DATA, 3: PIPELINE, 2: {"h0–h1"}}
    seen = set()
    for row in transactions():
        for to_worker, reply in pairwise(row):
            rail = to_worker.who[0].removeprefix("rail")
            if not rail.isdecimal() or to_worker.to_controller:
                continue
            path = tmp_path / f"opus_controller_ipc_{rail}"
            assert ask_worker(path, to_worker.line) == reply.line
            event = said(served)
            assert event["changed"] == (reply.line == b"SUCCESS, CONFIG-ACK\n")
            word = int(to_worker.line)
            if (rail, event["before"], word) not in seen:
                seen.add((rail, event["before"], word))
                assert circuits(testbed, rails, f"rail{rail}") == wanted[word]
    served.signal(signal.SIGINT)
    assert served.finish().code == 128 + signal.SIGINT
    assert circuits(testbed, rails, "rail0") == circuits(testbed, rails, "rail1") == set()


def test_a_switch_that_refuses_ends_the_lines_of_who_asked_and_others_go_on(
    testbed: CommandLine, rails: str
) -> None:
    with ExitStack() as stack:
        served, port = begin(testbed, rails)
        shims = Shims(rails, port, stack)
        all_say(shims, dict.fromkeys((0, 2), f"COMM;{A},2,0".encode()))
        all_say(shims, dict.fromkeys((1, 3), f"COMM;{B},2,1".encode()))
        with RunningTwin(rails).faulty("rail0", "error", command="ADD"):
            for rank in (0, 2):
                shims.send(rank, f"CONFIG_REQ;{A},2,0".encode())
            assert [shims.line(rank) for rank in (0, 2)] == ["", ""]
        text = said(served)["text"]
        assert text.startswith("the change of circuits of rail 0 failed: rail0:"), text
        assert circuits(testbed, rails, "rail0") == set()
        all_say(shims, dict.fromkeys((1, 3), f"CONFIG_REQ;{B},2,0".encode()))
        assert circuits(testbed, rails, "rail1") == {"h0–h1"}
        served.signal(signal.SIGINT)
        done = served.finish()
    assert done.code == 128 + signal.SIGINT, done.err
    assert served.summary()["outcome"] == "passed"
    assert circuits(testbed, rails, "rail1") == set()
