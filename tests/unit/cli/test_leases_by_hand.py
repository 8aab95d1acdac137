"""Leases taken by hand, as everybody sees them."""

import re
import shlex

import pytest

from testbed.cli import run as command_line
from testbed.record import lease_store, locks

LAB = """\
lab: small
hosts: {h0: {ssh: 192.0.2.20}}
switches: {ocs: {driver: polatis, resource: "tcp://192.0.2.10:5025", ports: [1-16]}}
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return the options that name a lab, on a machine without any lease."""
    for module in (locks, lease_store):
        monkeypatch.setattr(module, "SHARED", tmp_path / "shared")
    (tmp_path / "lab.yaml").write_text(LAB)
    return ["--lab", str(tmp_path / "lab.yaml")]


def test_who_names_the_lab_and_the_range_of_ports_of_a_lock(lab, capsys):
    why = ["--reason", "cleaning fibres", "--for", "2h"]
    assert command_line(["lock", "ocs.1", "ocs.2", "ocs.3", *why, *lab]) == 0
    capsys.readouterr()
    assert command_line(["who"]) == 0
    holder, resources = capsys.readouterr().out.splitlines()
    assert " in lab small (" in holder and "cleaning fibres" in holder
    assert resources.strip() == "ocs.1-3"
    assert command_line(["unlock", "ocs.1-3", *lab]) == 0
    capsys.readouterr()
    assert command_line(["who"]) == 0
    assert capsys.readouterr().out == "nothing is leased\n"


def test_a_refusal_due_to_ones_own_lock_names_the_unlock_command(lab, capsys):
    why = ["--reason", "cleaning fibres", "--for", "2h"]
    assert command_line(["lock", "ocs.1-3", "ocs.9", "h0", *why, *lab]) == 0
    capsys.readouterr()
    assert command_line(["lock", "ocs.2-9", *why, *lab]) == 5
    said = capsys.readouterr().err
    assert "ask its owner" not in said
    command = re.search("`(testbed unlock .*)`", said)[1]
    assert command == shlex.join(["testbed", "unlock", "ocs.2-3", "ocs.9", *lab])
    assert command_line(shlex.split(command)[1:]) == 0
    assert command_line(["lock", "ocs.2-9", *why, *lab]) == 0


def test_a_refusal_due_to_ones_own_lock_uses_the_names_of_the_lab_in_use(lab, tmp_path, capsys):
    other = tmp_path / "other.yaml"
    other.write_text(LAB.replace("ocs", "mirror"))
    why = ["--reason", "cleaning fibres", "--for", "2h"]
    assert command_line(["lock", "mirror.1", *why, "--lab", str(other)]) == 0
    capsys.readouterr()
    assert command_line(["lock", "ocs.1", *why, *lab]) == 5
    command = re.search("`(testbed unlock .*)`", capsys.readouterr().err)[1]
    assert command == shlex.join(["testbed", "unlock", "ocs.1", *lab])
    assert command_line(shlex.split(command)[1:]) == 0
