"""Circuits through two switches, on real drivers over TCP: made, refused and undone as a whole."""

import pytest

from testbed.bench.bench import Bench
from testbed.bench.cross_connect_rows import read_rows
from testbed.bench.doctor import _check_fibres
from testbed.bench.fabric import Fabric
from testbed.bench.lease_resources import needs
from testbed.errors import BusyError, InstrumentError, LabError
from testbed.fabric.circuits import Circuit, FibrePair, Fibres, HostPort, SwitchPort
from testbed.fabric.device import Capabilities
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab
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


LAB = """\
lab: two
hosts:
  h0: {ssh: h0, ports: {p0: {interface: e, address: 10.0.0.1/8, tx: a.1, rx: a.17}}}
  h0x: {ssh: h0x, ports: {p0: {interface: e, address: 10.0.0.2/8, tx: b.1, rx: b.17}}}
fibres:
  f: [{tx: a.9, rx: a.25}, {tx: b.9, rx: b.25}]
  g: [{tx: a.10, rx: a.26}, {tx: b.10, rx: b.26}]
switches:
  a: {driver: polatis, resource: "tcp://192.0.2.1:1", ports: [1-32]}
  b: {driver: polatis, resource: "tcp://192.0.2.2:1", ports: [1-32]}
"""
SET_ASIDE = "quarantine: [{what: b.9, until: 2099-12-31, reason: its connector is dirty}]\n"


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB + SET_ASIDE)
    return load_lab(tmp_path / "lab.yaml")


def test_rows_of_a_switch_name_the_fibres_to_other_switches(rack, lab):
    rack.has("job", WAY)
    rows = read_rows(lab, "a", rack.drivers["a"], soon())
    assert [str(row.ends) for row in rows] == ["h0.p0 to f", "f to h0.p0"]


def test_a_fibre_in_quarantine_is_not_leased(lab):
    ports = {str(one) for one in needs(lab, ["h0"])}
    assert {"a.1", "a.17", "a.10", "b.26"} <= ports
    assert not {"a.9", "a.25", "b.9", "b.25"} & ports


def test_a_fibre_in_quarantine_is_none_that_a_run_may_use(rack, lab, tmp_path):
    bench = Bench(lab, RunDirectory.create(tmp_path, "e"), rack.journal, rack.log, None)
    bench.switches.update(rack.drivers)
    bench.open_fabric(lab.wiring())
    ports = {one.name: sorted(one.ports) for one in bench.fabric._crossbars.all}
    assert ports == {"a": [1, 10, 17, 26], "b": [1, 10, 17, 26]}


def test_doctor_finds_a_fibre_at_a_port_that_the_switch_does_not_have(lab):
    can = Capabilities(frozenset(range(1, 10)), frozenset(range(17, 33)), 0.1, 1.0)
    with pytest.raises(LabError, match=r"g sends into a\.10, but light enters this switch at 1-9"):
        _check_fibres(lab, "a", can)
