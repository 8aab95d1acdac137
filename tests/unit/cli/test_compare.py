"""The verb `compare`, over cards, and over names that are neither a card nor a run."""

import json
from pathlib import Path

import pytest

import testbed.twin.characterisation
from testbed.cli import run as command_line
from testbed.schema import load
from tests.unit.cli import records

CARDS = Path(testbed.twin.characterisation.__file__).parent
PIEZO, MESH = str(CARDS / "piezo.json"), str(CARDS / "pic.json")


def test_two_cards_are_compared_as_text_and_as_json(capsys):
    assert command_line(["compare", PIEZO, MESH]) == 1
    assert "piezo beam steering" in capsys.readouterr().out
    assert command_line(["compare", PIEZO, MESH, "--json"]) == 1
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["model"]["one"] == "piezo beam steering"
    assert "light" in rows


def test_a_characterisation_card_does_not_differ_from_itself(capsys):
    assert command_line(["compare", PIEZO, PIEZO, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (PIEZO, "nowhere.json", "nowhere.json cannot be read: No such file"),
        ("nowhere.json", PIEZO, "nowhere.json cannot be read: No such file"),
        (PIEZO, __file__, "not JSON"),
        ("zzz", "yyy", "'zzz' names no run in"),
    ],
)
def test_an_incomparable_argument_is_named(one, other, words, tmp_path, capsys):
    assert command_line(["compare", one, other, "--results", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


MODEL = [
    *("run", "experiments/stragglar-scaling.yaml", "-S", "checks={}"),
    *("-S", "variants={n4: {jobs.main.ranks: 4}}"),
]


@pytest.fixture
def runs(tmp_path, capsys):
    """Make two runs that differ in one setting of the lab and one of the experiment."""
    rates = ("500 Mbit/s", "100 Mbit/s")
    for ranks, rate in zip((4, 8), rates, strict=True):
        changed = ["-S", f"variants.n4.jobs.main.ranks={ranks}", "-S", f"lab.twin.rate={rate}"]
        assert command_line([*MODEL, *changed, "--results", str(tmp_path)]) == 0
    capsys.readouterr()
    return [
        str(path) for path in sorted(tmp_path.glob("2*"), key=lambda path: path.stat().st_mtime)
    ]


def test_the_record_of_a_run_holds_its_files_with_overrides_applied(runs):
    """A run at 100 Mbit/s had a lab.yaml that said 500."""
    directory = Path(runs[1])
    lab, experiment = (load(directory / name) for name in ("lab.yaml", "experiment.yaml"))
    assert lab.source.data["twin"]["rate"] == "100 Mbit/s"
    assert experiment.source.data["variants"] == {"n4": {"jobs.main.ranks": 8}}
    assert "lab.twin.rate=100 Mbit/s" in (directory / "lab.yaml").read_text().splitlines()[0]
    assert json.loads((directory / "run.json").read_text())["overrides"][-1].endswith("100 Mbit/s")


def test_runs_are_compared_with_the_settings_that_differ(runs, capsys):
    assert command_line(["compare", *runs]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    told = [[cell.strip() for cell in line if cell] for line in lines]
    assert ["lab.twin.rate", "500 Mbit/s", "100 Mbit/s"] in told
    assert command_line(["compare", *runs, runs[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["lab.twin.rate"] == [
        "500 Mbit/s", "100 Mbit/s", "500 Mbit/s",
    ]  # fmt: skip


def test_groups_of_hosts_do_not_differ_from_the_same_hosts_written_out(tmp_path, capsys):
    line = [*MODEL, "--lab", "serial-rack", "--results", str(tmp_path)]
    for more in ([], ["-S", "lab.twin.settle=40 ms"]):
        assert command_line([*line, *more]) == 0
    capsys.readouterr()
    ends = [path.name for path in tmp_path.glob("2*")]
    assert command_line(["compare", *ends, "--json", "--results", str(tmp_path)]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert [key for key in settings if key.startswith("lab.")] == ["lab.twin.settle"]


def test_a_record_without_trials_cannot_be_compared(runs, tmp_path, capsys):
    check = records.ended(tmp_path, "wiring")
    facts = check.read_json("summary.json")
    check.write_json("summary.json", {key: facts[key] for key in facts if key != "trials"})
    assert command_line(["compare", runs[0], str(check.path)]) == 2
    assert f"{check.path} has no trials to compare: it is the record of a check" in (
        capsys.readouterr().err
    )


def test_comparing_a_single_run_is_refused(capsys):
    assert command_line(["compare", "latest"]) == 2
    assert "name another one" in capsys.readouterr().err
