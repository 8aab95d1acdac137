"""Nothing passes between ranks on a rail that are not in the stage that has light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commandline import COMMAND, ROOT, CommandLine
from tests.e2e.test_training_on_rails import EXPERIMENT

BROADCAST = Path(__file__).parent / "inside" / "broadcast_on_rail.py"
HOSTS = ("h0", "h1", "h2", "h3")
MARGIN = 0.002
"""Seconds in which a datagram arrives, and that a host's clock may be off on the log's."""

STAGES = ("-S", "jobs.main.sizes=[256 KiB]", "-S", "jobs.main.iterations=8")
"""Longer stages than those of the experiment, and more of them."""


@pytest.fixture
def rails() -> Iterator[str]:
    name = f"test-rails-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", "rails", "--name", name], cwd=ROOT, check=True)
    yield name
    subprocess.run([*COMMAND, "twin", "down", name], cwd=ROOT, check=True)


def test_datagrams_arrive_at_the_peer_of_the_stage_that_is_lit_and_nowhere_else(
    testbed: CommandLine, rails: str, tmp_path: Path
) -> None:
    programs = {host: _broadcasting(rails, host, tmp_path) for host in HOSTS}
    try:
        for program in programs.values():
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
        _, run = testbed.run_text(EXPERIMENT, "rails", *STAGES, twin=rails)
        said = {
            host: json.loads(each.communicate(timeout=20)[0]) for host, each in programs.items()
        }
    finally:
        for program in programs.values():
            program.kill()
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    ahead = {e["subject"]: e["data"]["ahead"] for e in events if e["kind"] == "clock.offset"}
    came = {host: {tuple(each) for each in of["received"]} for host, of in said.items()}
    joined, others = [], []
    for hosts, begin, end in _lit(events, ahead):
        for host in hosts:
            within = [
                (host, number)
                for number, (before, after) in enumerate(said[host]["sent"])
                if begin + MARGIN < before - ahead[host] and after - ahead[host] < end - MARGIN
            ]
            (peer,) = hosts - {host}
            joined += [each in came[peer] for each in within]
            others += [each in came[other] for other in {*HOSTS} - hosts for each in within]
    assert len(joined) > 50 and len(others) > 100
    assert all(joined), f"{joined.count(False)} of {len(joined)} were lost between joined ranks"
    assert not any(others), f"{others.count(True)} of {len(others)} arrived where no light leads"


def _broadcasting(twin: str, host: str, scratch: Path) -> subprocess.Popen[str]:
    shell = scratch / f"shell-{host}"
    shell.write_text(f"#!/bin/sh\nexec {sys.executable} {BROADCAST} {host}\n")
    shell.chmod(0o755)
    return subprocess.Popen(
        [*COMMAND, "twin", "shell", twin, host],
        cwd=ROOT,
        env={**os.environ, "SHELL": str(shell)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _lit(events: list[dict], ahead: dict[str, float]) -> Iterator[tuple[set[str], float, float]]:
    """Yield the hosts of each stage of rail 0, from when it is lit until its first rank leaves."""
    lit: dict[tuple[int, ...], float] = {}
    left: defaultdict[tuple[int, ...], list[float]] = defaultdict(list)
    for event in events:
        data = event["data"]
        if event["kind"] == "stage.lit" and data["rail"] == "rail0":
            lit[tuple(data["stage"][2])] = event["t"]
        elif event["kind"] == "stage.left" and data["stage"]:
            ranks = tuple(data["stage"][2])
            left[ranks].append(data["mono"] - ahead[data["host"]])
            if ranks in lit and len(left[ranks]) == len(ranks):
                yield {f"h{rank // 2}" for rank in ranks}, lit.pop(ranks), min(left.pop(ranks))
