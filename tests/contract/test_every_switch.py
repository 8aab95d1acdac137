"""Every registered driver of a switch keeps its contract; the suite is the public one.

Every day it runs every behaviour on every wire, and every fault on the first wire of a driver.
"""

import pytest

from testbed.contract import suite
from testbed.contract.matrix import faults
from testbed.contract.suite import (  # noqa: F401  what pytest collects here
    BEHAVIOURS,
    TestEverySwitch,
    name_of,
    rig,
    states,
    switch,
    test_every_fault_is_known_to_the_far_end_or_has_a_reason_why_not,
    test_every_fault_of_the_far_end_has_the_expected_outcome,
)
from tests.contract import matrix


def pytest_generate_tests(metafunc):
    if "fault" not in metafunc.fixturenames:
        suite.pytest_generate_tests(metafunc)
        return
    rows = list(faults(matrix.FAMILIES.values()))
    metafunc.parametrize(
        ("family", "wire", "fault"),
        [
            pytest.param(*row, marks=() if row[1] == row[0].wires[0] else pytest.mark.soak)
            for row in rows
        ],
        ids=map(name_of, rows),
    )


def test_every_fault_that_is_expected_is_known_to_some_far_end():
    assert matrix.holes() == []


def test_the_documented_matrix_of_drivers_and_faults_is_up_to_date():
    """Rewrite it with: python -m tests.contract.matrix"""
    print("\n" + matrix.page(BEHAVIOURS))
    assert matrix.PAGE.read_text() == matrix.page(BEHAVIOURS)
