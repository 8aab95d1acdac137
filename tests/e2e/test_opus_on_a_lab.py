"""Programs that speak the words of the Opus artifact move the circuits of a live twin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.commandline import COMMAND, ROOT, CommandLine, Started
from tests.e2e.running_twin import RunningTwin
from tests.unit.opus.stranger import Job, answer_to

SHIMS = Path(__file__).parent / "inside" / "opus_shims.py"
CONTROLLER = "100.64.0.1"
"""Where hosts of a twin reach what runs on the controller's side."""
HOSTS = ("h0", "h1", "h2", "h3")
JOB = Job(stages=2, datas=2, tensors=2)
"""The job of the recorded transcript: rank = 4 × stage + 2 × data + tensor, two ranks a host."""
DATA = {"h0—h1", "h2—h3"}
PIPELINE = {"h0—h2", "h1—h3"}


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
    assert served.process.stdout is not None
    first = json.loads(served.process.stdout.readline())
    assert (first["event"], first["label"]) == ("listening", "measured-twin")
    return served, int(first["address"].rpartition(":")[2])


def circuits(testbed: CommandLine, twin: str, switch: str) -> set[str]:
    """Return the pairs of hosts that a switch joins both ways, as `testbed switch` shows them."""
    done = testbed("switch", switch, "show", "--twin", twin, "--json")
    assert done.code == 0, done.err
    pairs = {(row["ingress"], row["egress"] - 5) for row in done.json()}
    assert {(b, a) for a, b in pairs} == pairs
    return {f"h{a - 1}—h{b - 1}" for a, b in pairs if a < b}


def all_say(shims: Shims, lines: list[bytes]) -> None:
    """Have every rank send its line, and get the answer to it."""
    for rank, line in enumerate(lines):
        shims.send(rank, line)
    for rank, line in enumerate(lines):
        assert shims.line(rank).startswith(answer_to(line).decode())


def test_shims_on_the_hosts_of_a_twin_move_its_circuits_which_are_put_back(
    testbed: CommandLine, rails: str
) -> None:
    with ExitStack() as stack:
        served, port = begin(testbed, rails)
        shims = Shims(rails, port, stack)
        scripts = [JOB.script(rank, 2) for rank in range(JOB.ranks)]
        steps = list(zip(*scripts, strict=True))
        for step in steps[:4]:  # they check in
            all_say(shims, list(step))
        for number, step in enumerate(steps[4:]):
            all_say(shims, list(step))
            wanted = PIPELINE if number % 4 in (1, 2) else DATA
            if number < 4:
                assert circuits(testbed, rails, "rail0") == wanted
                assert circuits(testbed, rails, "rail1") == wanted
        served.signal(signal.SIGINT)
        done = served.finish()
    assert done.code == 128 + signal.SIGINT, done.err
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert [row["changed"] for row in answers if row["event"] == "answer"]
    assert circuits(testbed, rails, "rail0") == circuits(testbed, rails, "rail1") == set()
