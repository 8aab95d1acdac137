"""A run as JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from testbed.analysis.checks import CheckResult
from testbed.report.junit import write_junit
from tests.unit.report.runs_by_hand import lost, recovery, removed, summary, trial, unrepaired

HELD = CheckResult("warm.recovery_time every", "< 1 s", 0.5, "passed", "1 of 1 trials", 0.05)
MISSED = CheckResult("warm.recovery_time median", "< 100 ms", 0.5, "failed", unit="s")
OPEN = CheckResult("cold.recovery_time every", "< 1 s", None, "unknown", "no trial has a value")


@pytest.fixture
def suite(tmp_path):
    """Write a run as JUnit and return the parsed suite."""

    def written(found):
        write_junit(found, tmp_path / "junit.xml")
        return ET.parse(tmp_path / "junit.xml").getroot()

    return written


def fates(suite: ET.Element) -> dict[str, str]:
    """Return the fate of each case by its name."""
    found = {}
    for case in suite.iter("testcase"):
        children = [child.tag for child in case if child.tag != "system-out"]
        found[case.get("name")] = children[0] if children else "passed"
    return found


def test_the_flag_of_a_metric_is_a_property_of_the_suite(suite):
    found = suite(summary(recovery(0), flags={"warm.busbw": "above the rate of a port"}))
    kept = {one.get("name"): one.get("value") for one in found.iter("property")}
    assert kept["warm.busbw"] == "above the rate of a port"


def test_each_check_and_each_trial_is_a_test_case_with_its_result(suite):
    invalid = recovery(2, valid=False, reason="no receipt")
    found = suite(summary(recovery(0), lost(1), invalid, checks=(HELD, MISSED, OPEN)))
    assert fates(found) == {
        "run": "passed",
        "clean-up": "passed",
        "warm.recovery_time every < 1 s": "passed",
        "warm.recovery_time median < 100 ms": "failure",
        "cold.recovery_time every < 1 s": "skipped",
        "trial 0 warm": "passed",
        "trial 1 warm": "failure",
        "trial 2 warm": "skipped",
    }


@pytest.mark.parametrize("trials", [(), (trial(0),), (recovery(0, valid=False),)])
def test_a_run_without_measurements_is_an_error(suite, trials):
    found = suite(summary(*trials, outcome="inconclusive", exit_code=3))
    assert fates(found)["run"] == "error" and int(found.get("errors")) == 1


def test_a_trial_with_a_retry_is_marked(suite):
    found = suite(summary(recovery(0), recovery(1, retries=2)))
    said = {case.get("name"): case.findtext("system-out") for case in found.iter("testcase")}
    assert said["trial 1 warm"] == "2 retries" and said["trial 0 warm"] is None


def test_a_ridden_out_fault_is_no_failure_and_an_unknown_response_no_pass(suite):
    found = suite(summary(unrepaired(0, "ridden out"), unrepaired(1, "not known")))
    assert fates(found)["trial 0 warm"] == "passed"
    assert fates(found)["trial 1 warm"] == "skipped"
    said = {case.get("name"): case.findtext("system-out") for case in found.iter("testcase")}
    assert said["trial 0 warm"].startswith("ridden out: no step took longer")


def test_the_counts_of_the_suite_are_those_of_its_cases(suite):
    found = suite(summary(recovery(0), lost(1), checks=(HELD, MISSED, OPEN)))
    all_fates = list(fates(found).values())
    for attribute, fate in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(found.get(attribute)) == all_fates.count(fate)
    assert int(found.get("tests")) == len(all_fates)


def test_every_case_that_did_not_pass_has_a_reason(suite):
    found = suite(summary(lost(0), checks=(MISSED, OPEN)))
    reasons = [child.get("message") for case in found.iter("testcase") for child in case]
    assert "500 ms" in reasons
    assert "no value; no trial has a value" in reasons
    assert "not recovered: not recovered within 60 s" in reasons


@pytest.mark.parametrize("outcome", ["error", "aborted", "inconclusive"])
def test_a_junit_report_of_a_run_without_trials_has_an_error(suite, outcome):
    found = suite(summary(outcome=outcome, reason="ocs does not answer"))
    assert int(found.get("errors")) >= 1
    assert fates(found)["run"] == "error"


def test_a_lab_error_after_valid_trials_is_an_error(suite):
    found = suite(summary(recovery(0), outcome="error", reason="h3: the link is closed"))
    assert fates(found)["run"] == "error"
    assert fates(found)["trial 0 warm"] == "passed"


@pytest.mark.parametrize("trials", [(), (recovery(0),)])
def test_a_destroyed_receiver_fails_a_run_whose_trials_passed(suite, trials):
    words = "the receiver of h1.p0 was destroyed: it got 3.0 dBm and withstands -3 dBm"
    found = suite(summary(*trials, outcome="failed", reason=words, destroyed=[words]))
    assert fates(found)["run"] == "failure"
    assert next(found.iter("failure")).get("message") == words


def test_a_circuit_that_was_removed_under_traffic_fails_a_run_whose_trials_passed(suite):
    bad = removed(under_traffic=True)
    words = bad.found[0]
    found = suite(summary(recovery(0), outcome="failed", reason=words, removed_circuits=bad))
    assert fates(found)["run"] == "failure"
    assert next(found.iter("failure")).get("message") == words


def test_a_failed_clean_up_is_an_error_that_names_open_changes(suite):
    found = suite(summary(recovery(0), cleanup="failed", left=("circuits: ocs is silent",)))
    (error,) = found.iter("error")
    assert error.get("message") == "circuits: ocs is silent"


def test_properties_of_the_suite_are_run_seed_lab_and_label(suite):
    properties = {p.get("name"): p.get("value") for p in suite(summary()).iter("property")}
    assert properties == {
        "run": "20260101T000000Z-lumion-0a1b2c",
        "seed": "7",
        "lab": "rack",
        "label": "measured-twin",
        "outcome": "passed",
    }


def test_characters_that_xml_forbids_do_not_break_the_file(suite):
    found = suite(summary(outcome="error", reason="h0 said \x1b[31m<no>\x00 & \ud800"))
    (error,) = found.iter("error")
    assert error.get("message") == r"error: h0 said \u001b[31m<no>\u0000 & \ud800"
