"""Servers that accept and never answer, names that never resolve: each costs its deadline only."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.bench import ssh
from testbed.bench.instrument_factory import make_instrument
from testbed.clock import Deadline
from testbed.errors import HostTimeout, NoReply
from testbed.schema import load_lab
from tests.contract.private_spaces import can_be_private

PRIVATE = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
LAB = """
lab: silent
hosts:
  h0: {{ssh: h0, network: existing}}
{instrument}
"""
SWITCH = 'switches: {{ocs: {{driver: polatis, resource: "{}", ports: [1-8]}}}}'
POWER = 'power: {{pdu: {{driver: redfish, resource: "http://127.0.0.1:{}"}}}}'


@pytest.fixture
def silent():
    """Return the port of a service that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def lab_with(instrument, directory):
    path = directory / "lab.yaml"
    path.write_text(LAB.format(instrument=instrument))
    return load_lab(path)


@pytest.mark.parametrize("resource", ["TCPIP::127.0.0.1::{}::SOCKET", "tcp://127.0.0.1:{}"])
def test_opening_a_switch_that_never_answers_ends_at_the_deadline(silent, tmp_path, resource):
    lab = lab_with(SWITCH.format(resource.format(silent)), tmp_path)
    switch = make_instrument(lab, "ocs", lambda *_: None)
    with pytest.raises(NoReply, match="did not answer"):
        switch.open(Deadline.after(0.3))
    switch.close()


def test_opening_a_power_unit_that_never_answers_ends_at_the_deadline(silent, tmp_path):
    lab = lab_with(POWER.format(silent), tmp_path)
    unit = make_instrument(lab, "pdu", lambda *_: None)
    with pytest.raises(NoReply, match="did not answer GET"):
        unit.open(Deadline.after(0.3))
    unit.close()


def test_opening_an_ssh_server_that_never_answers_ends_at_the_deadline(
    silent, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(HostTimeout, match="timed out"):
        ssh.run("h0", f"127.0.0.1:{silent}", "true", Deadline.after(0.3))


@pytest.mark.skipif(
    not can_be_private([*PRIVATE, "true"]), reason="this machine gives no user namespaces"
)
def test_resolving_a_name_that_is_never_answered_ends_at_the_deadline():
    script = Path(__file__).parent / "silent_names.py"
    done = subprocess.run(
        [*PRIVATE, sys.executable, script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    kinds = {"tcp": "LinkLost", "visa": "LinkLost", "ssh": "LinkLost", "host": "HostTimeout"}
    assert {name: kind for name, (kind, _, _) in said.items()} == kinds
    for name, (_, words, asked) in said.items():
        assert asked, f"{name} did not ask the name service"
        assert "timed out" in words and "that the name service answers" in words
