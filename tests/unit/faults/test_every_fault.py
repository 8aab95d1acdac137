"""What every fault must do that the lab itself injects, on real lines to real far ends."""

import pytest

from testbed.clock import now
from testbed.plugins import kinds
from tests.unit.faults.small_lab import soon

FAULTS = [name for name, kind in kinds("faults").items() if kind.role != "far-end"]
FINAL = {"rank-kill"}
"""What cannot be taken back: what is left of a killed process is nothing."""


@pytest.fixture(params=FAULTS)
def fault(request, lab):
    fault = lab.fault(request.param)
    fault.is_final = request.param in FINAL
    return fault


def injected(lab, fault):
    """Inject, wait until it shows, and return what it said."""
    before, deadline = lab.state(), soon()
    said = fault.inject(lab.bench, lab.victim, deadline)
    while lab.state() == before:
        assert not deadline.passed, "nothing came of it"
    return said


def test_inject_causes_the_fault_and_reports_target_and_time(lab, fault):
    before = now()
    said = injected(lab, fault)
    assert said.clock in {"", "h1"}
    assert said.sent <= said.done
    assert before <= said.sent or said.clock
    assert said.note


def test_the_undo_of_every_fault_is_in_the_journal_before_the_injection(lab, fault):
    own = fault.undo_entry(lab.bench, lab.victim)
    injected(lab, fault)
    assert own or lab.recorded_undos() or fault.is_final


def test_the_undo_of_every_fault_restores_the_lab(lab, fault):
    before = lab.state()
    injected(lab, fault)
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.state() == before or fault.is_final


def test_a_second_undo_of_a_fault_changes_nothing(lab, fault):
    injected(lab, fault)
    fault.undo(lab.bench, lab.victim, soon())
    after = lab.state()
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.state() == after


def test_an_undo_without_an_injection_changes_nothing(lab, fault):
    before = lab.state()
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.state() == before
