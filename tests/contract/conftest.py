"""Fixtures of the contract tests."""

import pytest

from tests.contract.scripted import Script


def pytest_addoption(parser):
    parser.addoption("--lab", help="lab file whose switches are tested on their spare ports")


@pytest.fixture
def script():
    """A switch driver's lines, scripted; what was left unsaid fails the test."""
    script = Script()
    yield script
    assert not script.lines, "a line was never opened"
    assert not any(line.leftovers for line in script.opened), "something was never sent"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Give every test a home directory of its own: SSH reads its keys there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
