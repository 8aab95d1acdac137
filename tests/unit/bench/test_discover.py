"""Who is there is asked in every language that we speak, and nobody is fooled by silence."""

from __future__ import annotations

import os
import pty
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.bench import discover as module
from testbed.bench.discover import discover, serial_devices
from testbed.bench.sites import MeterSite
from testbed.plugins import kind, kinds
from testbed.twin.far_end_tcp_pty import serve_pty
from testbed.twin.scheduler import WallScheduler


@pytest.fixture
def silent_line() -> Iterator[str]:
    near, far = pty.openpty()
    tty.setraw(far)
    yield os.ttyname(far)
    os.close(near)
    os.close(far)


def test_every_serial_driver_is_tried_on_a_silent_line(
    silent_line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIMIT", 0.1)
    said: list[str] = []
    assert discover([], [silent_line], said.append) == []
    asked = {text.split()[3].rstrip(",") for text in said}
    assert asked == {name for name, k in kinds("drivers").items() if hasattr(k.options(), "baud")}


def test_consoles_of_this_machine_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BY_ID", tmp_path / "by-id")
    monkeypatch.setattr(module, "_SERIAL_DEVICES", ("null", "zero"))
    monkeypatch.setattr(module, "_CONSOLES", tmp_path / "active")
    assert serial_devices() == ["/dev/null", "/dev/zero"]
    (tmp_path / "active").write_text("tty0 null\n")
    assert serial_devices() == ["/dev/zero"]


def test_an_address_without_an_instrument_is_reported() -> None:
    said: list[str] = []
    assert discover(["127.0.0.1", "127.0.0.1"], [], said.append) == []
    asking, nobody = said
    assert asking.startswith("asking 127.0.0.1 as calient-rest, polatis, polatis-restconf")
    assert "polatis-tl1" not in asking, "it would have to log in first"
    assert nobody == "no instrument answered at 127.0.0.1"


def test_a_meter_on_a_serial_line_is_found_as_the_lab_file_would_name_it() -> None:
    site = MeterSite(frozenset({1}), "PM-7", 1, WallScheduler(), {1: -3.0}.get)
    far_end = kind("far_ends", kind("drivers", "thorlabs-meter").far_end).load()(site, None)
    wire = serve_pty(far_end)
    try:
        found = module._ask("thorlabs-meter", kind("drivers", "thorlabs-meter"), str(wire.path))
    finally:
        wire.close()
    assert found is not None
    assert (found.role, found.ports, found.identity.serial) == ("meter", None, "PM-7")
    assert found.to_json()["entry"]["resource"] == str(wire.path)
