"""Collectives of groups on rails, whose circuits really move under them."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from testbed.analysis.rail_monitor import monitor
from testbed.record.log import read_events
from tests.e2e.commandline import CommandLine
from tests.e2e.job_on_rails import experiment_on_rails

EXPERIMENT = experiment_on_rails(
    "rails-small",
    "Do sums survive circuits that follow the stages of their groups?",
    iterations=3,
    more="""\
controllers: [{kind: rails, mode: provisioned}]
""",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    line = CommandLine(tmp_path_factory.mktemp("rails") / "results")
    summary, run = line.run_text(EXPERIMENT, "rails")
    log = (run / "events.jsonl").read_text()
    return summary, run, [json.loads(row) for row in log.splitlines()]


def of_kind(events: list[dict], kind: str) -> list[dict]:
    return [event["data"] for event in events if event["kind"] == kind]


def test_every_value_is_right_while_circuits_are_re_pointed(finished) -> None:
    summary, _, events = finished
    assert summary["cleanup"] == "verified"
    samples = of_kind(events, "sample")
    assert len(samples) == 3 * 3 * 8 and all(sample["verified"] for sample in samples)
    changes = Counter(said["rail"] for said in of_kind(events, "stage.lit") if said["changed"])
    stages = 2 + 3  # in which it is connected, probed, and three times used
    assert changes["rail0"] == changes["rail1"] == 4 * stages
    assert summary["metrics"]["only.iteration_time"]["median"] > 0.06


def test_nothing_is_lost_when_circuits_go_and_come(finished) -> None:
    summary, _, events = finished
    metrics, again = summary["metrics"], "a busy machine may delay an acknowledgement now and then"
    changes = sum(said["changed"] for said in of_kind(events, "stage.lit"))
    assert metrics["only.retransmitted"]["max"] < changes / 2, again


def test_no_circuit_went_while_its_stage_had_traffic(finished) -> None:
    summary, run, _ = finished
    seen = monitor(read_events(run / "events.jsonl"))
    assert seen.found == ()
    assert seen.removed > 20
    counts = {"looked_at": seen.removed, "under_traffic": 0, "not_judged": 0}
    assert summary["removed_circuits"] == counts | {"found": [], "gaps": []}


def test_a_stage_has_its_circuits_after_the_last_request_and_before_traffic(finished) -> None:
    _, _, events = finished
    for said in of_kind(events, "sample"):
        assert said["reached"] <= said["lit"] <= said["begin"]
    asked: dict[tuple, set[int]] = {}
    for event in events:
        data = event["data"]
        if event["kind"] in ("stage.reached", "stage.left"):
            stage = data["stage"] if event["kind"] == "stage.reached" else data.get("following")
            if stage:
                asked.setdefault((stage[0], stage[1]), set()).add(data["rank"])
        elif event["kind"] == "stage.lit":
            group, number, ranks, _ = data["stage"]
            assert asked[group, number] == set(ranks), "nobody was told before all had asked"
