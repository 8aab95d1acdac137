"""A whole run of the main experiment, as its users see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.commandline import CommandLine
from tests.e2e.footprint import assert_as, footprint

pytestmark = pytest.mark.alone  # a busy machine is not as fast as before for long

PARTS = ("recovery_time", "detection", "fencing", "reconfiguration", "restoring", "first_step")


@pytest.fixture(scope="module")
def before() -> dict[str, set[str]]:
    return footprint()


@pytest.fixture(scope="module")
def finished(
    before: dict[str, set[str]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict, Path]:
    line = CommandLine(tmp_path_factory.mktemp("lumion") / "results")
    done = line.run("lumion", "--repeat", "1", "--seed", "7", "--report")
    assert done.code == 0, done.err
    return done.json(), line.results / "latest"


def test_both_variants_of_an_experiment_recover_with_a_confirmed_fault_and_every_mark(
    finished: tuple[dict, Path],
) -> None:
    summary, _ = finished
    assert {trial["variant"] for trial in summary["trials"]} == {"splice-warm", "splice-cold"}
    for trial in summary["trials"]:
        assert trial["valid"] and trial["recovered"]
        assert trial["receipt"]["observer"].endswith("carrier")
        assert trial["values"]["reconfiguration"] >= 0.025 + 0.010  # light, then the link
        marks = trial["marks"]
        # t11 is when throughput is back, which a busy machine may keep it from for a whole trial.
        assert [mark for mark in marks if mark != "t11"] == [f"t{n}" for n in range(11)]
        assert marks["t0"] == 0.0 < marks["t1"] <= marks["t2"] <= marks["t3"] <= marks["t4"]
        assert marks["t4"] <= marks["t5"] < marks["t6"] < marks["t8"] < marks["t9"] < marks["t10"]
        assert marks["t7"] < marks["t8"] and marks["t10"] <= marks.get("t11", marks["t10"])


def test_a_run_that_passed_leaves_nothing_on_this_machine(
    before: dict[str, set[str]], finished: tuple[dict, Path]
) -> None:
    assert_as(before)


def test_the_summary_states_its_label_and_its_confidence(finished: tuple[dict, Path]) -> None:
    summary, _ = finished
    assert summary["format"] == 1 and summary["label"] == "measured-twin"
    assert summary["seed"] == 7 and summary["cleanup"] == "verified"
    for part in PARTS:
        metric = summary["metrics"][f"splice-warm.{part}"]
        assert metric["unit"] == "s" and metric["better"] == "lower" and metric["n"] == 1
        assert metric["ci95"] is None  # one trial has no interval
    (check,) = [c for c in summary["checks"] if "recovery_time" in c["name"]]
    assert check["verdict"] == "passed" and check["supports"] == pytest.approx(0.05)


def test_the_prediction_was_written_before_the_fault(finished: tuple[dict, Path]) -> None:
    _, run = finished
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    for trial in (0, 1):
        kinds = [event["kind"] for event in events if event.get("trial") == trial]
        assert kinds.index("prediction") < kinds.index("fault.inject")


def test_a_recovery_takes_the_course_that_the_plan_predicts(finished: tuple[dict, Path]) -> None:
    _, run = finished
    assert list(map(str, CommandLine(run.parent).deviations())) == []


def test_the_summary_states_the_settings_of_the_twin(finished: tuple[dict, Path]) -> None:
    summary, _ = finished
    for settings in summary["settings"].values():
        assert settings["settle"] == 0.025 and settings["link_up"] == 0.01
        assert settings["rate"] == 500e6 and 0 < settings["delivered"] < 500e6
    slow = [one for one in summary["profiles"] if one["link_up"] >= 3]
    for one in slow:
        assert one["predicted"].keys() == summary["settings"].keys()
        assert all(seconds > 3 for seconds in one["predicted"].values())
    assert len(slow) == 2 and all(0 <= trial["others"] <= 1 for trial in summary["trials"])


def test_the_state_transferred_to_a_spare_is_at_least_16_mib(finished: tuple[dict, Path]) -> None:
    _, run = finished
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    restored = [e["data"]["bytes"] for e in events if e["kind"] == "state.restored"]
    assert max(restored) >= 16 * 2**20


def test_the_run_directory_is_complete(finished: tuple[dict, Path]) -> None:
    _, run = finished
    names = {path.name for path in run.iterdir()}
    assert names >= {
        "experiment.yaml", "lab.yaml", "plan.json", "run.json", "events.jsonl", "journal.jsonl",
        "wire", "logs", "summary.json", "report.html", "junit.xml",
    }  # fmt: skip
    assert {path.name for path in (run / "wire").iterdir()} == {"ocs.jsonl", "pdu.jsonl"}
    facts = json.loads((run / "run.json").read_text())
    assert facts["versions"]["testbed"] and facts["command"].startswith("testbed run")


def test_a_report_can_be_rebuilt_from_the_events_alone(finished: tuple[dict, Path]) -> None:
    summary, run = finished
    for name in ("summary.json", "report.html", "junit.xml"):
        (run / name).unlink()
    again = CommandLine(run.parent)("report", str(run), "--json")
    assert again.json() == summary and (run / "report.html").exists()


def test_no_entry_of_the_journal_is_left_open(finished: tuple[dict, Path]) -> None:
    from testbed.record.journal import open_entries

    _, run = finished
    assert open_entries(run / "journal.jsonl") == []
