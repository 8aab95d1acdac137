"""Eight ranks on four hosts of a packet lab: all sums of all groups are right, or it is noticed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.commandline import CommandLine
from tests.e2e.test_wrong_sums import PLANTED

MESH = {"dp": 4, "pp": 2, "tp": 1}
"""By how much the ranks of a group along a dimension differ, in {dp: 2, pp: 2, tp: 2}."""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    line = CommandLine(tmp_path_factory.mktemp("groups") / "results")
    where = ["--twin", "--repeat", "1", "--results", str(line.results)]
    done = line("run", "experiments/groups.yaml", *where)
    assert done.code == 0, done.err
    log = (line.results / "latest" / "events.jsonl").read_text()
    return [json.loads(row) for row in log.splitlines()]


def of_kind(events: list[dict], kind: str) -> list[dict]:
    return [event["data"] for event in events if event["kind"] == kind]


def test_every_collective_of_every_group_is_verified(events: list[dict]) -> None:
    samples = of_kind(events, "sample")
    assert all(sample["verified"] for sample in samples)
    seen = Counter((s["rank"], s["dimension"], tuple(s["members"])) for s in samples)
    groups = {
        (rank, dimension, tuple(sorted((rank, rank ^ apart))))
        for rank in range(8)
        for dimension, apart in MESH.items()
    }
    assert seen == dict.fromkeys(groups, 15), "three sizes, five times each"


def test_ranks_run_two_on_each_host_and_processes_end_once(events: list[dict]) -> None:
    ready = of_kind(events, "rank.ready")
    assert {said["rank"]: said["host"] for said in ready} == {r: f"h{r // 2}" for r in range(8)}
    assert sorted(said["rank"] for said in of_kind(events, "job.done")) == list(range(8))


def test_a_wrong_value_fails_the_trial_and_is_named(testbed: CommandLine, tmp_path: Path) -> None:
    """Ranks 2 and 3 add wrongly: they or those that share a group with them find it."""
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    planted = ["-S", f"lab.hosts.h1.env={{PYTHONPATH: {tmp_path}}}"]
    planted += ["-S", "lab.twin.clock_drift=0 ppm"]  # which needs PYTHONPATH for itself
    where = ["--twin", "--repeat", "1", "--json", "--results", str(testbed.results)]
    done = testbed("run", "experiments/groups.yaml", *planted, *where)
    assert done.code == 1, done.err
    (trial,) = done.json()["trials"]
    found = re.match(r"rank (\d) on h\d corrupt: element \d+ is [\d.]+, not \d+", trial["reason"])
    assert found and int(found[1]) in {2, 3, 0, 1, 6, 7}, trial["reason"]
