"""Command lines that cannot be meant: exit code 2 and one sentence, never a traceback."""

import pytest

from testbed.cli import run as command_line

MISUSES = [
    ("swich ocs show", "No such command 'swich'"),
    ("switch ocs shew --lab rack", "'shew' is not one of 'show', 'connect'"),
    ("switch ocs watch --seconds soon --lab rack", "--seconds"),
    ("list nope", "'nope' is not one of"),
    ("run", "Missing argument"),
    ("run --nope", "No such option: --nope"),
    ("run x.yaml --repeat", "--repeat"),
    ("doctor rack extra", "extra"),
    ("run experiments/lumion.yaml --wait-lock=soon", "--wait-lock"),
    ("run experiments/lumion.yaml --wait-lock=-1", "--wait-lock"),
    ("lock h0 --lab rack --for 2h", "--reason"),
    ("lock h0 --lab rack --for 2 --reason x", "--for"),
    ("lock h0 --lab rack --for 99999999h --reason x", "above 0 s and up to 90 days"),
    ("lock h0 --lab rack --for 2h --reason a\x1b[2Jb", r"'a\x1b[2Jb' is not a sentence"),
    ("twin up quad --name new", "'new' is reserved for a twin"),
    ("lock h0 --for 2h --reason x", "no lab is given"),
    ("lock h9 --lab rack --for 2h --reason x", "'h9' is not a host, instrument, port or outlet"),
    ("unlock ocs.99 --lab rack", "ocs has no '99'"),
    ("twin fault rack ocs", "Missing argument"),
    ("twin fault rack ocs silent --probability 7", "--probability"),
    ("twin power rack h0 upside", "'upside' is not one of 'on', 'off'"),
]


@pytest.mark.parametrize(("line", "words"), MISUSES)
def test_an_invalid_command_line_is_reported_in_one_sentence(line, words, capsys):
    assert command_line(line.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("testbed: ")
    assert said.err.count("\n") == 1, said.err
    assert words in said.err


@pytest.mark.parametrize("line", ["", "twin"])
def test_a_verb_without_arguments_shows_its_help(line, capsys):
    assert command_line(line.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("Usage: ")
    assert "Commands:" in said


@pytest.mark.parametrize("line", ["--help", "--version", "switch --help", "twin probe -h"])
def test_help_is_shown_for_every_help_option(line, capsys):
    assert command_line(line.split()) == 0
    assert capsys.readouterr().out
