"""The last page of a run on the terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from testbed import commands
from testbed.analysis.admission import Admission
from testbed.analysis.checks import CheckResult
from testbed.analysis.clocks import Instant
from testbed.analysis.marks import Marks
from testbed.analysis.recover_attempts import RecoverAttempt, UndoStep
from testbed.analysis.settings import Profile
from testbed.analysis.summary import Retry
from testbed.errors import EXIT_BUG, EXIT_BUSY, EXIT_LAB, EXIT_UNSAFE
from testbed.events import Event
from testbed.report.last_page import print_page
from tests.unit.report.runs_by_hand import ZERO, lost, recovery, removed, summary, trial, unrepaired

MISSED = CheckResult("warm.recovery_time median", "< 100 ms", 0.5, "failed", unit="s")
HELD = CheckResult("warm.recovery_time every", "< 1 s", 0.5, "passed", "2 of 2 trials", 0.2236)
OPEN = CheckResult("cold.recovery_time every", "< 1 s", None, "unknown", "no trial has a value")


@pytest.fixture
def page(text):
    """Print a page into text."""

    def printed(found, width=100, run_dir=Path("results/run")):
        return text(lambda console: print_page(found, run_dir, console), width)

    return printed


def section(page: str, title: str) -> list[str]:
    """Return the lines of a page from one that starts with `title` to the next empty one."""
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(title))
    return lines[start : lines.index("", start)]


def test_the_last_page_begins_with_the_label_measured_or_emulated(page):
    head = page(summary(recovery(0))).splitlines()
    assert head[0] == "lumion on rack, seed 7"
    assert head[1].startswith("measured-twin: Real: every process")
    assert "Emulated: the light" in " ".join(head[1:6])


def test_the_page_says_how_a_queue_let_the_run_start(page):
    let_in = Admission("irs", 34.2, None, "a0: held by them: other")
    head = page(summary(recovery(0), admission=let_in), 200)
    assert "admitted by irs, after 34 s (expected unknown): a0: held by them: other" in head
    assert "admitted" not in page(summary(recovery(0)))


def test_the_last_lines_are_verdict_reason_directory_and_next_command(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    lines = page(summary(recovery(0)), run_dir=tmp_path / "results" / "run").splitlines()
    assert lines[-4:-1] == [
        "verdict passed, clean-up verified",
        "reason  1 of 1 trials are valid",
        "run     results/run",
    ]
    assert lines[-1].startswith("next    ")
    assert lines[-1].endswith("open results/run/report.html")


def test_a_passed_run_with_a_retry_is_marked(page):
    retried = Retry(1, "ocs", "a change", "it answered half")
    found = page(summary(recovery(0), recovery(1, retries=1), retries=(retried,)))
    assert "verdict passed, clean-up verified, 1 retry" in found
    assert section(found, "Tried once more")[1:] == ["  trial 1: a change of ocs: it answered half"]
    rows = section(found, "Trials")
    assert "1 retry" in rows[-1] and "retry" not in rows[-2]


def test_the_page_says_how_many_removed_circuits_had_traffic_and_which_are_not_judged(page):
    def printed(**how):
        return section(page(summary(trial(0), removed_circuits=removed(**how)), 150), "Removed")[1:]

    looked_at = "circuits that rails removed were looked at"
    assert printed() == [f"  2 of 2 {looked_at}, none of them had traffic"]
    assert printed(under_traffic=True) == [
        f"  2 of 2 {looked_at}, 1 of them had traffic",
        "  trial 0: circuit h0.p0–h1.p0 went at 1.500000 s (event 12) while ranks 0 and 1 were in "
        "stage 3 of dp0 (event 14)",
    ]
    assert printed(judged=False) == [
        f"  1 of 2 {looked_at}, none of them had traffic",
        "  trial 0: 1 of 2 circuits that were removed cannot be judged, the first h0.p0–h1.p0 at "
        "1.500000 s: the clock of h0 was not measured",
    ]
    assert "Removed" not in page(summary(trial(0)))


@pytest.mark.parametrize(
    ("exit_code", "command"),
    [
        (EXIT_LAB, "testbed doctor rack --twin"),
        (EXIT_BUSY, "testbed who"),
        (EXIT_UNSAFE, "testbed recover results/run"),
        (EXIT_BUG, "less results/run/traceback.txt"),
    ],
)
def test_the_next_command_depends_on_the_failure(page, monkeypatch, tmp_path, exit_code, command):
    monkeypatch.chdir(tmp_path)
    found = summary(outcome="error", reason="h3 is silent", exit_code=exit_code)
    last = page(found, run_dir=tmp_path / "results" / "run").splitlines()[-1]
    assert last == f"next    {command}"


@pytest.mark.parametrize(("label", "twin"), [("measured-twin", " --twin"), ("measured-hw", "")])
def test_the_next_command_names_a_lab_that_has_no_name_by_its_file(text, label, twin):
    found = summary(outcome="error", reason="h3 is silent", exit_code=EXIT_LAB, label=label)
    printed = text(lambda console: print_page(found, Path("r"), console, lab="my r/lab.yaml"), 100)
    assert printed.splitlines()[-1] == f"next    testbed doctor 'my r/lab.yaml'{twin}"


def test_the_next_command_of_a_report_names_the_twin_that_the_run_was_in(text):
    found = summary(outcome="error", reason="h3 is silent", exit_code=EXIT_LAB)
    printed = text(lambda console: print_page(found, Path("r"), console, twin="mine"), 100)
    assert printed.splitlines()[-1] == "next    testbed doctor rack --twin mine"


def test_no_command_names_a_twin_that_is_down():
    up = [True]
    commands.set_context(lambda: up[0], twin="mine")
    assert commands.typed("recover", "latest") == "testbed recover latest --twin mine"
    up.clear()
    up.append(False)
    assert commands.typed("recover", "latest") == "testbed recover latest"


@pytest.mark.parametrize(
    ("exit_code", "command"),
    [(EXIT_LAB, "testbed doctor --twin mine"), (EXIT_BUSY, "testbed who --twin mine")],
)
def test_the_next_command_names_the_twin_of_the_run(page, tmp_path, exit_code, command):
    commands.set_context(twin="mine")
    found = summary(outcome="error", reason="h3 is silent", exit_code=exit_code)
    last = page(found, run_dir=tmp_path / "results" / "run").splitlines()[-1]
    assert last == f"next    {command}"


def test_after_an_interrupted_clean_up_open_changes_and_the_next_command_are_printed(page):
    left = ("circuits: left in the middle", "agents: not done")
    found = summary(outcome="aborted", cleanup="failed", left=left, exit_code=130)
    shown = page(found)
    assert section(shown, "Not taken back:")[1:] == [f"  {what}" for what in left]
    assert shown.splitlines()[-1] == "next    testbed recover results/run"


def test_failed_checks_come_first_with_the_value_beside_the_limit(page):
    found = summary(recovery(0), checks=(HELD, OPEN, MISSED))
    rows = section(page(found, width=140), "Checks")[2:]
    assert [row.split()[0] for row in rows] == ["failed", "unknown", "passed"]
    assert "< 100 ms  500 ms" in rows[0]
    assert rows[2].endswith("2 of 2 trials; supports ≥ 22 % at 95 % confidence")


def test_the_anatomy_is_printed_part_by_part_with_the_prediction_beside_it(page):
    predicted = {"recovery_time": 0.48, "reconfiguration": 0.035}
    rows = section(page(summary(recovery(0, predicted=predicted)), width=70), "warm:")
    assert rows[0] == "warm: 1 of 1 trials valid, 1 recovered, steps done again: 0"
    shown = dict(re.split(r"\s{2,}", row.strip(), maxsplit=1) for row in rows[2:13])
    cells = {name: re.split(r"\s{2,}", rest) for name, rest in shown.items()}
    assert cells == {
        "detection": ["20 ms", "n < 6"],
        "fencing": ["10 ms", "n < 6"],
        "planning": ["5 ms", "n < 6"],
        "reconfiguration": ["45 ms", "n < 6", "35 ms", "+10 ms"],
        "waiting": ["100 ms", "n < 6"],
        "joining": ["20 ms", "n < 6"],
        "restoring": ["100 ms", "n < 6"],
        "first step": ["200 ms", "n < 6"],
        "recovery t0→t10": ["500 ms", "n < 6", "480 ms", "+20 ms"],
        "light t0→t6": ["80 ms", "n < 6"],
        "service t0→t11": ["900 ms", "n < 6"],
    }


def test_bars_of_a_recovery_are_consecutive_and_as_long_as_their_parts(page):
    rows = section(page(summary(recovery(0)), width=130), "warm:")
    bars = {row[2:17].strip(): row[68:] for row in rows if "█" in row}
    assert bars["first step"].count("█") == 2 * bars["restoring"].count("█") == 24
    assert len(bars["restoring"]) == len(bars["first step"]) - 24


def test_the_claim_of_lumion_is_printed_above_its_recoveries_only(page):
    claims = "its clock stops at the relaunch"
    assert claims in page(summary(recovery(0)), width=400)
    assert claims not in page(summary(recovery(0), experiment="straggler"), width=400)
    assert claims not in page(summary(trial(0)), width=400)


def test_every_trial_is_listed_with_any_outcome(page):
    why = "no observer but the injector saw the fault"
    found = summary(recovery(0), lost(1), recovery(2, valid=False, reason=why), lost(3))
    rows = section(page(found, width=80), "Trials")[2:]
    assert "recovered" in rows[0]
    assert "not recovered" in rows[1]
    assert "invalid" in rows[2]
    assert rows[4:6] == ["trials 1, 3: not recovered within 60 s", f"trial 2: {why}"]
    assert "4 trials valid, 1 recovered" in page(found)


def test_a_ridden_out_fault_is_shown_with_its_dip_and_no_recovery_time(page):
    shown = page(summary(unrepaired(0, "ridden out"), unrepaired(1, "ridden out")), width=100)
    rows = section(shown, "warm:")
    assert rows[0].startswith("warm: 2 of 2 trials valid, 0 recovered, 2 ridden out,")
    assert "work lost" in rows[2] and "2 ms" in rows[2]
    assert "recovery t0→t10" not in shown
    trials = section(shown, "Trials")
    assert trials[2].split()[:4] == ["0", "warm", "ridden", "out"]
    assert trials[4] == "trials 0, 1: no step took longer than the longest before the fault"


def test_unknown_check_results_are_printed_with_their_cause(page):
    shown = page(summary(recovery(0), unrepaired(1, "not known")), width=100)
    assert "2 of 2 trials valid, 1 recovered, 1 not known" in shown
    assert "trial 1: fewer than 20 steps before the fault do not tell" in shown


def test_the_detectors_of_the_fault_are_listed_with_their_number_of_trials(page):
    trials = [recovery(0, witnesses={"carrier": 0.01}), recovery(1, witnesses={"carrier": 0.02})]
    assert "seen by: carrier 15 ms after t0 (2 of 2)" in page(summary(*trials))


def test_an_arm_without_a_valid_trial_does_not_state_that_nothing_saw_its_fault(page):
    shown = page(summary(recovery(0, valid=False, reason="interrupted")))
    assert "seen by" not in shown or "seen by: no trial is valid" in shown
    assert "no observer" not in shown


def test_a_trial_without_symptoms_shows_who_observed_its_fault(page):
    receipt = {"observer": "h1 process in state T", "at": 0.001}
    shown = page(summary(*(recovery(number, receipt=receipt) for number in range(2))))
    assert "seen by: h1 process in state T (2 of 2)" in shown


def test_the_uncertainty_of_t0_is_printed_from_a_millisecond_on(page):
    assert "t0 is the earliest" not in page(summary(recovery(0)))
    at = recovery(0).marks.at | {"t0": Instant(ZERO, ZERO + 0.049)}
    shown = " ".join(page(summary(replace(recovery(0), marks=Marks(at)))).split())
    assert "it began up to 49 ms later, and times since t0 are too long by as much" in shown


def test_open_changes_are_printed_before_the_verdict(page):
    found = summary(recovery(0), cleanup="failed", left=("circuits: ocs does not answer",))
    lines = page(found).splitlines()
    assert "  circuits: ocs does not answer" in lines
    assert lines[-4] == "verdict passed, clean-up failed"


def test_a_recorded_allreduce_is_printed_as_a_table_by_size(page, allreduce, summarised):
    found = summarised(allreduce)
    rows = [row.split("  ")[0] for row in section(page(found), "only: collectives")]
    assert [row.strip() for row in rows[2:7]] == ["4 KiB", "64 KiB", "1 MiB", "4 MiB", "16 MiB"]
    rows = section(page(found), "only: collectives")
    assert "478.2 Mbit/s" in rows[6]
    assert "Recovery" not in page(found)


def test_trials_that_ended_in_different_states_are_reported(page):
    trials = [trial(n, values={"digest": digest}) for n, digest in enumerate(("aa", "bb"))]
    assert "final state differs: aa, bb" in page(summary(*trials))
    assert "final state: aa in 1 of 1 trials" in page(summary(trials[0]))


def test_a_run_without_trials_is_reported_as_such(page):
    found = summary(outcome="error", reason="ocs does not answer", label="", lab="")
    assert "reason  ocs does not answer" in page(found)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_of_the_last_page_is_wider_than_the_terminal(page, recoveries, summarised, width):
    lines = page(summarised(recoveries), width).splitlines()
    assert max(map(len, lines[:-4])) <= width


def test_the_last_page_can_be_printed_again_from_the_stored_events(page, recoveries, summarised):
    again = [Event.from_json(event.to_json()) for event in recoveries]
    assert page(summarised(again)) == page(summarised(recoveries))


def test_the_last_page_lists_the_undos_of_recover(page):
    steps = [
        UndoStep("circuits of ocs", "", ["ocs: 1→7 is left alone"]),
        UndoStep("hosts", "h3: no"),
    ]
    done = RecoverAttempt("2026-11-21T17:00:00Z", ["circuits of ocs"], steps, ["hosts: h3: no"], 4)
    found = summary(recovery(0), recovered=[done], cleanup="failed", left=("hosts: h3: no",))
    told = section(page(found), "Taken back by testbed recover at 2026-11-21T17:00:00Z")
    assert told[1:] == ["  circuits of ocs: verified; ocs: 1→7 is left alone", "  hosts: h3: no"]


def test_after_a_kill_the_next_command_is_recover(page):
    assert "next    testbed recover results/run" in page(summary(cleanup="unknown"))


SETTINGS = {"settle": 0.025, "heartbeat": 0.2, "loss_of_signal": 0.002, "link_up": 0.01}
REPORTED = Profile("polatis-6000", 0.2, 3.0, True, "a book", {"warm": 3.4, "cold": 3.9})


def test_the_page_states_settings_and_predictions_for_other_switches(page):
    settings = {"warm": SETTINGS, "cold": SETTINGS | {"settle": 0.2}}
    unknown = replace(REPORTED, name="piezo", link_up=0.01, link_up_reported=False)
    flagged = {"warm.busbw_64kib": "118.9 Mbit/s is above the 100 Mbit/s of a port"}
    found = page(
        summary(recovery(0), recovery(1, "cold"), settings=settings, profiles=(REPORTED, unknown),
                flags=flagged), width=120,
    )  # fmt: skip
    assert "warm.busbw_64kib: 118.9 Mbit/s is above the 100 Mbit/s of a port" in found
    rows = section(found, "What the numbers rest on")
    assert rows[1] == "  heartbeat 200 ms, loss of signal 2 ms, link up 10 ms"
    assert rows[2:4] == ["  warm: settle 25 ms", "  cold: settle 200 ms"]
    cells = [re.split(r"\s{2,}", row.strip()) for row in rows[6:]]
    assert cells == [
        ["polatis-6000", "200 ms", "3 s", "3.4 s to 3.9 s", "a book"],
        ["piezo", "200 ms", "10 ms as here", "3.4 s to 3.9 s", "a book"],
    ]


def test_the_last_page_of_a_record_without_settings_has_no_settings_section(page):
    assert "What the numbers rest on" not in page(summary(recovery(0)))
