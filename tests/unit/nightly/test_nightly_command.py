"""Whole nights of real runs: green, and red for what was planted, with the check named."""

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET


def test_a_nightly_run_without_findings_passes_and_lists_its_runs(first_night):
    facts = first_night.facts()
    assert (facts["outcome"], facts["not_reached"], facts["cannot_run"]) == ("passed", [], [])
    found = [(run["experiment"], run["lab"], run["trials"]) for run in facts["runs"]]
    assert found == [("small", "rack", 1), ("small", "rack", 6)]
    assert facts["new_baselines"] > 0
    page = first_night.text("nightly.md")
    assert page.startswith("# Nightly: passed") and "| passed | small | rack | 6 |" in page


def test_an_arm_that_became_a_fifth_slower_fails_and_is_named(second_night, capsys):
    second_night.experiment(rate="80 Gbit/s")
    assert second_night() == 1
    facts = second_night.facts()
    assert [run["trials"] for run in facts["runs"]] == [6, 6]  # the second to be sure
    assert [run["outcome"] for run in facts["runs"]] == ["passed", "failed"]
    red = [case for run in facts["runs"] for case in run["cases"] if case["fate"] == "failure"]
    assert [case["name"] for case in red] == ["n4 is as fast as before", "n8 is as fast as before"]
    assert all("total_time is slower" in case["reason"] for case in red)
    assert facts["new_baselines"] == 0
    assert "small on rack: n4 is as fast as before: " in capsys.readouterr().out


def test_a_wrong_value_and_an_invalid_file_fail_the_nightly_and_are_in_every_report(nights, capsys):
    nights.experiment("wrong", trials=1, rounds=11)
    (nights.path / "experiments" / "broken.yaml").write_text("experiment: broken\n")
    assert nights() == 1
    facts, said = nights.facts(), capsys.readouterr()
    assert facts["reason"].startswith("wrong on rack: n8.rounds equals 11: 9")
    assert "n8.rounds equals 11" in said.out and "n8.rounds equals 11" in said.err
    assert "n8.rounds equals 11" in nights.text("nightly.md")
    assert facts["new_baselines"] == 0
    suites = {suite.get("name"): suite for suite in read_junit(nights.text("junit.xml"))}
    assert [case.get("name") for case in suites["wrong"] if len(case.findall("failure"))] == [
        "n8.rounds equals 11"
    ]
    assert len(suites["broken"].findall("testcase/error")) == 1


def test_a_broken_file_alone_is_an_error_and_not_a_failure(first_night, tmp_path):
    (tmp_path / "broken.yaml").write_text("experiment: broken\n")
    assert first_night("--experiments", str(tmp_path), "--results", str(tmp_path / "r")) == 4


def test_a_budget_too_small_for_any_run_fails_and_lists_all_runs(second_night):
    assert second_night("--budget", "1 s") == 4
    facts = second_night.facts()
    assert facts["runs"] == [] and facts["reason"] == "nothing was run"
    assert [missed["trials"] for missed in facts["not_reached"]] == [1, 6]
    assert all("1 s were left" in missed["reason"] for missed in facts["not_reached"])


def test_a_signal_ends_the_nightly_run_early_with_a_report(nights):
    for number in range(9):
        nights.experiment(f"number-{number}", trials=1)
    command = [sys.executable, "-m", "testbed.cli", *nights.arguments]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(3):  # the first run has begun and ended, the second has begun
            process.stderr.readline()
        os.kill(process.pid, signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 128 + signal.SIGTERM
    facts = nights.facts()
    assert facts["runs"] and facts["not_reached"]
    assert (facts["outcome"], facts["reason"].split()[0]) == ("aborted", "SIGTERM")
    assert all("signal" in missed["reason"] for missed in facts["not_reached"])


def read_junit(text):
    """Return the suites, after checking what Jenkins' schema of JUnit (junit-10) demands."""
    root = ET.fromstring(text.encode())
    counts = {"tests", "failures", "errors"}
    assert root.tag == "testsuites" and set(root.attrib) <= {"name", "time", *counts}
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("name")
        assert counts <= set(suite.attrib) <= {"name", "skipped", "time", "timestamp", *counts}
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        for fate, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.get(plural)) == len(suite.findall(f"testcase/{fate}"))
        for case in suite:
            assert case.tag == "testcase" and case.get("name")
            assert set(case.attrib) <= {"name", "classname", "time", "group"}
            for child in case:
                assert child.tag in ("failure", "error", "skipped", "system-out")
                assert set(child.attrib) <= {"type", "message"} and not len(child)
    return root
