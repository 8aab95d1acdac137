"""What every act on a lab asks before it is done: the lab's file, and the lease as it is then."""

import pytest

from testbed.bench.lease_resources import host_of, needs, part_of, whole_of
from testbed.bench.permission import FENCE, Guard
from testbed.errors import BusyError, UsageError
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.schema import load_lab

LAB = """\
lab: small
hosts:
  h0:
    ssh: h0
    power: pdu.1
    ports: {p0: {interface: eth1, address: 10.0.0.1/24, tx: ocs.1, rx: ocs.5}}
  h1:
    ssh: h1
    power: pdu.2
    allow: [rank-kill]
    fence: [process]
    ports: {p0: {interface: eth1, address: 10.0.0.2/24, tx: ocs.2, rx: ocs.6}}
  h2:
    ssh: h2
    ports: {p0: {interface: eth1, address: 10.0.0.3/24, tx: ocs.3, rx: ocs.7}}
switches:
  ocs: {driver: polatis, resource: "TCPIP::192.0.2.10::5025::SOCKET", ports: [1-8]}
power:
  pdu: {driver: redfish, resource: "https://192.0.2.11"}
attenuators:
  voa: {driver: keysight-voa, resource: "TCPIP::192.0.2.12::5025::SOCKET", fibres: {1: ocs.1}}
allow: [rank-kill, power-cut, attenuate]
fence: [power, process]
"""


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB)
    return load_lab(tmp_path / "lab.yaml")


@pytest.fixture
def leases(tmp_path):
    return Leases(FileStore(tmp_path / "leases.sqlite"))


@pytest.fixture
def guard(lab, leases):
    guard = Guard(lab)
    guard.hold(lease := leases.take(needs(lab, ["h0", "h1"], ["voa"]), "test"))
    yield guard
    lease.release()


ACTS = {
    "circuits": lambda guard: guard.check("ocs", [1, 5]),
    "a far end": lambda guard: guard.check("ocs", ()),
    "power on": lambda guard: guard.outlet("h0"),
    "power off": lambda guard: guard.outlet("h0", "power-cut"),
    "fence by power": lambda guard: guard.outlet("h0", FENCE),
    "fence": lambda guard: guard.fence("h0", "process"),
    "attenuator": lambda guard: guard.attenuator("voa"),
    "attenuation": lambda guard: guard.attenuator("voa", "h0", "attenuate"),
    "fault": lambda guard: guard.fault("rank-kill", "h0"),
    "agent": lambda guard: guard.host("h0"),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_permitted_change_of_leased_resources_is_allowed(guard, act):
    ACTS[act](guard)


@pytest.mark.parametrize("act", ACTS)
def test_no_change_is_permitted_before_a_lease(lab, act):
    with pytest.raises(BusyError, match="is leased"):
        ACTS[act](Guard(lab))


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("taken", ["port", "outlet", "host", "attenuator"])
def test_no_change_is_permitted_once_a_leased_part_is_revoked(guard, lab, leases, act, taken):
    part = {
        "port": part_of(lab, "ocs", "6"),
        "outlet": part_of(lab, "pdu", "2"),
        "host": host_of(lab, "h1"),
        "attenuator": whole_of(lab, "voa"),
    }[taken]
    leases.unlock(part, forced=True)
    with pytest.raises(BusyError, match="the lease of this run is lost"):
        ACTS[act](guard)


@pytest.mark.parametrize(
    "act",
    [
        lambda guard: guard.check("ocs", [3]),
        lambda guard: guard.host("h2"),
    ],
)
def test_changes_of_resources_not_leased_are_refused(guard, act):
    with pytest.raises(BusyError, match="is not leased by this run"):
        act(guard)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda guard: guard.outlet("h1", "power-cut"), "does not permit power-cut on h1"),
        (lambda guard: guard.outlet("h1", FENCE), "does not permit a fence of h1 by power"),
        (lambda guard: guard.fence("h0", "network"), "does not permit a fence of h0 by network"),
        (lambda guard: guard.fence("h2", "power"), "does not permit a fence of h2 by power"),
        (lambda guard: guard.fault("rank-freeze", "h0"), "does not permit rank-freeze on h0"),
        (lambda guard: guard.attenuator("voa", "h1", "attenuate"), "does not permit attenuate"),
    ],
)
def test_a_fault_that_the_lab_file_forbids_is_refused_despite_a_lease(guard, act, said):
    with pytest.raises(UsageError, match=said):
        act(guard)


def test_an_undo_is_permitted_whatever_the_lab_file_permits(guard):
    guard.outlet("h1")
    guard.attenuator("voa")
