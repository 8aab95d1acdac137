"""A switch moved by hand: the same checks and the same way back as for a run."""

import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import pytest

from testbed.bench.characterisation import options_of, with_time_to_settle
from testbed.bench.conformance_probe import spare_ports
from testbed.bench.endpoints import parse_endpoint_pairs, parse_endpoints
from testbed.bench.lease_resources import needs
from testbed.bench.manual_switch import open_manual_switch
from testbed.bench.sites import SwitchSite
from testbed.errors import BusyError, InstrumentError, LabError, UnsafeError, UsageError
from testbed.fabric.device import Capabilities
from testbed.record.journal import open_entries
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.rundir import RunDirectory
from testbed.record.transcript import read_transcript
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.polatis import PolatisOptions
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from testbed_drivers.switches.switch import sides

LAB = """\
lab: bench
hosts:
  h0:
    ssh: h0
    ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.9}}}}
  h1:
    ssh: h1
    ports: {{p0: {{interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.10, max_dbm: 0 dBm}}}}
switches:
  ocs:
    driver: polatis
    resource: "tcp://127.0.0.1:{port}"
    ports: [1-16]
    protected: [3]
    keep_alive: [12]
"""


class HandRig:
    """A lab file, the far end of its switch, and a hand on it."""

    def __init__(self, directory, text=LAB, twin="", *, monitors=False):
        self._directory = directory
        self._scheduler = WallScheduler()
        settle = 0.2 if monitors else 0.001
        site = SwitchSite(*sides(8, 8), token_hex(4), settle, 1, self._scheduler, lambda lit: None)
        self.far_end = PolatisFarEnd(site, PolatisOptions(monitors=monitors))
        self._wire = serve_tcp(self.far_end)
        file = directory / "lab.yaml"
        file.write_text(text.format(port=self._wire.port) + twin)
        self.lab = load_lab(str(file))
        self.leases = Leases(FileStore(directory / "leases.sqlite"))

    def connect(self, *ends):
        with open_manual_switch(self.lab, "ocs", self.leases, force=False) as box:
            return box.connect(parse_endpoints(self.lab, "ocs", list(ends)), self.record()).moved

    def disconnect(self, *ends):
        with open_manual_switch(self.lab, "ocs", self.leases, force=False) as box:
            return box.disconnect(parse_endpoints(self.lab, "ocs", list(ends)), self.record()).moved

    def record(self):
        self.last = RunDirectory.create(self._directory, "switch")
        return self.last

    def shown(self):
        with open_manual_switch(self.lab, "ocs", self.leases, force=False) as box:
            return {row.ingress: row.egress for row in box.rows()}

    def close(self):
        self._wire.close()
        self._scheduler.close()


@pytest.fixture
def hand(tmp_path):
    rig = HandRig(tmp_path)
    yield rig
    rig.close()


def test_a_manual_circuit_is_made_verified_and_removed(hand):
    moved = hand.connect("4", "11")
    assert moved.applied.state == {4: 11}
    assert moved.applied.read_back <= moved.verified.steady
    assert hand.connect("4", "11") is None, "it is there already"
    assert hand.disconnect("4", "11").applied.state == {}


def test_leased_ports_are_shown_but_moved_only_with_force(hand):
    lease = hand.leases.take(needs(hand.lab, ["h0"]), "lumion")
    with pytest.raises(BusyError, match=r"ocs\.1: held by .*: lumion"):
        hand.connect("1", "11")
    assert hand.connect("4", "11").applied.state == {4: 11}
    assert hand.shown() == {4: 11}
    with open_manual_switch(hand.lab, "ocs", hand.leases, force=True) as box:
        box.connect(parse_endpoints(hand.lab, "ocs", ["1", "12"]), hand.record())
    assert hand.shown() == {1: 12, 4: 11}
    assert [found.claim.resources for found in hand.leases.find()] == [lease.resources]
    lease.release()


def test_ports_leased_during_the_read_are_not_moved(hand, monkeypatch):
    execute = hand.far_end.execute

    def taken(line):
        if "CONN:STAT?" in line:
            for found in hand.leases.find():
                hand.leases.unlock(found.claim.resources, forced=True)
        return execute(line)

    monkeypatch.setattr(hand.far_end, "execute", taken)
    with pytest.raises(BusyError, match="the lease of this run is lost"):
        hand.connect("4", "11")
    assert hand.shown() == {}


def test_a_failed_manual_change_is_rolled_back(hand):
    hand.connect("5", "13")
    hand.far_end.fault("misrouted", port=4, count=1)
    with pytest.raises(InstrumentError, match=r"4→9 instead.* rolled back"):
        hand.connect("4", "11")
    assert hand.shown() == {5: 13}


def test_an_interrupted_manual_change_is_rolled_back(hand):
    hand.connect("5", "13")
    hand.far_end.fault("silent", command="ADD", count=1)

    def press_ctrl_c():
        while not hand.far_end.struck("silent"):  # it has made the circuit by then
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=press_ctrl_c).start()
    with pytest.raises(KeyboardInterrupt):
        hand.connect("4", "11")
    assert hand.shown() == {5: 13}


def test_the_undo_is_on_the_disk_before_the_switch_is_commanded(hand):
    hand.connect("5", "13")
    hand.far_end.fault("silent", command="ADD", count=1)
    promised = []

    def look():
        while not hand.far_end.struck("silent"):
            time.sleep(0.001)
        promised.extend(open_entries(hand.last.journal))

    looking = threading.Thread(target=look)
    looking.start()
    hand.connect("4", "11")  # the read-back tells what the lost answer does not
    looking.join()
    (entry,) = promised
    assert (entry["start"], entry["made"]) == ({"ocs": []}, {"ocs": [[4, 11]]})
    assert entry["ports"] == {"ocs": [4, 11]}
    assert open_entries(hand.last.journal) == []


def test_a_manual_change_waits_for_the_settle_time_on_the_card(tmp_path):
    text = LAB.replace("    keep_alive", "    monitors: true\n    keep_alive")
    rig = HandRig(tmp_path, text, "twin: {cards: {ocs: polatis-6000}}\n", monitors=True)
    try:
        assert options_of(rig.lab, "ocs").settle_max == pytest.approx(0.2)
        assert rig.connect("4", "11").verified.lit, "it settles in 200 ms"
    finally:
        rig.close()


def test_a_driver_waits_for_as_long_as_the_switch_of_its_twin_settles(hand):
    options = {
        seconds: options_of(with_time_to_settle(hand.lab, {"ocs": seconds}), "ocs")
        for seconds in (0.01, 1.0)
    }
    assert options[0.01] == options_of(hand.lab, "ocs")
    assert options[1.0] == replace(options[0.01], settle_max=1.0)


def test_without_a_card_the_time_limit_is_that_of_the_lab_file(hand):
    assert options_of(hand.lab, "ocs").settle_max == pytest.approx(0.05)


def test_a_failed_rollback_stays_in_the_journal_and_leased(hand):
    hand.far_end.fault("misrouted", port=4)
    hand.far_end.fault("error", command="SUB")
    with pytest.raises(UnsafeError, match="could not be brought back"):
        hand.connect("4", "11")
    (entry,) = open_entries(hand.last.journal)
    made = sorted(entry["made"]["ocs"])
    assert made == [[4, 9], [4, 11]], "what went astray is ours to take back"
    with pytest.raises(BusyError, match=f"testbed recover {hand.last.path}"):
        hand.connect("4", "11")


def test_the_transcript_holds_every_exchange_with_the_switch(hand):
    hand.far_end.fault("error", count=1)
    with pytest.raises(InstrumentError):
        hand.connect("4", "13")
    said = list(read_transcript(hand.last.path / "wire" / "ocs.jsonl"))
    sent = b"".join(each.data for each in said if each.direction == "send")
    assert sent.startswith(b"*IDN?")
    assert b":OXC:SWIT:CONN:ADD" in sent
    assert any(b"-" in each.data for each in said if each.direction == "receive")


def test_a_protected_port_is_not_moved_manually(hand):
    with pytest.raises(UsageError, match="port 3 of ocs is protected or not in `ports` of lab b"):
        hand.connect("3", "11")


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (
            (),
            r"an empty list does not name a circuit of ocs: expected two ends of a circuit, got 0",
        ),
        (("4",), r"expected two ends of a circuit, got 1"),
        (("4", "11", "12"), r"expected two ends of a circuit, got 3"),
        (("4", "h1.p0"), r"'4' is not a host port"),
        (("17", "11"), r"port 17 of ocs is protected or not in `ports` of la"),
    ],
)
def test_an_impossible_circuit_is_refused_before_the_switch_is_queried(hand, ends, words):
    with pytest.raises(UsageError, match=words):
        parse_endpoints(hand.lab, "ocs", list(ends))


def test_ports_of_fibres_to_other_switches_are_not_spare():
    lab = load_lab(Path(__file__).parents[3] / "configs" / "slices.yaml")
    can = Capabilities(frozenset(range(1, 7)), frozenset(range(7, 13)), 0.1, 1.0)
    with pytest.raises(UsageError, match="no two unused ingress ports and two unused egress"):
        spare_ports(lab, "mesh0", can)


def test_a_conformance_probe_takes_dark_spare_ports(hand):
    hand.connect("8", "16")
    with open_manual_switch(hand.lab, "ocs", hand.leases, force=False) as box:
        card = box.probe([], "measured-hw", hand.record(), lambda text: None)
    assert card.timings["answer"].n > 0
    assert hand.shown() == {8: 16}


def test_swapped_circuit_ends_are_reported_as_such(hand):
    with pytest.raises(
        UsageError, match=r"connect 11→4: ingress ports are 1-8, egress ports are 9-16"
    ):
        hand.connect("11", "4")


def test_a_conflicting_circuit_of_another_user_is_refused(hand):
    hand.connect("4", "11")
    with pytest.raises(BusyError, match=r"needed: 4→11 .*`testbed switch ocs disconnect 4 11`"):
        hand.connect("4", "14")
    assert hand.shown() == {4: 11}


def test_manual_changes_respect_the_power_limits_of_receivers(hand):
    with pytest.raises(
        LabError, match=r"withstands 0 dBm and what enters .* h1\.p0 is behind it; an unw"
    ):
        hand.connect("4", "10")
    hand.connect("4", "12")
    with pytest.raises(LabError, match="port 12 is listed in keep_alive"):
        hand.disconnect("4", "12")


def test_several_circuits_are_changed_by_one_manual_command(hand):
    lab = hand.lab
    found = parse_endpoint_pairs(lab, "ocs", ["4", "11", "5", "12"])
    assert {(cross.ingress, cross.egress) for cross in found} == {(4, 11), (5, 12)}
    with pytest.raises(UsageError, match="5 11 uses port 11 of ocs, as an earlier pair"):
        parse_endpoint_pairs(lab, "ocs", ["4", "11", "5", "11"])
    with pytest.raises(UsageError, match="expected two ends of a circuit, got 3"):
        parse_endpoint_pairs(lab, "ocs", ["4", "11", "5"])
