"""What a night runs first, from what is on record."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testbed.nightly.pairs import find_pairs
from testbed.nightly.past_runs import past_runs
from testbed.nightly.task_order import first_of_full, tasks
from tests.unit.nightly.nights import ROOT, shipped_pair

LUMION, FAULTS = shipped_pair("lumion", "rack"), shipped_pair("faults", "rack")
SERIAL = shipped_pair("lumion", "serial-rack")


@pytest.fixture(scope="module")
def shipped():
    """Return all pairs of this checkout, and what cannot run."""
    return find_pairs(ROOT / "experiments", ROOT / "configs")


@pytest.fixture
def record(tmp_path):
    """Return a writer of run directories, as far as a night reads them."""

    def write(of, day, trials, seconds=10.0, outcome="passed", **changes):
        run = tmp_path / f"202611{day:02}T020000Z-{of.key[0]}-0a1b2c"
        run.mkdir()
        facts = {"overrides": [], "label": "measured-twin"} | changes.get("facts", {})
        (run / "run.json").write_text(json.dumps(facts))
        steps = [
            {"do": "RunTrial", "arm": arm.name}
            for arm in of.experiment.arms()
            for _ in range(trials)
        ]
        plan = {"experiment": of.key[0], "lab": of.key[1], "steps": steps}
        (run / "plan.json").write_text(json.dumps(plan))
        (run / "experiment.yaml").write_text(changes.get("text", of.experiment.source.text))
        (run / "lab.yaml").write_text(of.lab.source.text)
        (run / "events.jsonl").write_text(f'{{"t": 0}}\n{{"t": {seconds}}}\n{{"t": 99')
        if outcome:
            (run / "summary.json").write_text(json.dumps({"outcome": outcome}))
        return run

    write.results = tmp_path
    return write


def order(record, *pairs):
    """Return what runs each arm once, and what runs full counts, in order."""
    once, full = tasks(pairs, past_runs(record.results, print))
    return [task.pair.key for task in once], [task.pair.key for task in full]


def test_missing_results_come_first_and_then_the_oldest(record):
    record(LUMION, 3, 1)
    record(FAULTS, 2, 1)
    once, _ = order(record, LUMION, FAULTS, SERIAL)
    assert once == [SERIAL.key, FAULTS.key, LUMION.key]


def test_full_counts_have_their_own_age_and_count_as_one_trial_of_each_arm(record):
    record(LUMION, 3, 1)
    record(LUMION, 4, 10)
    record(FAULTS, 5, 1)
    once, full = order(record, LUMION, FAULTS)
    assert once == [LUMION.key, FAULTS.key] and full == [FAULTS.key, LUMION.key]


def test_without_results_the_lab_that_an_experiment_names_comes_first(record):
    assert order(record, SERIAL, LUMION)[0] == [LUMION.key, SERIAL.key]


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": {"overrides": ["trials=1"]}},
        {"facts": {"label": "measured-hw"}},
        {"text": "experiment: lumion\n"},
        {"outcome": "aborted"},
        {"outcome": ""},
    ],
)
def test_results_of_changed_files_or_of_hardware_do_not_count(record, changes):
    record(LUMION, 3, 10, **changes)
    once, full = tasks([LUMION], past_runs(record.results, print))
    assert (once[0].last, full[0].last) == ("", "")


def test_a_corrupt_record_hides_no_other_run(record):
    for name, text in (("plan.json", "[]"), ("run.json", "{"), ("events.jsonl", "\x00")):
        (record(FAULTS, 1 + len(name), 1) / name).write_text(text)
    (record(FAULTS, 2, 1) / "experiment.yaml").unlink()
    for day, name in enumerate(("events.jsonl", "lab.yaml", "plan.json", "summary.json"), 20):
        spoilt = record(FAULTS, day, 1)
        (spoilt / name).unlink()
        os.mkfifo(spoilt / name)  # without a writer
    record(LUMION, 3, 1)
    assert "lumion" in [past.experiment for past in past_runs(record.results, print)]


@pytest.mark.parametrize("time", ['"12"', "null", "true", "[3]", "1e999", "1" + 400 * "0"])
def test_an_event_without_a_valid_time_does_not_hide_its_run(record, time):
    events = record(LUMION, 3, 1, seconds=20.0) / "events.jsonl"
    events.write_text(f'{{"t": 0}}\n{{"t": {time}}}\n{{"t": 20.0}}\n{{"t": {time}}}\n')
    said = []
    (past,) = past_runs(record.results, said.append)
    assert past.seconds == 20.0
    assert said == [f"2 events of {past.run} without a valid time left out"]


def test_a_run_of_which_no_event_has_a_valid_time_is_left_out(record):
    events = record(LUMION, 3, 1) / "events.jsonl"
    events.write_text('{"t": "late"}\n')
    said = []
    assert past_runs(record.results, said.append) == []
    assert len(said) == 1


def test_the_expected_duration_of_a_run_is_its_last_one(record):
    record(LUMION, 3, 1, seconds=20.0)
    once, full = tasks([LUMION], past_runs(record.results, print))
    assert (once[0].seconds, once[0].basis) == (pytest.approx(30.0), "same")
    assert (full[0].seconds, full[0].basis) == (pytest.approx(246.0), "fewer")
    assert full[0].after_once(99.0) == full[0]
    record(LUMION, 4, 10, seconds=100.0)
    assert tasks([LUMION], past_runs(record.results, print))[1][0].seconds == pytest.approx(126.0)


def test_the_expected_duration_of_a_run_cut_short_is_longer_than_measured(record):
    record(LUMION, 3, 1, seconds=20.0)
    record(LUMION, 4, 10, seconds=1000.0, outcome="aborted")
    assert tasks([LUMION], past_runs(record.results, print))[1][0].seconds == pytest.approx(2406.0)


def test_an_aborted_run_is_a_result_but_gives_no_duration(record):
    record(LUMION, 3, 1, seconds=1.0, outcome="error")
    once, _ = tasks([LUMION], past_runs(record.results, print))
    assert once[0].last and once[0].basis == "nothing" and once[0].seconds > 60


def test_a_lab_without_runs_is_expected_to_take_as_long_as_others(record):
    record(LUMION, 3, 1, seconds=20.0)
    once, full = tasks([SERIAL], past_runs(record.results, print))
    assert (once[0].seconds, once[0].basis) == (pytest.approx(30.0), "nothing")
    assert full[0].seconds == pytest.approx(246.0)


def test_without_results_one_trial_of_each_arm_estimates_the_duration(record):
    _, full = tasks([LUMION], past_runs(record.results, print))
    assert full[0].basis == "nothing" and first_of_full(full, 1e9) is None
    after = full[0].after_once(16.0)
    assert (after.seconds, after.basis) == (pytest.approx(126.0), "fewer")


def test_time_is_reserved_for_the_oldest_full_count_that_fits_the_budget(record):
    record(LUMION, 3, 10, seconds=2000.0)
    record(FAULTS, 4, 6, seconds=100.0)
    _, full = tasks([LUMION, FAULTS], past_runs(record.results, print))
    assert first_of_full(full, 1800.0).pair.key == FAULTS.key
    assert first_of_full(full, 7200.0).pair.key == LUMION.key
    assert first_of_full(full, 1.0) is None


def test_every_shipped_experiment_fits_its_own_lab_or_is_excluded_with_a_reason(shipped):
    pairs, excluded = shipped
    homes = {found.key[0] for found in pairs if found.is_home}
    excused = {one.experiment for one in excluded if one.lab == "any lab"}
    names = {path.stem for path in (ROOT / "experiments").glob("*.yaml")}
    assert homes | excused == names and "nccl-tests" in excused
    assert not [one for one in excluded if one.broken]


def test_an_experiment_that_does_not_fit_its_own_lab_is_reported_as_an_error(tmp_path):
    text = (ROOT / "experiments" / "lumion.yaml").read_text()
    (tmp_path / "lumion.yaml").write_text(text.replace("lab: rack", "lab: quad"))
    pairs, excluded = find_pairs(tmp_path, ROOT / "configs")
    assert ("lumion", "rack") in [found.key for found in pairs]
    assert [one.lab for one in excluded if one.broken] == ["quad"]


def test_a_model_is_computed_once_and_not_for_every_lab(shipped):
    pairs, _ = shipped
    assert [p.key[1] for p in pairs if p.key[0] == "stragglar-scaling"] == ["rack"]


def test_a_directory_without_experiments_is_reported(tmp_path: Path):
    with pytest.raises(Exception, match="holds no files"):
        find_pairs(tmp_path, ROOT / "configs")
