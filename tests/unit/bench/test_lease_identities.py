"""One box has one owner, also where two labs reach it by other names and in other languages."""

from contextlib import contextmanager

import pytest

from testbed.bench.contracts import Identity
from testbed.bench.endpoints import parse_endpoints
from testbed.bench.identities import of_hardware
from testbed.bench.lease_resources import box_of, needs, part_of, whole_of
from testbed.bench.manual_switch import open_manual_switch
from testbed.bench.permission import Guard
from testbed.bench.reported_identities import ReportedIdentities
from testbed.bench.sites import SwitchSite
from testbed.errors import BusyError, InstrumentError
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from testbed_drivers.switches.polatis_restconf_far_end import PolatisRestconfFarEnd
from testbed_drivers.switches.switch import sides

LAB = """\
lab: {lab}
hosts:
  h0: {{ssh: h0, ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: {name}.1, rx: {name}.9}}}}}}
switches:
  {name}: {{driver: {driver}, resource: "{resource}", size: [8, 8], ports: [1-16]}}
"""


class Box:
    """One switch, or what says the same serial number, with a line for each of two languages."""

    def __init__(self, directory, serial):
        self._scheduler = WallScheduler()
        site = (0.001, 1, self._scheduler, lambda lit: None)
        self.scpi = PolatisFarEnd(SwitchSite(*sides(8, 8), serial, *site))
        self.web = PolatisRestconfFarEnd(SwitchSite(*sides(8, 8), serial, *site))
        self._wires = [serve_tcp(self.scpi), serve_tcp(self.web)]
        self._directory = directory

    def lab(self, name, driver):
        scpi, web = (wire.port for wire in self._wires)
        resources = {
            "polatis": f"TCPIP::127.0.0.1::{scpi}::SOCKET",
            "polatis-restconf": f"http://127.0.0.1:{web}",
        }
        file = self._directory / f"{name}-{scpi}.yaml"
        words = {"lab": f"of-{name}", "name": name, "driver": driver}
        file.write_text(LAB.format(resource=resources[driver], **words))
        return load_lab(file)

    def close(self):
        for wire in self._wires:
            wire.close()
        self._scheduler.close()


@pytest.fixture
def box_of_serial(tmp_path):
    boxes = []

    def make(serial):
        boxes.append(Box(tmp_path, serial))
        return boxes[-1]

    yield make
    for box in boxes:
        box.close()


@pytest.fixture
def leases(tmp_path):
    return Leases(FileStore(tmp_path / "leases.sqlite"))


@contextmanager
def opened(lab, leases):
    (name,) = lab.switches
    with open_manual_switch(lab, name, leases, force=False) as box:
        yield box


def connect(lab, leases, directory, *ends):
    (name,) = lab.switches
    with opened(lab, leases) as box:
        box.connect(
            parse_endpoints(lab, name, list(ends)), RunDirectory.create(directory, "switch")
        )
        return {row.ingress: row.egress for row in box.rows()}


def owner_of(lab, leases, *ports):
    """Return the lease of somebody who has opened the switch of a lab, and has ports of it."""
    (name,) = lab.switches
    with opened(lab, leases) as box:
        answered = ReportedIdentities(lab)
        answered.instrument(name, box.identity)
        lease = leases.take(frozenset().union(*(part_of(lab, name, p) for p in ports)), "lumion")
        lease.widen(answered.resources(lease.resources))
        return lease


def test_a_switch_has_one_owner_under_any_name_and_protocol(box_of_serial, leases, tmp_path):
    box = box_of_serial("4711")
    ours, theirs = box.lab("ocs", "polatis"), box.lab("tor", "polatis-restconf")
    lease = owner_of(ours, leases, "1", "9")
    with pytest.raises(BusyError, match=r"^ocs\.1, known here as tor\.1: held by .*: lumion"):
        connect(theirs, leases, tmp_path, "1", "11")
    with opened(theirs, leases) as untouched:
        assert untouched.rows() == []
    assert connect(theirs, leases, tmp_path, "2", "11") == {2: 11}, "other ports are nobody's"
    lease.release()
    assert connect(theirs, leases, tmp_path, "1", "12") == {1: 12, 2: 11}


@pytest.mark.parametrize("serial", ["0", "N/A", "123456", "To be filled by O.E.M.", "xxxx"])
def test_two_devices_without_serial_numbers_are_leased_separately(
    box_of_serial, leases, tmp_path, serial
):
    one, other = (box_of_serial(serial).lab(name, "polatis") for name in ("ocs", "tor"))
    lease = owner_of(one, leases, "1", "9")
    assert connect(other, leases, tmp_path, "1", "11") == {1: 11}
    lease.release()


def test_the_reported_identity_is_leased_before_the_first_change(box_of_serial, leases):
    box = box_of_serial("4711")
    ours, theirs = box.lab("ocs", "polatis"), box.lab("tor", "polatis-restconf")
    owners = []
    for lab, name in ((ours, "ocs"), (theirs, "tor")):
        guard = Guard(lab)
        guard.answered.instrument(name, Identity("Polatis", f"as {name}", "4711", "1"))
        lease = leases.take(part_of(lab, name, "1"), name)
        guard.hold(lease)
        owners.append((guard, lease, name))
    (first, _, _), (second, _, _) = owners
    first.check("ocs", [1])
    with pytest.raises(BusyError, match=r"ocs\.1, known here as tor\.1"):
        second.check("tor", [1])
    for _, lease, _ in owners:
        lease.release()


def test_ports_leased_under_another_name_are_refused(box_of_serial, leases):
    box = box_of_serial("4711")
    ours, theirs = box.lab("ocs", "polatis"), box.lab("tor", "polatis-restconf")
    other = owner_of(theirs, leases, "2", "10")
    guard = Guard(ours)
    guard.answered.instrument("ocs", Identity("Polatis", "m", "4711", "1"))
    lease = leases.take(part_of(ours, "ocs", "1"), "ours")
    guard.hold(lease)
    assert guard.held_by_others("ocs", frozenset({1, 2, 3})) == {2}
    for one in (lease, other):
        one.release()


def test_one_device_under_two_names_in_one_lab_is_refused(box_of_serial):
    lab = box_of_serial("4711").lab("ocs", "polatis")
    both = lab.model_copy(update={"switches": dict.fromkeys(("ocs", "tor"), lab.switches["ocs"])})
    answered = ReportedIdentities(both)
    who = Identity("Polatis", "m", "4711", "1")
    answered.instrument("ocs", who)
    answered.instrument("ocs", who)
    with pytest.raises(InstrumentError, match="tor: is ocs under another name: both answer as"):
        answered.instrument("tor", who)


def test_a_serial_number_in_the_lab_file_is_leased_before_the_device_answers(box_of_serial, leases):
    box = box_of_serial("4711")
    ours, theirs = box.lab("ocs", "polatis"), box.lab("tor", "polatis-restconf")
    spec = theirs.switches["tor"].model_copy(update={"identity": "4711"})
    theirs = theirs.model_copy(update={"switches": {"tor": spec}})
    lease = owner_of(ours, leases, "1", "9")
    with pytest.raises(BusyError, match=r"ocs\.1, known here as tor\.1"):
        leases.take(part_of(theirs, "tor", "1"), "theirs")
    (hit,) = leases.unlock(whole_of(theirs, "tor"), forced=True)
    assert {str(resource) for resource in hit.resources} == {"ocs.1", "ocs.9"}
    assert leases.find() == [], "what is taken under one name is taken under all"
    lease.abandon()


def test_a_serial_line_is_one_resource_under_any_link_to_it(tmp_path):
    device, link = tmp_path / "ttyUSB0", tmp_path / "usb-FTDI_0001-if00-port0"
    device.touch()
    link.symlink_to(device)
    labs = []
    for path in (device, link):
        (tmp_path / "lab.yaml").write_text(
            LAB.format(lab="l", name="ocs", driver="polatis", resource=f"ASRL{path}::INSTR")
        )
        labs.append(load_lab(tmp_path / "lab.yaml"))
    assert box_of(labs[0], "ocs") == box_of(labs[1], "ocs")
    assert needs(labs[0], ["h0"]) == needs(labs[1], ["h0"])


def test_hardware_addresses_shared_by_many_hosts_identify_no_host():
    told = ["0C:42:A1:00:00:01", "00:00:00:00:00:00", "", "52:54:00:12:34:56"]
    assert of_hardware(told) == {"hardware 0c:42:a1:00:00:01"}
