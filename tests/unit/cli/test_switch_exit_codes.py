"""What a command on a switch prints, its exit code, and what the box has never disagree."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest

from testbed.bench import read_back_lag
from testbed.record import lease_store, locks
from tests.unit.cli.doubtful_boxes import CHARACTERS, LANGUAGES, DoubtfulBox

SCALE = 0.04
"""Of full time, every day."""
BOXES = len(CHARACTERS) * len(LANGUAGES)
SOAK = 504
AT_ONCE = 14


@pytest.fixture
def faster(monkeypatch, tmp_path):
    """Let boxes be late by tenths of seconds, and be supposed to be so."""
    monkeypatch.setattr(read_back_lag, "LONGEST_LAG", read_back_lag.LONGEST_LAG * SCALE)
    for module in (locks, lease_store):  # what is owed for a moment is nobody else's affair
        monkeypatch.setattr(module, "SHARED", tmp_path / "shared")


@pytest.mark.parametrize("character", range(len(CHARACTERS)), ids=CHARACTERS)
def test_exit_code_output_and_switch_state_agree(tmp_path, faster, character):
    language = character % len(LANGUAGES)
    box = DoubtfulBox(tmp_path, character * len(LANGUAGES) + language, SCALE)
    try:
        box.play(4)
    finally:
        box.close()
    assert sum(box.codes.values()) == 4


def test_the_read_back_of_a_late_box_never_goes_back_in_time(tmp_path, faster):
    box = DoubtfulBox(tmp_path, CHARACTERS.index("late") * len(LANGUAGES), SCALE)
    lags, shown, read_back = cycle([0.5, 10.0]), [], box.box.read_back
    box.chance.uniform = lambda least, most: next(lags)

    def noted():
        rows = read_back()
        shown.append(box.reads[-1] - box.lag)
        return rows

    box.box.read_back = noted
    try:
        box.play(4)
    finally:
        box.close()
    assert len(shown) > 4
    assert shown == sorted(shown)


def _played(seed):
    """Play a box at full time in a process of its own."""
    script = Path(__file__).with_name("doubtful_boxes.py")
    command = [sys.executable, script, str(seed), str(SOAK // BOXES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.stdout else {"wrong": done.stderr}


@pytest.mark.soak
def test_exit_code_output_and_switch_state_agree_over_five_hundred_commands():
    with ThreadPoolExecutor(AT_ONCE) as pool:
        played = list(pool.map(_played, range(BOXES)))
    for one in played:
        print(one)
    assert [one["wrong"] for one in played if one["wrong"]] == []
    assert sum(sum(one["codes"].values()) for one in played) == SOAK
