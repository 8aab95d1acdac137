"""Records that somebody else wrote, or spoilt: read within limits, never written to."""

import json
import os
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

import testbed.cli
from testbed.cli.record import report_damage
from testbed.errors import UsageError
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
NOBODY = 65534
WRITTEN = ("summary.json", "junit.xml", "report.html")


@pytest.fixture
def run(tmp_path):
    """Return the directory of a run in which no trial was played."""
    made = RunDirectory.create(tmp_path, "lumion")
    made.write_text("experiment.yaml", (EXPERIMENTS / "lumion.yaml").read_text())
    made.write_json("run.json", {"run": made.id, "label": "measured-twin", "overrides": []})
    with closing(EventLog(made.events)) as log:
        log.append("run.begin", "lumion", run=made.id, label="measured-twin", lab="rack", seed=1)
        log.append("run.end", error="", exit_code=0, cleanup="verified", left=[], signals=[])
    return made


@pytest.fixture
def command_of_lab_error(tmp_path, command):
    """Return what reports the next command of a run in which a host of an unlisted lab failed."""
    made = RunDirectory.create(tmp_path, "lumion")
    made.write_text("experiment.yaml", (EXPERIMENTS / "lumion.yaml").read_text())
    made.write_text("lab.yaml", "lab: bay\n")
    made.write_json("run.json", {"run": made.id, "label": "measured-hw", "overrides": []})
    with closing(EventLog(made.events)) as log:
        log.append("run.begin", "lumion", run=made.id, label="measured-hw", lab="bay", seed=1)
        end = {"error": "h1: no answer", "exit_code": 4, "cleanup": "verified", "left": []}
        log.append("run.end", **end, signals=[])

    def reported():
        found = command("report", made.path)[1].splitlines()
        return next(line for line in found if line.startswith("next")), made.path

    return reported


@pytest.fixture
def command(capsys):
    def typed(*words):
        code = testbed.cli.run([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err.replace("computing the numbers…\n", "")

    return typed


def test_report_follows_no_planted_link(run, command, tmp_path):
    victims = []
    for name in WRITTEN:
        for planted in (name, f".{name}.tmp"):
            victim = tmp_path / f"victim of {planted}"
            victim.write_text("precious")
            (run.path / planted).symlink_to(victim)
            victims.append(victim)
    assert command("report", run.path)[0] == 3
    assert {victim.read_text() for victim in victims} == {"precious"}
    assert all((run.path / name).is_file() for name in WRITTEN)
    assert not any((run.path / name).is_symlink() for name in WRITTEN)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_a_suggested_command_names_no_lab_file_of_another_user(command_of_lab_error):
    """A lab file says to which addresses the secrets of its user are sent."""
    line, place = command_of_lab_error()
    assert line.endswith(f"testbed doctor {place}/lab.yaml")
    os.chown(place / "lab.yaml", NOBODY, NOBODY)
    os.chown(place, NOBODY, NOBODY)
    line, _ = command_of_lab_error()
    assert line.endswith("testbed doctor bay")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_report_shows_the_run_of_another_user_without_writing(run, command):
    os.chown(run.path, NOBODY, -1)
    code, out, err = command("report", run.path)
    assert code == 3 and "inconclusive" in out
    assert f"nothing is written: {run.path} belongs to nobody, not to you" in err
    assert not any((run.path / name).exists() for name in WRITTEN)


def test_report_writes_nothing_into_a_world_writable_run(run, command):
    run.path.chmod(0o777)
    code, _, err = command("report", run.path)
    assert code == 3 and "nothing is written: everybody may write to" in err
    assert not any((run.path / name).exists() for name in WRITTEN)


DEEP = "[" * 200_000
SPOILT = [
    "{}",
    "[]",
    "null",
    "",
    "{",
    '{"a":' * 100_000,
    DEEP,
    "\0",
    '{"overrides": [1]}',
    "1" * 5000,
]


@pytest.mark.parametrize("text", SPOILT, ids=range(len(SPOILT)))
@pytest.mark.parametrize("name", ["run.json", "summary.json", "events.jsonl", "experiment.yaml"])
def test_a_corrupt_file_is_reported_in_one_sentence_and_other_runs_are_listed(
    run, command, tmp_path, name, text
):
    (run.path / name).write_text(f"{text}\n{text}\n" if name == "events.jsonl" else text)
    if name != "summary.json":  # which is computed anew
        code, out, err = command("report", run.path)
        assert (code, out) == (2, "")
        lines = err.splitlines()  # an experiment may have several mistakes
        assert lines and all(line.startswith("testbed: ") for line in lines) and len(err) < 3000
        assert len(lines) == 1 or name == "experiment.yaml"
    other = RunDirectory.create(tmp_path, "zzz")
    code, out, err = command("list", "runs", "--results", tmp_path, "--json")
    assert (code, err) == (0, "")
    assert [row["run"] for row in json.loads(out)] == [run.id, other.id]


@pytest.mark.parametrize("name", ["run.json", "summary.json", "events.jsonl", "experiment.yaml"])
@pytest.mark.parametrize("kind", ["fifo", "zero", "loop"])
def test_a_special_file_is_refused_at_once(run, command, tmp_path, name, kind):
    path = run.path / name
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "zero" else name)
    if name != "summary.json":
        code, out, err = command("report", run.path)
        assert (code, out) == (2, "") and err.count("\n") == 1
    else:
        code, _, err = command("compare", run.path, run.path)
        assert code == 2 and err.count("\n") == 1
    assert command("list", "runs", "--results", tmp_path)[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("report", "x" * 300),
        ("report", "x" * 5000),
        ("report", "a\0b"),
        ("compare", "x" * 300, "y" * 300),
        ("recover", "x" * 300),
        ("recover", "--results", "x" * 300),
        ("list", "runs", "--results", "/dev/null"),
        ("validate", "x" * 300),
        ("plan", "x" * 300 + ".yaml"),
        ("plan", EXPERIMENTS / "lumion.yaml", "--lab", "x" * 300),
        ("plan", EXPERIMENTS / "lumion.yaml", "--lab", "x" * 300 + ".yaml"),
        ("plan", EXPERIMENTS / "lumion.yaml", "--lab", "rack", "-S", f"faults.{'7' * 5000}.at=1"),
        ("plan", EXPERIMENTS / "lumion.yaml", "--lab", "/dev/zero"),
        ("plan", EXPERIMENTS / "lumion.yaml", "--lab", "./configs"),
        ("validate", "/dev/zero"),
        ("twin", "replay", "/dev/zero", "--lab", "rack"),
        ("twin", "replay", "x" * 300, "--lab", "rack"),
    ],
    ids=lambda words: " ".join(map(str, words))[:30].replace("\0", "0"),
)
def test_an_invalid_path_is_reported_in_one_sentence(command, words, monkeypatch):
    monkeypatch.chdir(EXPERIMENTS.parent)
    code, out, err = command(*words)
    if words[:2] == ("list", "runs"):
        assert code == 0
        return
    assert (code, out) == (2, "")
    assert err.startswith("testbed: ") and err.count("\n") == 1 and len(err) < 4000


def texts(value):
    """Yield every text in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for held in value.values() if isinstance(value, dict) else value:
            yield from texts(held)


def test_no_control_character_of_a_record_reaches_the_terminal(run, tmp_path):
    escape = "\x1b]0;owned\x07\x9b31m\u202e"
    facts = run.read_json("run.json")
    run.write_json("run.json", {**facts, "label": escape})
    run.write_json("summary.json", {"outcome": escape, "reason": escape})
    run.events.write_text(run.events.read_text().replace('"rack"', json.dumps(f"rack{escape}")))
    for words in (
        ("list", "runs", "--results", tmp_path),
        ("list", "runs", "--results", tmp_path, "--json"),
        ("report", run.path),
        ("report", run.path, "--json"),
    ):
        typed = [sys.executable, "-m", "testbed.cli", *map(str, words)]
        done = subprocess.run(typed, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        assert done.returncode in (0, 3) and "Traceback" not in said
        assert r"\u001b]0;owned" in said and r"\u009b31m\u202e" in said
        assert not set(said) & set("\x1b\x07\x9b\u202e")
        if "--json" in words:
            assert any(escape in text for text in texts(json.loads(done.stdout)))
    for name in WRITTEN:
        assert not set((run.path / name).read_text()) & set("\x1b\x07\x9b\u202e")


def test_no_control_character_of_an_experiment_reaches_the_terminal(tmp_path):
    text = (EXPERIMENTS / "lumion.yaml").read_text()
    (asked,) = (line for line in text.splitlines() if line.startswith("question: "))
    (tmp_path / "experiments").mkdir()
    hostile = text.replace(asked, r'question: "Why \e]0;owned\a \u009b31m?"')
    (tmp_path / "experiments" / "hostile.yaml").write_text(hostile)
    typed = [sys.executable, "-m", "testbed.cli", "list", "experiments"]
    done = subprocess.run(typed, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"Why \u001b]0;owned\u0007 \u009b31m?" in done.stdout
    assert not set(done.stdout) & set("\x1b\x07\x9b")


class Ours:
    """An object that no record holds."""


def fail_as_asserted():
    raise AssertionError


@pytest.mark.parametrize(
    ("fail", "is_damage"),
    [
        (lambda: {}["t0"], True),
        (lambda: [][0], True),
        (lambda: 1 + "a", True),
        (lambda: float("a"), True),
        (lambda: 1 / 0, True),
        (lambda: None.get("t0"), True),
        (lambda: Ours().get("t0"), False),
        (lambda: undefined_name, False),  # noqa: F821
        (lambda: next(iter(())), False),
        (fail_as_asserted, False),
        (lambda: import_module("testbed.nothing"), False),
    ],
)
def test_only_errors_caused_by_recorded_values_are_reported_as_damage(run, fail, is_damage):
    with pytest.raises(Exception) as raised, report_damage(run):
        fail()
    assert isinstance(raised.value, UsageError) is is_damage
    if is_damage:
        assert f"the record in {run.path} is not in the format that runs write" in str(raised.value)
