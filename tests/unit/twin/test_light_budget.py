"""The light budget, with a real switch far end between the fibres and a clock moved by hand."""

import pytest

from testbed.bench.sites import SwitchSite
from testbed.fabric.circuits import SwitchPort
from testbed.schema import load_lab
from testbed.twin.light_budget import LightBudget
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from tests.contract.virtual_time import VirtualTime

LAB = """\
lab: bench
hosts:
  h0:
    ssh: h0
    ports: {p0: {interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.5, launch: 3 dBm}}
  h1:
    ssh: h1
    ports: {p0: {interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.6}}
switches: {ocs: {driver: polatis, resource: "tcp://192.0.2.10:5025", ports: [1-8]}}
"""
H0, H1 = SwitchPort("ocs", 1), SwitchPort("ocs", 2)
AT_H0, AT_H1 = SwitchPort("ocs", 5), SwitchPort("ocs", 6)
SETTLE = 0.025


class Rig:
    """Two hosts with power and the circuits between them, on one 4×4 switch."""

    def __init__(self, lab):
        self.powered = {"h0", "h1"}
        self.time = VirtualTime()
        self.lit, self.calls = {}, 0
        self.budget = LightBudget(lab, self.powered.__contains__)
        self.site = SwitchSite(
            ingress=frozenset(range(1, 5)),
            egress=frozenset(range(5, 9)),
            serial="S1",
            settle=SETTLE,
            seed=1,
            scheduler=self.time,
            lit=self._hear,
            sensitivity=-14.0,
        )
        self.far_end = PolatisFarEnd(self.site)
        self.budget.join("ocs", self.site)
        self.far_end.execute(":OXC:SWIT:CONN:ADD (@1,2),(@6,5)")
        self.time.advance(SETTLE)
        self.calls = 0

    def _hear(self, lit):
        self.lit = dict(lit)
        self.calls += 1


@pytest.fixture
def rig(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB)
    return Rig(load_lab(tmp_path / "lab.yaml"))


def test_received_power_is_launch_power_less_fibre_and_switch_loss(rig):
    assert rig.budget.tapped(H0) == 3.0
    assert rig.budget.tapped(H1) == 0.0
    assert 1.4 <= rig.budget.tapped(AT_H1) <= 2.4
    rig.budget.take(H0, 4.0)
    assert rig.budget.tapped(H0) == -1.0
    assert -2.6 <= rig.budget.tapped(AT_H1) <= -1.6
    assert rig.budget.tapped(H1) == 0.0


def test_a_circuit_goes_dark_when_its_receiver_gets_too_little_light_and_recovers(rig):
    rig.budget.take(H0, 15.0)
    assert rig.lit == {1: 6, 2: 5}
    rig.budget.take(H0, 17.0)
    assert rig.lit == {2: 5}
    rig.budget.take(H0, 15.0)
    assert rig.lit == {1: 6, 2: 5}
    assert rig.calls == 2


def test_an_attenuator_at_the_receiver_has_the_same_effect_as_at_the_source(rig):
    rig.budget.take(AT_H1, 17.0)
    assert rig.lit == {2: 5}
    assert -15.6 <= rig.budget.tapped(AT_H1) <= -14.6
    assert rig.budget.tapped(H0) == 3.0


def test_losses_at_both_ends_of_a_path_are_added(rig):
    rig.budget.take(H0, 8.0)
    rig.budget.take(AT_H1, 8.0)
    assert rig.lit == {1: 6, 2: 5}
    rig.budget.take(AT_H1, 9.5)
    assert rig.lit == {2: 5}


def test_a_host_without_power_sends_no_light_and_its_circuit_stays_configured(rig):
    rig.powered.discard("h0")
    rig.budget.look_again()
    assert rig.budget.tapped(H0) is None
    assert rig.budget.tapped(AT_H1) is None
    assert rig.calls == 0


def test_a_host_that_boots_again_behind_an_attenuator_stays_dark(rig):
    rig.powered.discard("h0")
    rig.budget.take(H0, 40.0)
    assert rig.lit == {1: 6, 2: 5}
    rig.powered.add("h0")
    rig.budget.look_again()
    assert rig.lit == {2: 5}


def test_a_circuit_below_the_sensitivity_of_its_receiver_is_dark(rig):
    rig.site.sensitivity = 0.0
    rig.budget.look_again()
    assert rig.lit == {1: 6}


def test_a_tap_is_dark_without_a_circuit_and_while_mirrors_move(rig):
    assert rig.budget.tapped(SwitchPort("ocs", 7)) is None
    assert rig.budget.tapped(SwitchPort("ocs", 3)) is None
    rig.far_end.execute(":OXC:SWIT:CONN:SUB (@1),(@6);:OXC:SWIT:CONN:ADD (@1),(@7)")
    assert rig.budget.tapped(SwitchPort("ocs", 7)) is None
    rig.time.advance(SETTLE)
    assert rig.budget.tapped(SwitchPort("ocs", 7)) is not None
