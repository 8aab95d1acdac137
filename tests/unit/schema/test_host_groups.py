"""Hosts that are alike, written once: ranges of hosts, and defaults of all of them."""

from __future__ import annotations

import pytest

from testbed.errors import FileError
from testbed.schema import load_lab
from testbed.schema.host_groups import expanded
from testbed.schema.load import read_source

LAB = """\
lab: bench
defaults: {hosts: {privilege: sudo, env: {NCCL_DEBUG: INFO, NCCL_SOCKET_IFNAME: mgmt0}}}
hosts:
  gpu-[1-3]:
    ssh: lab@192.0.2.<n+20>
    ports:
      p0: {interface: eth1, address: 10.0.0.<2n>/24, tx: ocs.<n>, rx: ocs.<n+16>}
  gpu-2:
    env: {NCCL_DEBUG: WARN}
    ports: {p0: {max_dbm: -3 dBm}}
  spare: {ssh: spare, privilege: none}
switches:
  ocs: {driver: polatis, resource: "TCPIP::192.0.2.10::5025::SOCKET", ports: [1-32]}
"""


@pytest.fixture
def lab(tmp_path):
    def load(*changes, overrides=()):
        text = LAB
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "lab.yaml").write_text(text)
        return load_lab(tmp_path / "lab.yaml", overrides)

    return load


def refused(lab, *changes, **more):
    with pytest.raises(FileError) as error:
        lab(*changes, **more)
    found = error.value
    return [str(one).split("lab.yaml:", 1)[1] for one in (found, *getattr(found, "others", ()))]


def test_a_lab_file_with_groups_has_the_same_hosts_as_one_without():
    serial, rack = (load_lab(f"configs/{name}.yaml") for name in ("serial-rack", "rack"))
    assert serial.hosts == rack.hosts
    assert list(serial.hosts) == list(rack.hosts)


def test_a_group_of_hosts_expands_to_one_host_for_each_number(lab):
    hosts = lab().hosts
    assert list(hosts) == ["gpu-1", "gpu-2", "gpu-3", "spare"]
    third = hosts["gpu-3"]
    assert third.ssh == "lab@192.0.2.23"
    port = third.ports["p0"]
    assert (str(port.address), str(port.tx), str(port.rx)) == ("10.0.0.6/24", "ocs.3", "ocs.19")


def test_settings_of_a_host_override_its_group_and_the_defaults(lab):
    second = lab().hosts["gpu-2"]
    assert second.env == {"NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "mgmt0"}
    assert (second.ports["p0"].max_dbm, str(second.ports["p0"].tx)) == (-3.0, "ocs.2")
    assert (second.privilege, lab().hosts["spare"].privilege) == ("sudo", "none")


def test_numbers_in_a_host_range_keep_leading_zeros(lab):
    hosts = lab(("gpu-[1-3]", "n[08-10]x"), ("gpu-2", "n09x")).hosts
    assert list(hosts) == ["n08x", "n09x", "n10x", "spare"]
    assert hosts["n08x"].ssh == "lab@192.0.2.28"


def test_an_override_can_change_one_host_of_a_group(lab):
    hosts = lab(overrides=["lab.hosts.gpu-3.ssh=other"]).hosts
    assert (hosts["gpu-3"].ssh, hosts["gpu-1"].ssh) == ("other", "lab@192.0.2.21")
    assert str(hosts["gpu-3"].ports["p0"].tx) == "ocs.3"


def test_a_mistake_in_a_group_is_reported_at_its_place(lab):
    assert refused(lab, ("rx: ocs.<n+16>", "rx: ocs.<n+99>"))[0] == (
        "7:71: hosts.gpu-1.ports.p0.rx: ocs.100 is not among the listed ports of switch ocs; "
        "add it to switches.ocs.ports"
    )
    (said,) = refused(lab, ("{max_dbm: -3 dBm}", "{max_dbm: -3 dB}"))
    assert said.startswith("10:27: hosts.gpu-2.ports.p0.max_dbm: ")
    assert refused(lab, ("<2n>", "<2m>"))[0].startswith("7:38: hosts.gpu-1.ports.p0.address: ")
    repeated = refused(lab, ("ocs.<n>,", "ocs.1,"))
    assert repeated[0].startswith("7:58: hosts.gpu-2.ports.p0.tx: ocs.1 is wired twice; first at ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("privilege: sudo", "privilege: sud"), "2:31: defaults.hosts.privilege: unknown word"),
        (("privilege: sudo", "ssh: h0"), "2:20: defaults.hosts.ssh: no such key"),
        (("gpu-[1-3]", "gpu-[3-1]"), "4:3: hosts.gpu-[3-1]: the range 3-1 ends before it begins"),
        (
            ("gpu-[1-3]", "gpu-[0-9999]"),
            "4:3: hosts.gpu-[0-9999]: this group makes more than 50000",
        ),
        (
            ("  spare: {", "  gpu-[3-4]: {ssh: x<n>}\n  spare: {"),
            "11:3: hosts.gpu-[3-4]: host gpu-3 is also in the group gpu-[1-3]",
        ),
        (("gpu-[1-3]", "gpu-[1-x]"), "4:3: hosts.gpu-[1-x]: 'gpu-[1-x]' is not a name"),
        (("  gpu-2:", "  gpu-7:"), "8:3: hosts.gpu-7: the key 'ssh' is missing"),
    ],
)
def test_an_invalid_group_is_refused_once_at_its_place(lab, change, words):
    assert any(one.startswith(words) for one in refused(lab, change)), refused(lab, change)


def test_expanding_expanded_hosts_changes_nothing(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB)
    once = expanded(read_source(tmp_path / "lab.yaml"))
    assert expanded(once) == once
