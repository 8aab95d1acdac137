"""Ports with one fibre for both directions: on a switch with two sides, and on one with one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commandline import COMMAND, ROOT, CommandLine

LAB = Path(__file__).parent / "bidi" / "lab.yaml"
EXPERIMENT = LAB.with_name("experiment.yaml")


@pytest.fixture(scope="module")
def twin() -> Iterator[str]:
    name = f"bidi-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", str(LAB), "--name", name], cwd=ROOT, check=True)
    yield name
    subprocess.run([*COMMAND, "twin", "down", name], cwd=ROOT, check=True)


def by_hand(testbed: CommandLine, twin: str, *words: str) -> Any:
    where = ["--lab", str(LAB), "--twin", twin, "--results", str(testbed.results), "--json"]
    done = testbed("switch", *words, *where)
    assert done.code == 0, done.err
    return [(row["ingress"], row["egress"], row["both_ways"]) for row in done.json()]


def ring(hosts: str) -> list[str]:
    return ["run", str(EXPERIMENT), "--lab", str(LAB), "-S", f"jobs.main.hosts={hosts}", "--twin"]


@pytest.mark.parametrize("hosts", ["[h0, h1]", pytest.param("[h2, h3]", marks=pytest.mark.soak)])
def test_a_ring_runs_over_one_cross_connect_for_each_circuit(
    testbed: CommandLine, twin: str, hosts: str
) -> None:
    done = testbed(*ring(hosts), twin, "--results", str(testbed.results), "--json")
    assert done.code == 0, done.err
    lines = (testbed.results / "latest" / "events.jsonl").read_text().splitlines()
    made = {
        tuple(row["data"]["added"])
        for row in map(json.loads, lines)
        if row["kind"] == "fabric.change"
    }
    assert (("ocs.1→10", "ocs.2→9") if "h0" in hosts else ("any.2→5", "any.3→4")) in made


def test_a_single_fibre_circuit_is_made_and_removed_manually_by_the_names_of_its_ends(
    testbed: CommandLine, twin: str
) -> None:
    assert by_hand(testbed, twin, "ocs", "connect", "h0.p1", "h1.p0") == [(2, 9, True)]
    assert by_hand(testbed, twin, "ocs", "show") == [(2, 9, True)]
    assert by_hand(testbed, twin, "ocs", "disconnect", "h1.p0", "h0.p1") == []
    assert by_hand(testbed, twin, "any", "connect", "5", "2", "h4.p0", "h5.p0") == [
        (2, 5, True),
        (6, 8, False),
        (7, 9, False),
    ]
    assert by_hand(testbed, twin, "any", "disconnect", "2", "5", "h4.p0", "h5.p0") == []
    where = ["--lab", str(LAB), "--twin", twin, "--results", str(testbed.results)]
    refused = testbed("switch", "ocs", "connect", "h0.p0", "h1.p0", *where)
    assert refused.code == 2
    assert "h0.p0 and h1.p0 are both on the input side of ocs" in refused.err


def test_recover_removes_the_circuits_of_a_killed_run_on_bidirectional_ports(
    testbed: CommandLine, twin: str
) -> None:
    running = testbed.start(*ring("[h0, h1]"), twin, "-S", "jobs.main.iterations=100000")
    running.await_event(lambda event: event["kind"] == "trial.begin")
    running.signal(signal.SIGKILL)
    running.finish()
    assert by_hand(testbed, twin, "ocs", "show") == [(1, 10, True), (2, 9, True)]
    done = testbed("recover", "latest", "--twin", twin, "--results", str(testbed.results))
    assert done.code == 0, done.err
    assert by_hand(testbed, twin, "ocs", "show") == []
