"""Circuits through two switches, on real drivers over TCP: made, refused and undone as a whole."""

import pytest

from testbed.bench.fabric import Fabric
from testbed.errors import BusyError, InstrumentError
from testbed.fabric.circuits import Circuit, FibrePair, Fibres, HostPort, SwitchPort
from tests.unit.bench.optical_rig import Rack, leased, soon


def pair(name, port):
    ends = (Fibres(SwitchPort(s, port), SwitchPort(s, port + 16)) for s in ("a", "b"))
    return FibrePair(name, *ends)


F, G = pair("f", 9), pair("g", 10)
WAY = Circuit.between(HostPort("h0", "p0"), HostPort("h0x", "p0"), (F,))
ANOTHER = Circuit.between(HostPort("h1", "p0"), HostPort("h1x", "p0"), (G,))
ON_ONE = {1: 25, 9: 17}
"""What WAY is on either switch: the port is 1 there, and the fibre 9."""


class TwoSwitches(Rack):
    def __init__(self, directory):
        super().__init__(directory, ("a", "b"))
        self.lease.release()
        ends = [end for port in self.ports for end in (self.wiring[port].tx, self.wiring[port].rx)]
        ends += [*F.ends, *G.ends]
        self.lease = self.leases.take([leased(end.switch, end.number) for end in ends], "rack")
        around = (self.journal, self.log, self)
        self.fabric = Fabric(self.drivers, self.wiring, self.ports, *around, between=(F, G))
        self.fabric.adopt({}, soon())

    def has(self, owner, *circuits):
        return self.fabric.set_circuits(owner, frozenset(circuits), soon())


@pytest.fixture
def rack(tmp_path):
    rack = TwoSwitches(tmp_path)
    yield rack
    rack.close()


def test_a_circuit_is_made_in_both_switches_and_taken_back_in_both(rack):
    rack.has("job", WAY)
    assert (rack.shown("a"), rack.shown("b")) == (ON_ONE, ON_ONE)
    (first, undone) = next(sent for sent in rack.sent if "ADD" in sent[0])
    assert [sorted(entry["ports"]) for entry in undone] == [["a", "b"]], first
    rack.fabric.restore(soon())
    assert (rack.shown("a"), rack.shown("b")) == ({}, {})


def test_a_fibre_of_another_owner_is_refused_before_anything_moves(rack):
    rack.has("job", WAY)
    before = len(rack.sent)
    over_f = Circuit.between(HostPort("h1", "p0"), HostPort("h1x", "p0"), (F,))
    with pytest.raises(BusyError, match=r"fibre f is in use by circuit h0.p0–f–h0x.p0 of job"):
        rack.has("other", over_f)
    assert rack.sent[before:] == []
    rack.has("other", ANOTHER)
    assert rack.shown("a") == ON_ONE | {3: 26, 10: 19}


def test_a_switch_that_refuses_its_part_has_the_other_brought_back(rack):
    rack.has("other", ANOTHER)
    rack.far_ends["b"].fault("error", count=1)
    with pytest.raises(InstrumentError, match="rolled back"):
        rack.has("job", WAY)
    assert rack.shown("a") == rack.shown("b") == {3: 26, 10: 19}
    rack.far_ends["b"].clear()
    rack.has("job", WAY)
    assert rack.shown("b") == ON_ONE | {3: 26, 10: 19}


def test_a_fibre_whose_port_is_leased_no_more_is_not_used(rack):
    rack.leases.unlock([leased("b", 9)], forced=True)
    rack.lease._renew()
    before = len(rack.sent)
    with pytest.raises(BusyError, match=r"took b\.9"):
        rack.has("job", WAY)
    assert [line for line, _ in rack.sent[before:] if "ADD" in line] == []


def test_circuits_are_named_by_their_fibres_where_somebody_else_took_one_down(rack):
    rack.has("job", WAY)
    rack.somebody_else(":OXC:SWIT:CONN:SUB (@9),(@17)", "b")
    with pytest.raises(BusyError, match=r"9→17 \(f to h0x.p0\)"):
        rack.has("job")
