"""What holds for all tests."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from testbed import commands

settings.register_profile("without seconds", deadline=None)
settings.load_profile("without seconds")
"""How long a test may take depends on what else the machine does: `--timeout` alone limits it."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts jobs in the background so, and the processes of tests would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_command_line() -> Iterator[None]:
    """Let no test see the lab, twin or results that an earlier one named."""
    commands.forget()
    yield
    commands.forget()
