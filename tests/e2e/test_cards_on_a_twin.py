"""Switches and links of a twin are as slow as the characterisation cards of its lab say."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.bench.characterisation import presets
from tests.e2e.commandline import COMMAND, ROOT, CommandLine
from tests.e2e.running_twin import RunningTwin

LINK_UP = 0.8


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Return the lab rails with an emulated switch, and one whose links come up slowly."""
    card = presets()["mems-sota"].to_json()
    card["timings"]["link-up"] = dict.fromkeys(("median", "p95", "min", "max"), LINK_UP) | {"n": 0}
    (tmp_path / "slow.json").write_text(json.dumps(card))
    text = (ROOT / "configs" / "rails.yaml").read_text()
    cards = f"cards: {{rail0: opus-emulated, rail1: {tmp_path / 'slow.json'}}}"
    path = tmp_path / "lab.yaml"
    path.write_text(text.replace("twin: {settle: 25 ms,", f"twin: {{{cards}, settle: 50 ms,"))
    return path


@pytest.fixture
def twin(lab: Path) -> Iterator[RunningTwin]:
    name = f"cards-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", str(lab), "--name", name], cwd=ROOT, check=True)
    yield RunningTwin(name)
    subprocess.run([*COMMAND, "twin", "down", name], cwd=ROOT, check=True)


def light_and_link(twin: RunningTwin, port: str) -> dict[str, float]:
    """Return when light and carrier came to a port; wait for both for 10 s."""
    limit = time.monotonic() + 10.0
    while time.monotonic() < limit:
        rows: list[Any] = twin.ask(do="light")
        found = {what: at for at, where, what in rows if where == port}
        if {"lit", "carrier"} <= found.keys():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{port} has no link")


def test_links_behind_a_switch_come_up_as_its_card_says(
    testbed: CommandLine, twin: RunningTwin, lab: Path
) -> None:
    """`opus-emulated` says no settle time, so that of the lab holds, and links at once."""
    where = ["--lab", str(lab), "--twin", twin.name, "--results", str(testbed.results)]
    for port in ("p0", "p1"):
        switch = f"rail{port[1]}"
        done = testbed("switch", switch, "connect", f"h0.{port}", f"h1.{port}", *where)
        assert done.code == 0, done.err
    tuned = twin.ask(do="tuning")
    assert tuned["settle"] == {"rail0": 0.05, "rail1": 0.025}
    assert tuned["link_up"] == {"rail0": 0.0, "rail1": LINK_UP}
    quick, slow = light_and_link(twin, "h1.p0"), light_and_link(twin, "h1.p1")
    assert 0.0 <= quick["carrier"] - quick["lit"] < LINK_UP / 2
    assert slow["carrier"] - slow["lit"] >= LINK_UP
