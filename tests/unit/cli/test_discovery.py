"""The command `discover` opens no line that nobody named."""

from __future__ import annotations

import json
import os
import pty
import tty

import pytest

import testbed.cli
from testbed.bench import discover as module


@pytest.fixture
def line(tmp_path, monkeypatch):
    """A serial line of this machine, on which a device would answer."""
    near, far = pty.openpty()
    tty.setraw(far)
    os.set_blocking(near, False)
    by_id = tmp_path / "by-id"
    by_id.mkdir()
    (by_id / "usb-a-box").symlink_to(os.ttyname(far))
    monkeypatch.setattr(module, "_BY_ID", by_id)
    monkeypatch.setattr(module, "_SERIAL_DEVICES", ())
    monkeypatch.setattr(module, "_CONSOLES", tmp_path / "none")
    monkeypatch.setattr(module, "LIMIT", 0.05)
    yield near, str(by_id / "usb-a-box"), os.ttyname(far)
    os.close(near)
    os.close(far)


def arrived(near):
    try:
        return os.read(near, 100)
    except BlockingIOError:
        return b""


def test_serial_devices_are_listed_and_not_opened(line, capsys):
    near, path, _ = line
    assert testbed.cli.run(["discover"]) == 0
    said = capsys.readouterr().out
    assert f"# serial device {path}" in said
    assert f"testbed discover {path}" in said
    assert arrived(near) == b""


def test_a_named_serial_device_is_queried(line, capsys):
    near, _, path = line
    assert testbed.cli.run(["discover", path]) == 4
    assert "# nothing answered" in capsys.readouterr().out
    assert arrived(near)


def test_json_output_without_addresses_lists_serial_devices(line, capsys):
    assert testbed.cli.run(["discover", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"serial": [line[1]], "found": []}


@pytest.mark.parametrize("path", ["/dev/no-such-line", "/etc/hostname"])
def test_a_path_that_is_no_serial_device_is_refused(line, path, capsys):
    assert testbed.cli.run(["discover", path]) == 2
    assert f"{path} is not a serial device of this machine" in capsys.readouterr().err
