"""`testbed doctor LAB --wiring` against a twin whose fibres are not where the lab file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commandline import ROOT, CommandLine

RACK = (ROOT / "configs" / "rack.yaml").read_text()


def exchanged(text: str, one: str, other: str) -> str:
    """Return a lab file in which two fibres have changed places."""
    assert text.count(one) == text.count(other) == 1
    return text.replace(one, "\0").replace(other, one).replace("\0", other)


@pytest.fixture
def miswired(tmp_path: Path) -> Path:
    """Return the rack's file with two swapped transmit fibres and one that ends nowhere."""
    text = exchanged(RACK, "tx: ocs.9,", "tx: ocs.6,").replace("tx: ocs.12,", "tx: ocs.16,")
    path = tmp_path / "miswired.yaml"
    path.write_text(text)
    return path


def test_swapped_and_dark_fibres_are_named(testbed: CommandLine, rack: str, miswired: Path) -> None:
    where = ["--results", str(testbed.results)]
    done = testbed("doctor", str(miswired), "--wiring", "--twin", rack, "--json", *where)
    assert done.code == 1, done.err
    bad = {row["port"]: row for row in done.json() if row["state"] != "found"}
    assert {port: row["state"] for port, row in bad.items()} == {
        "h2.p1": "swapped",
        "h4.p0": "swapped",
        "h5.p1": "dark",
    }
    assert "its transmit fibre and that of h4.p0 are swapped" in bad["h2.p1"]["text"]
    found = [row["lost"] for row in done.json() if row["port"] not in bad]
    assert found == [0.0] * 9
    shown = testbed("switch", "ocs", "show", "--lab", "rack", "--twin", rack, "--json")
    assert shown.json() == []
