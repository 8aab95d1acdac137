"""What `recover` did to a run is told from the run's own events, and decides its clean-up."""

from testbed.analysis.recover_attempts import recoveries
from testbed.analysis.summary import summarise
from testbed.events import Event
from testbed.schema import load_experiment


def events(*rows):
    return [
        Event(n, float(n), kind, subject, None, data)
        for n, (kind, subject, data) in enumerate(rows)
    ]


BEGIN = ("recover.begin", "run", {"utc": "2026-11-21T17:00:00Z", "promises": ["circuits of ocs"]})
STEP = ("cleanup.begin", "circuits of ocs", {})
NOTE = ("note", "ocs", {"text": "1→7 is left alone"})


def ended(problem=""):
    return ("cleanup.end", "circuits of ocs", {"verified": not problem, "problem": problem})


def end(*left, code=0):
    return ("recover.end", "run", {"left": list(left), "exit_code": code})


def test_a_run_without_recover_has_no_attempts():
    assert recoveries(events(("run.begin", "lumion", {}), STEP, NOTE, ended())) == []


def test_each_undo_of_a_recovery_has_its_problem_and_its_notes():
    (found,) = recoveries(events(STEP, NOTE, BEGIN, STEP, NOTE, ended("stuck"), end("it", code=6)))
    assert found.promises == ["circuits of ocs"] and found.exit_code == 6
    (step,) = found.steps
    assert (step.what, step.problem) == ("circuits of ocs", "stuck")
    assert step.notes == ["ocs: 1→7 is left alone"]
    assert found.left == ["it"]


def test_a_killed_attempt_has_no_end_and_the_next_one_decides():
    first, second = recoveries(events(BEGIN, STEP, BEGIN, STEP, ended(), end()))
    assert first.exit_code is None and first.steps[0].problem == "it was not finished"
    assert second.exit_code == 0 and second.steps[0].problem == ""


def verdict(tmp_path, *rows):
    path = tmp_path / "settle.yaml"
    path.write_text(
        "experiment: lumion\nquestion: How soon?\nneeds: {hosts: 6, fabric: circuit}\n"
        "jobs: {main: {kind: train, ranks: 4, spares: 2}}\n"
    )
    found = summarise("run", load_experiment(path), events(*rows))
    return found.cleanup, tuple(found.left), found.exit_code


RUN_END = ("run.end", "", {"error": "", "exit_code": 0, "cleanup": "failed", "left": ["circuits"]})


def test_a_killed_run_is_not_known_to_be_cleaned_up_until_it_is_recovered(tmp_path):
    assert verdict(tmp_path, STEP) == ("unknown", (), 4)
    assert verdict(tmp_path, BEGIN, STEP) == ("unknown", (), 4)
    assert verdict(tmp_path, BEGIN, STEP, ended(), end()) == ("verified", (), 4)
    left = ("failed", ("circuits: stuck",), 6)
    assert verdict(tmp_path, BEGIN, STEP, ended(), end("circuits: stuck", code=6)) == left


def test_the_summary_lists_no_open_changes_once_recover_undid_them(tmp_path):
    assert verdict(tmp_path, RUN_END)[:2] == ("failed", ("circuits",))
    assert verdict(tmp_path, RUN_END, BEGIN, STEP, ended(), end())[:2] == ("verified", ())
