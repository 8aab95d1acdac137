"""The conformance probe on a real driver and boxes of different manners."""

from contextlib import closing

import pytest

from testbed.bench.conformance_probe import Probe
from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline
from testbed.errors import BusyError, UsageError
from testbed.fabric.change import Change
from testbed.record.journal import Journal, open_entries
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.polatis import PolatisOptions
from testbed_drivers.switches.descriptors.selectors import DiconMxsOptions
from testbed_drivers.switches.dicon_mxs import DiconMxs
from testbed_drivers.switches.dicon_mxs_far_end import DiconMxsFarEnd
from testbed_drivers.switches.polatis import Polatis
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd

PORTS = frozenset(range(1, 17))


@pytest.fixture
def box():
    """Return a way to have a switch of certain manners; closed at the end."""
    scheduler, opened = WallScheduler(), []

    def make(far_end=PolatisFarEnd, driver=Polatis, settle=0.001, **site):
        inputs, outputs = frozenset(range(1, 9)), frozenset(range(9, 17))
        site = SwitchSite(inputs, outputs, "S1", settle, 1, scheduler, lambda lit: None, **site)
        wire = serve_tcp(far_end(site))
        resource = f"TCPIP::127.0.0.1::{wire.port}::SOCKET"
        options = {Polatis: PolatisOptions, DiconMxs: DiconMxsOptions}[driver]()
        switch = driver("ocs", resource, PORTS, "S1", options, lambda way, data: None)
        opened.extend((switch, wire))
        switch.open(soon())
        return switch

    yield make
    for one in (*opened, scheduler):
        one.close()


def permitted():
    """Say nothing against any order."""


def soon():
    return Deadline.after(5)


@pytest.fixture
def journal(tmp_path):
    with closing(Journal(tmp_path / "journal.jsonl")) as journal:
        yield journal


@pytest.fixture
def probed(journal):
    def probe(switch):
        tried = []
        probe = Probe("ocs", switch, (7, 8), (15, 16), journal, permitted)
        card = probe.run("polatis", "measured-twin", tried.append)
        assert len(tried) == len(card.manners) + 1
        return card

    return probe


@pytest.mark.parametrize(
    ("conflict", "outcome"),
    [
        ("refuse", "refused, nothing changed"),
        ("move", "done"),
        ("ignore", "accepted, nothing changed"),
    ],
)
def test_the_card_states_how_a_switch_treats_a_used_port(box, probed, conflict, outcome):
    manners = probed(box(conflict=conflict)).manners
    assert manners["connect a used ingress port"] == outcome
    assert manners["connect"] == manners["disconnect"] == "done"


def test_the_card_states_the_device_and_the_duration_of_the_probe(box, probed):
    card = probed(box())
    assert card.identity["serial"] == "S1"
    assert card.timings["answer"].n == card.timings["read-back"].n == 20
    assert card.timings["answer"].median <= card.timings["read-back"].median


def test_a_switch_without_unsteady_states_gets_no_settle_time(box, probed):
    card = probed(box())
    assert set(card.timings) == {"answer", "read-back"}
    assert card.settle() is None


def test_a_switch_that_reports_movement_gets_a_settle_time(box, probed):
    card = probed(box(DiconMxsFarEnd, DiconMxs, settle=0.03))
    assert 0.03 <= card.timings["steady"].median < 0.3
    assert card.settle() == card.timings["steady"]


def test_a_probe_keeps_other_circuits_and_leaves_its_ports_dark(box, probed):
    switch = box()
    switch.apply(Change({}, {1: 9}), soon())
    probed(switch)
    assert switch.state(soon()) == {1: 9}


def test_ports_that_carry_a_circuit_are_not_probed(box, journal):
    switch = box()
    switch.apply(Change({}, {7: 9}), soon())
    with pytest.raises(BusyError, match="carry circuits: 7→9"):
        Probe("ocs", switch, (7, 8), (15, 16), journal, permitted)
    assert switch.state(soon()) == {7: 9}


@pytest.mark.parametrize("ports", [((7, 7), (15, 16)), ((7, 15), (8, 16)), ((7,), (15, 16))])
def test_a_probe_needs_two_ingress_and_two_egress_ports(box, journal, ports):
    with pytest.raises(UsageError, match="not two ingress and two egress"):
        Probe("ocs", box(), *ports, journal, permitted)


def test_the_undo_of_a_probe_is_journalled_before_its_ports_are_lit(box, tmp_path, journal):
    switch, promised = box(), []

    def look(_):
        (entry,) = open_entries(tmp_path / "journal.jsonl")
        promised.append(entry)
        if len(promised) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        probe = Probe("ocs", switch, (7, 8), (15, 16), journal, permitted)
        probe.run("polatis", "measured-twin", look)
    assert promised[0]["made"] == {"ocs": [[7, 15], [7, 16], [8, 15], [8, 16]]}
    assert open_entries(tmp_path / "journal.jsonl") == []
    assert switch.state(soon()) == {}
