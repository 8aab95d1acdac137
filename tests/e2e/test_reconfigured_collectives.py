"""Collectives on a circuit switch: real packets over circuits that really move under them."""

from __future__ import annotations

import json

import pytest

from tests.e2e.commandline import CommandLine

EXPERIMENT = """\
experiment: move
question: Do sums survive a switch that moves between the rounds?
lab: rack
needs: {hosts: 4, fabric: circuit}
jobs:
  main:
    kind: collective
    ranks: 4
    sizes: [64 KiB]
    algorithms: [ring, rhd, stragglar]
    circuits: both
    iterations: 1
    warmup: 0
"""
SETTLE_AND_LINK_UP = 0.035
"""Seconds: what `configs/rack.yaml` says of its twin."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, list[dict]]:
    line = CommandLine(tmp_path_factory.mktemp("circuits") / "results")
    summary, run = line.run_text(EXPERIMENT, "rack")
    log = (run / "events.jsonl").read_text()
    return summary, [json.loads(row) for row in log.splitlines()]


def of_kind(events: list[dict], kind: str) -> list[dict]:
    return [event for event in events if event["kind"] == kind]


def test_every_algorithm_gives_right_sums_and_the_lab_is_restored(
    finished: tuple[dict, list[dict]],
) -> None:
    summary, events = finished
    assert summary["cleanup"] == "verified"
    samples = [event["data"] for event in of_kind(events, "sample")]
    assert {sample["algorithm"] for sample in samples} == {
        "ring",
        *(f"{name}_{way}" for name in ("rhd", "stragglar") for way in ("repointed", "forwarded")),
    }
    assert len(samples) == 5 * 4 and all(sample["verified"] for sample in samples)


def test_circuits_change_after_all_ranks_requested_it_and_carry_data_once_verified(
    finished: tuple[dict, list[dict]],
) -> None:
    _, events = finished
    missing: dict[int, set[int]] = {}
    proved: list[str] = []
    answered = 0
    for event in events:
        data = event["data"]
        if event["kind"] == "circuits.asked":
            missing.setdefault(data["number"], set(data["of"])).remove(data["rank"])
        elif event["kind"] == "fabric.change" and missing:
            assert not missing[answered + 1]
            proved = []
        elif event["kind"] == "link.good":
            proved.append(event["subject"])
        elif event["kind"] == "circuits.lit":
            answered += 1
            assert data["number"] == answered
            assert proved and all(proved.count(circuit) == 2 for circuit in proved)
    assert len(missing) == answered > 20


def test_the_duration_of_a_circuit_change_is_measured_and_predicted(
    finished: tuple[dict, list[dict]],
) -> None:
    summary, events = finished
    before, prediction = [event["data"] for event in of_kind(events, "prediction")]
    assert prediction["changes"] >= 5
    assert prediction["delta"] >= prediction["fastest"] >= SETTLE_AND_LINK_UP
    assert before["changes"] >= 20
    metrics = summary["metrics"]
    for name, changes in (("rhd", 1), ("stragglar", 4)):
        found = metrics[f"only.total_{name}_repointed_64kib"]
        assert found["median"] >= changes * SETTLE_AND_LINK_UP
        assert found["predicted"] >= changes * prediction["delta"]
    assert 0 <= metrics["only.right_choices"]["median"] <= 100
