"""Switch far ends at sites whose fibres carry light both ways, on a clock moved by hand."""

import pytest

from testbed.bench.sites import SwitchSite
from testbed_drivers.switches.descriptors.polatis import PolatisOptions
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from tests.contract.virtual_time import VirtualTime

SETTLE = 0.025


class Box:
    """A Polatis of eight ports at a site where light goes both ways."""

    def __init__(self, size, sensitivity=-14.0, **max_dbm):
        inputs, outputs = size
        last = inputs + outputs
        self.time, self.lit, self.destroyed = VirtualTime(), {}, []
        self.sent = {}
        every = frozenset(range(1, last + 1))
        self.site = SwitchSite(
            ingress=frozenset(range(1, inputs + 1)),
            egress=frozenset(range(inputs + 1, last + 1)) or every,
            serial="S1",
            settle=SETTLE,
            seed=1,
            scheduler=self.time,
            lit=self._hear,
            launched=lambda port: self.sent.get(port),
            sensitivity=sensitivity,
            max_dbm={int(port[1:]): dbm for port, dbm in max_dbm.items()},
            destroyed=lambda port, level: self.destroyed.append(port),
            both_ways=True,
        )
        self.far_end = PolatisFarEnd(self.site, PolatisOptions(size=size, monitors=bool(outputs)))

    def _hear(self, lit):
        self.lit = lit

    def say(self, line):
        said = self.far_end.execute(line)
        self.time.advance(SETTLE)
        return said


@pytest.mark.parametrize(("size", "pair"), [((4, 4), "(@1),(@5)"), ((8, 0), "(@5),(@1)")])
def test_one_cross_connect_carries_light_in_both_directions(size, pair):
    box = Box(size)
    box.say(f":OXC:SWIT:CONN:ADD {pair}")
    assert box.lit == {1: 5, 5: 1}
    assert box.say(":OXC:SWIT:CONN:STAT?") == "(@1),(@5)"
    box.say(f":OXC:SWIT:CONN:SUB {pair}")
    assert box.lit == {}


def test_light_too_weak_in_one_direction_is_carried_in_the_other_only():
    box = Box((4, 4))
    box.sent = {1: 0.0, 5: -30.0}
    box.say(":OXC:SWIT:CONN:ADD (@1),(@5)")
    assert box.lit == {1: 5}
    assert -2.0 < box.site.leaving(5) < 0.0 and -32.0 < box.site.leaving(1) < -30.0


def test_a_receiver_at_an_input_is_destroyed_by_light_from_the_output():
    box = Box((4, 4), p1=-3.0)
    box.sent = {1: 6.0, 5: 0.0}
    box.say(":OXC:SWIT:CONN:ADD (@1),(@5)")
    assert box.destroyed == [1]
    assert box.lit == {1: 5}


def test_any_two_ports_of_one_side_are_joined_and_none_twice():
    box = Box((8, 0))
    box.say(":OXC:SWIT:CONN:ADD (@1,7),(@4,2)")
    assert box.say(":OXC:SWIT:CONN:STAT?") == "(@1,2),(@4,7)"
    assert box.say("*IDN?").split(",")[1] == "I-OST-8xCC-LU1-DMHNS"
    assert box.say(":OXC:SWIT:SIZE?") == "8,0"
    box.say(":OXC:SWIT:CONN:ADD (@4),(@8)")
    assert box.say(":SYST:ERR?").startswith("-221")
    assert box.say(":OXC:SWIT:CONN:STAT?") == "(@1,2),(@4,7)"


def test_a_misrouted_circuit_on_one_side_ends_at_a_higher_free_port():
    box = Box((8, 0))
    box.say(":OXC:SWIT:CONN:ADD (@2),(@3)")
    box.far_end.fault("misrouted")
    box.say(":OXC:SWIT:CONN:ADD (@1),(@8)")
    assert box.say(":OXC:SWIT:CONN:STAT?") == "(@1,2),(@4,3)"
