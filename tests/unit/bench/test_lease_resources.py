"""What an experiment must hold of a lab, by whatever name the lab file gives it."""

import pytest

from testbed.bench.lease_resources import named, needs, part_of, whole_of
from testbed.errors import UsageError
from testbed.record.lease_rules import Resource, ResourceIndex
from testbed.schema import load_lab

LAB = """\
lab: mixed
hosts:
  h0: {ssh: "me@GPU-0:2222", power: pdu.1, ports: {p0: PORT0}}
  h1: {ssh: gpu-1, power: pdu.2, ports: {p0: PORT1}}
  h2: {ssh: gpu-2, ports: {p0: PORT2}}
  h3: {ssh: gpu-3, ports: {p0: PORT3}}
switches:
  ocs: {driver: polatis, resource: "TCPIP0::192.0.2.10::5025::SOCKET", ports: [1-16]}
  tty: {driver: polatis, resource: "ASRL/dev/ttyUSB0::INSTR", ports: [1-16]}
  mesh: {driver: photonic-mesh, resource: "tcp://192.0.2.20:7000", ports: [1-16]}
power:
  pdu: {driver: redfish, resource: "https://192.0.2.11"}
"""
URL = "tcp://192.0.2.10:5025"
ENDS = (
    "tx: ocs.1, rx: ocs.9",
    "tx: ocs.2, rx: ocs.10",
    "tx: tty.3, rx: tty.11",
    "tx: mesh.4, rx: mesh.12",
)


@pytest.fixture
def read(tmp_path):
    """Return the lab that a text describes."""

    def read(text):
        for number, ends in enumerate(ENDS):
            port = f"{{interface: e, address: 10.0.0.{number + 1}/8, {ends}}}"
            text = text.replace(f"PORT{number}", port)
        (tmp_path / "lab.yaml").write_text(text)
        return load_lab(tmp_path / "lab.yaml")

    return read


@pytest.fixture
def lab(read):
    return read(LAB)


def names(resources):
    return {str(resource) for resource in resources}


def test_an_experiment_leases_only_its_hosts_their_ports_and_outlets(lab):
    assert names(needs(lab, ["h0"])) == {"h0", "ocs.1", "ocs.9", "pdu.1"}
    first, second = needs(lab, ["h0"]), needs(lab, ["h1"])
    assert not ResourceIndex(first).overlapping(second)


def test_a_device_that_cannot_be_shared_is_leased_as_a_whole(lab):
    assert names(needs(lab, ["h2", "h3"])) == {"h2", "h3", "tty", "mesh"}
    assert names(needs(lab, ["h2"], ["ocs"])) == {"h2", "tty", "ocs"}


def test_a_device_is_identified_by_its_address_instead_of_its_name(lab, read):
    renamed = LAB.replace("  ocs: {", "  tor: {").replace("TCPIP0::192.0.2.10::5025::SOCKET", URL)
    theirs = read(renamed.replace("{p0: PORT0}", "{}").replace("{p0: PORT1}", "{}"))
    assert part_of(theirs, "tor", "1") == part_of(lab, "ocs", "1")
    assert names(part_of(theirs, "tor", "1")) == {"tor.1"}


def test_a_host_is_identified_by_its_address_for_any_user(lab):
    assert Resource("gpu-0:2222") in needs(lab, ["h0"])
    assert Resource("gpu-1:22") in needs(lab, ["h1"])


def test_hosts_devices_ports_and_outlets_can_be_named_for_a_lock(lab):
    assert names(named(lab, ["h1", "ocs.7", "pdu.2", "mesh.4", "ocs"])) == {
        *("h1", "ocs.7", "pdu.2", "mesh", "ocs")
    }
    assert names(named(lab, ["ocs.7-9", "pdu.1-2"])) == {
        *("ocs.7", "ocs.8", "ocs.9", "pdu.1", "pdu.2")
    }
    assert named(lab, ["tty.5"]) == whole_of(lab, "tty")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("h9", "known: h0, h1"),
        ("osc.1", "did you mean 'ocs'"),
        ("ocs.17", "has no '17'"),
        ("pdu.9", "has no '9'"),
        ("h0.p0", "is not a host, instrument, port or outlet"),
        ("ocs.", "has no ''"),
        ("ocs.15-18", "has no '17'"),
        ("ocs.0-3", "has no '0'"),
        ("ocs.5-3", "has no '5-3'"),
    ],
)
def test_an_unknown_resource_is_refused_with_the_nearest_name(lab, word, hint):
    with pytest.raises(UsageError) as refusal:
        named(lab, [word])
    assert hint in str(refusal.value)
