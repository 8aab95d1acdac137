"""Fixtures of the contract tests."""

import pytest

from testbed.contract.suite import home  # noqa: F401  a home directory for each test
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
