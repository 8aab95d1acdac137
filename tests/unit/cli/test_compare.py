"""The verb `compare`, over cards, and over names that are neither a card nor a run."""

import json
from pathlib import Path

import pytest

import testbed.twin.cards
from testbed.cli import run as command_line

CARDS = Path(testbed.twin.cards.__file__).parent
PIEZO, MESH = str(CARDS / "piezo.json"), str(CARDS / "pic.json")


def test_two_cards_are_compared_for_people_and_for_scripts(capsys):
    assert command_line(["compare", PIEZO, MESH]) == 1
    assert "piezo beam steering" in capsys.readouterr().out
    assert command_line(["compare", PIEZO, MESH, "--json"]) == 1
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["model"]["one"] == "piezo beam steering"
    assert "light" in rows


def test_a_card_does_not_differ_from_itself(capsys):
    assert command_line(["compare", PIEZO, PIEZO, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (PIEZO, "nowhere.json", "nowhere.json cannot be read: No such file"),
        ("nowhere.json", PIEZO, "nowhere.json cannot be read: No such file"),
        (PIEZO, __file__, "no JSON"),
        ("zzz", "yyy", "'zzz' names no run in"),
    ],
)
def test_what_cannot_be_compared_is_told_by_its_name(one, other, words, tmp_path, capsys):
    assert command_line(["compare", one, other, "--results", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
