"""A card that a lab file names is looked at when the file is checked, before a twin is built."""

from pathlib import Path

import pytest

from testbed.cli import run as command_line

RACK = Path(__file__).parents[3] / "configs" / "rack.yaml"


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (
            "pieso",
            "pieso is not a characterisation card: none has that name; did you mean 'piezo'?",
        ),
        ("nowhere.json", "nowhere.json is not a characterisation card: none has that name"),
    ],
)
@pytest.mark.parametrize(
    "line", ["validate {lab}", "switch ocs show --lab {lab} --twin", "twin up {lab} --name carded"]
)
def test_an_invalid_card_is_reported_with_its_place_in_the_file(
    line, card, words, tmp_path, capsys
):
    lab = tmp_path / "lab.yaml"
    lab.write_text(RACK.read_text().replace("twin: {", f"twin: {{cards: {{ocs: {card}}}, "))
    assert command_line(line.format(lab=lab).split()) == 2
    said = capsys.readouterr().err
    assert words in said
    assert f"{lab}:" in said
