"""The option `--testbed-driver` of pytest, which loads it in every run beside the testbed.

So nothing of the suite is imported unless the option is given.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    *(f"testbed.contract.{module}" for module in ("suite", "fault_checks", "rig"))
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("testbed").addoption(
        "--testbed-driver",
        action="append",
        default=[],
        metavar="NAME",
        help="test this driver of a switch against its far end; may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the suite where the option is given; without paths, collect nothing else."""
    drivers = config.getoption("testbed_driver")
    if not drivers:
        return
    from testbed.contract.family import family_of
    from testbed.errors import TestbedError

    try:
        for driver in drivers:
            family_of(driver)
    except TestbedError as error:
        raise pytest.UsageError(str(error)) from error
    given = config.args if config.args_source is config.ArgsSource.ARGS else []
    config.args = [*given, str(Path(__file__).with_name("suite.py"))]
