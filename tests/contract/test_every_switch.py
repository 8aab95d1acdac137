"""The contract of an optical switch, kept by every registered driver over every wire it claims.

The bytes are real: TCP on loopback, pseudo-terminals, HTTP, SSH. Only the box is a twin. Drivers
come from the registry, faults from their far ends, and what must come of each from `outcomes`.
"""

import threading

import pytest

from testbed.errors import InstrumentError, LinkLost, Rejected, UsageError
from testbed.fabric.change import Change
from testbed.plugins import kind
from tests.contract import matrix
from tests.contract.outcomes import EXPECTED
from tests.contract.rig import Rig, States, reach, soon


@pytest.fixture
def rig(family, wire, tmp_path):
    rig = Rig(family, wire, tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def switch(rig):
    return rig.driver()


@pytest.fixture
def states(switch):
    return States(switch.capabilities)


@pytest.mark.parametrize(("family", "wire"), matrix.wires())
class TestEverySwitch:
    def test_every_switch_reports_its_identity_and_capabilities(self, family, switch):
        assert switch.identify(soon()).serial == (family.serial or "")
        can = switch.capabilities
        assert can.ingress == frozenset(range(1, family.inputs + 1))
        assert len(can.egress) == family.outputs
        assert min(can.egress) == family.inputs + 1
        assert 0 < can.settle <= can.settle_max

    def test_a_switch_whose_circuits_move_together_is_leased_as_a_whole(self, family, switch):
        can = switch.capabilities
        assert kind("drivers", family.driver).whole == bool(can.positions or can.mesh)

    def test_circuits_made_by_another_client_are_read_back(self, rig, switch, states):
        if rig.family.blind:
            pytest.skip("it cannot be asked what another client made")
        other = rig.second_driver()
        for wanted in (states.one, states.other):
            reach(other, wanted)
            assert switch.state(soon()) == wanted

    def test_connecting_a_circuit_once_or_twice_gives_light(self, rig, switch, states):
        for _ in range(2):
            assert reach(switch, states.one).state == states.one
            assert switch.apply(Change({}, states.one), soon()).state == states.one
            rig.wait_for_light(states.one)

    def test_a_circuit_of_another_client_is_never_removed_for_a_conflicting_one(
        self, rig, switch, states
    ):
        if rig.family.blind:
            pytest.skip("it cannot be asked what another client made")
        reach(rig.second_driver(), states.one)
        try:
            applied = switch.apply(Change({}, states.other), soon())
        except (Rejected, UsageError) as error:
            assert str(error)
        else:
            assert applied.refused
        assert switch.state(soon()) == states.one

    def test_moving_a_circuit_lights_the_new_path(self, rig, switch, states):
        reach(switch, states.one)
        rig.wait_for_light(states.one)
        applied = reach(switch, states.other)
        assert applied.state == states.other
        assert applied.commanded <= applied.answered <= applied.read_back
        rig.wait_for_light(states.other)

    def test_removing_an_absent_circuit_changes_nothing(self, rig, switch, states):
        reach(switch, states.one)
        absent = dict(states.other.items() - states.one.items())
        assert switch.apply(Change(absent, {}), soon()).state == states.one

    def test_circuits_on_all_ports_are_moved_in_one_change(self, rig, switch, states):
        assert reach(switch, states.all).state == states.all
        assert reach(switch, states.rotated).state == states.rotated
        rig.wait_for_light(states.rotated)

    def test_an_idle_connection_that_was_cut_is_reopened(self, rig, switch, states):
        rig.cut()
        assert reach(switch, states.one).state == states.one

    def test_an_unplugged_switch_raises_link_lost(self, rig, switch):
        rig.unplug()
        with pytest.raises(LinkLost):
            switch.state(soon())

    def test_another_switch_at_the_same_address_is_refused(self, rig, switch, states):
        if rig.family.nameless:
            pytest.skip("it does not report its serial number")
        present = switch.state(soon())
        wanted = states.one if present != states.one else states.other
        rig.learn_orders(switch)
        rig.cut(rig.build("S2"))
        with pytest.raises(InstrumentError, match="S2 instead of S1"):
            reach(switch, wanted)
        assert not rig.orders

    def test_two_drivers_on_one_switch_see_each_others_changes(self, rig, switch, states):
        if rig.family.blind:
            pytest.skip("it cannot be asked what another client made")
        other = rig.second_driver()
        reach(switch, states.one)
        assert other.state(soon()) == states.one
        assert reach(other, states.other).state == states.other
        assert switch.state(soon()) == states.other

    def test_replies_to_concurrent_threads_are_not_mixed_up(self, switch, states):
        reach(switch, states.one)
        wrong = []

        def ask(question, expected):
            wrong.extend(1 for _ in range(30) if question(soon()) != expected)

        questions = [(switch.identify, switch.identify(soon())), (switch.state, states.one)]
        threads = [threading.Thread(target=ask, args=question) for question in questions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_closing_a_switch_twice_is_harmless_and_changes_no_circuit(self, rig, switch, states):
        reach(switch, states.one)
        rig.wait_for_light(states.one)
        switch.close()
        switch.close()
        assert rig.settled_light() == states.one
        assert switch.state(soon()) == states.one


@pytest.mark.parametrize(("family", "wire", "fault"), matrix.faults())
def test_every_fault_of_the_far_end_has_the_expected_outcome(rig, switch, fault):
    EXPECTED[fault].check(rig, switch, fault)
    assert rig.far_end.struck(fault) > 0


BEHAVIOURS = [
    name.removeprefix("test_").replace("_", " ")
    for name in vars(TestEverySwitch)
    if name.startswith("test_")
]


def test_the_matrix_of_drivers_and_faults_is_complete():
    assert matrix.holes() == []


def test_the_documented_matrix_of_drivers_and_faults_is_up_to_date():
    """Rewrite it with: python -m tests.contract.matrix"""
    print("\n" + matrix.page(BEHAVIOURS))
    assert matrix.PAGE.read_text() == matrix.page(BEHAVIOURS)
