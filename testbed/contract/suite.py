"""The contract of an optical switch, kept by every driver over every wire that it claims.

The bytes are real: TCP on loopback, pseudo-terminals, HTTP, SSH. Only the box is a twin. Drivers
come from the registry or from `--testbed-driver`, faults from their far ends, and what must come of
each from `outcomes`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.bench.contracts import OpticalSwitch
from testbed.contract import matrix
from testbed.contract.family import Family, families, family_of
from testbed.contract.outcomes import EXPECTED
from testbed.contract.rig import Rig, States, reach, soon
from testbed.errors import InstrumentError, LinkLost, Rejected, UsageError
from testbed.fabric.change import Change
from testbed.plugins import kind


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for every driver, wire and fault; only the chosen drivers, where some are."""
    chosen = metafunc.config.getoption("testbed_driver")
    every = list(map(family_of, chosen)) if chosen else list(families().values())
    if "fault" in metafunc.fixturenames:
        rows = list(matrix.faults(every))
        metafunc.parametrize(("family", "wire", "fault"), rows, ids=map(name_of, rows))
    elif "wire" in metafunc.fixturenames:
        pairs = list(matrix.wires(every))
        metafunc.parametrize(("family", "wire"), pairs, ids=map(name_of, pairs))
    elif "family" in metafunc.fixturenames:
        metafunc.parametrize("family", every, ids=[family.driver for family in every])


def name_of(row: tuple[Any, ...]) -> str:
    """Return the name of a test by its driver, wire and fault."""
    return "-".join((row[0].driver, *row[1:]))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test a home directory of its own: SSH reads its keys there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def rig(family: Family, wire: str, tmp_path: Path) -> Iterator[Rig]:
    """Put a driver's far end on a wire."""
    rig = Rig(family, wire, tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def switch(rig: Rig) -> OpticalSwitch:
    """Open the driver."""
    return rig.driver()


@pytest.fixture
def states(switch: OpticalSwitch) -> States:
    """Choose states that the switch can be in."""
    return States(switch.capabilities)


class TestEverySwitch:
    """What every driver does, over every wire."""

    def test_every_switch_reports_its_identity_and_capabilities(
        self, family: Family, switch: OpticalSwitch
    ) -> None:
        assert switch.identify(soon()).serial == (family.serial or "")
        can = switch.capabilities
        assert can.ingress == frozenset(range(1, family.inputs + 1))
        assert len(can.egress) == family.outputs
        assert min(can.egress) == family.inputs + 1
        assert 0 < can.settle <= can.settle_max

    def test_a_switch_whose_circuits_move_together_is_leased_as_a_whole(
        self, family: Family, switch: OpticalSwitch
    ) -> None:
        can = switch.capabilities
        assert kind("drivers", family.driver).whole == bool(can.positions or can.mesh)

    def test_circuits_made_by_another_client_are_read_back(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        if rig.family.blind:
            pytest.skip("it cannot be asked what another client made")
        other = rig.second_driver()
        for wanted in (states.one, states.other):
            reach(other, wanted)
            assert switch.state(soon()) == wanted

    def test_connecting_a_circuit_once_or_twice_gives_light(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        for _ in range(2):
            assert reach(switch, states.one).state == states.one
            assert switch.apply(Change({}, states.one), soon()).state == states.one
            rig.wait_for_light(states.one)

    def test_a_circuit_of_another_client_is_never_removed_for_a_conflicting_one(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
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

    def test_moving_a_circuit_lights_the_new_path(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        reach(switch, states.one)
        rig.wait_for_light(states.one)
        applied = reach(switch, states.other)
        assert applied.state == states.other
        assert applied.commanded <= applied.answered <= applied.read_back
        rig.wait_for_light(states.other)

    def test_removing_an_absent_circuit_changes_nothing(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        reach(switch, states.one)
        absent = dict(states.other.items() - states.one.items())
        assert switch.apply(Change(absent, {}), soon()).state == states.one

    def test_circuits_on_all_ports_are_moved_in_one_change(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        assert reach(switch, states.all).state == states.all
        assert reach(switch, states.rotated).state == states.rotated
        rig.wait_for_light(states.rotated)

    def test_an_idle_connection_that_was_cut_is_reopened(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        rig.cut()
        assert reach(switch, states.one).state == states.one

    def test_an_unplugged_switch_raises_link_lost(self, rig: Rig, switch: OpticalSwitch) -> None:
        rig.unplug()
        with pytest.raises(LinkLost):
            switch.state(soon())

    def test_another_switch_at_the_same_address_is_refused(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        if rig.family.nameless:
            pytest.skip("it does not report its serial number")
        present = switch.state(soon())
        wanted = states.one if present != states.one else states.other
        rig.learn_orders(switch)
        rig.cut(rig.build("S2"))
        with pytest.raises(InstrumentError, match="S2 instead of S1"):
            reach(switch, wanted)
        assert not rig.orders

    def test_two_drivers_on_one_switch_see_each_others_changes(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        if rig.family.blind:
            pytest.skip("it cannot be asked what another client made")
        other = rig.second_driver()
        reach(switch, states.one)
        assert other.state(soon()) == states.one
        assert reach(other, states.other).state == states.other
        assert switch.state(soon()) == states.other

    def test_replies_to_concurrent_threads_are_not_mixed_up(
        self, switch: OpticalSwitch, states: States
    ) -> None:
        reach(switch, states.one)
        wrong: list[int] = []

        def ask(question: Callable[[Any], Any], expected: Any) -> None:
            wrong.extend(1 for _ in range(30) if question(soon()) != expected)

        questions: list[tuple[Any, Any]] = [
            (switch.identify, switch.identify(soon())),
            (switch.state, states.one),
        ]
        threads = [threading.Thread(target=ask, args=question) for question in questions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_closing_a_switch_twice_is_harmless_and_changes_no_circuit(
        self, rig: Rig, switch: OpticalSwitch, states: States
    ) -> None:
        reach(switch, states.one)
        rig.wait_for_light(states.one)
        switch.close()
        switch.close()
        assert rig.settled_light() == states.one
        assert switch.state(soon()) == states.one


def test_every_fault_of_the_far_end_has_the_expected_outcome(
    rig: Rig, switch: OpticalSwitch, fault: str
) -> None:
    EXPECTED[fault].check(rig, switch, fault)
    assert rig.far_end.struck(fault) > 0


BEHAVIOURS = [
    name.removeprefix("test_").replace("_", " ")
    for name in vars(TestEverySwitch)
    if name.startswith("test_")
]


def test_every_fault_is_known_to_the_far_end_or_has_a_reason_why_not(family: Family) -> None:
    assert list(matrix.holes(family)) == []
