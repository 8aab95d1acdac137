"""Every registered driver of a switch keeps its contract; the suite is the public one.

Every day it runs every behaviour on every wire, and every fault on the first wire of a third of
the drivers that can have it; the soak runs the others.
"""

import random
from collections import defaultdict

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
    daily = daily_sample(rows)
    metafunc.parametrize(
        ("family", "wire", "fault"),
        [pytest.param(*row, marks=() if row in daily else pytest.mark.soak) for row in rows],
        ids=map(name_of, rows),
    )


def daily_sample(rows):
    """Return, of each fault, a third of its drivers, on the first wire of each."""
    by_fault = defaultdict(list)
    for family, wire, fault in rows:
        if wire == family.wires[0]:
            by_fault[fault].append((family, wire, fault))
    return [
        row
        for fault, found in by_fault.items()
        for row in random.Random(fault).sample(found, -(-len(found) // 3))
    ]


def test_the_daily_sample_has_every_fault_and_every_driver():
    rows = list(faults(matrix.FAMILIES.values()))
    daily = daily_sample(rows)
    assert {fault for _, _, fault in daily} == {fault for _, _, fault in rows}
    assert {family.driver for family, _, _ in daily} == set(matrix.FAMILIES)


def test_every_fault_that_is_expected_is_known_to_some_far_end():
    assert matrix.holes() == []


def test_the_documented_matrix_of_drivers_and_faults_is_up_to_date():
    """Rewrite it with: python -m tests.contract.matrix"""
    print("\n" + matrix.page(BEHAVIOURS))
    assert matrix.PAGE.read_text() == matrix.page(BEHAVIOURS)
