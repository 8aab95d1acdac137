"""What holds for all tests."""

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from testbed import commands

# Before numpy is imported: what is computed here is compared with ranks, to the last bit. They have
# one thread each, and on a twin's hosts none of the variables that choose between kernels.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
for name in ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES"):
    os.environ.pop(name, None)

settings.register_profile("sample", deadline=None, max_examples=25)
settings.register_profile("full", deadline=None, max_examples=300)
settings.load_profile("sample")
"""How many examples a property is tested with, every day and in `make soak`.

How long one takes depends on what else the machine does: `--timeout` alone limits it.
"""

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    # nohup and jobs in the background ignore some, and so would all that tests start.
    if signal.getsignal(number) is signal.SIG_IGN:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: all of them, and what they import, stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _no_command_line() -> Iterator[None]:
    """Let no test see the lab, twin or results that an earlier one named."""
    commands.clear_context()
    yield
    commands.clear_context()
