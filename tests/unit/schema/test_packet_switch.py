"""Packet switches in a lab file."""

import pytest

from testbed.errors import FileError
from testbed.fabric.circuits import HostPort, SwitchPort
from testbed.schema import load_lab

LAB = """\
lab: bench
hosts:
  h0:
    ssh: h0
    ports:
      p0: {interface: eth1, address: 10.0.0.1/24, packet: tor.1}
      p1: {interface: eth2, address: 10.0.0.2/24, packet: tor.2}
packet_switches:
  tor: {ports: [1-4]}
"""


@pytest.fixture
def lab(tmp_path):
    def lab(old="", new=""):
        assert not old or LAB.count(old) == 1, old
        (tmp_path / "f").write_text(LAB.replace(old, new) if old else LAB)
        return load_lab(tmp_path / "f")

    return lab


def test_a_port_on_a_packet_switch_has_a_switch_port_and_no_fibres(lab):
    found = lab()
    assert found.plugged() == {
        HostPort("h0", "p0"): SwitchPort("tor", 1),
        HostPort("h0", "p1"): SwitchPort("tor", 2),
    }
    assert found.wiring() == {}
    assert found.ports() == {"h0": ()}
    assert found.hosts["h0"].ports_on("packet") == ("p0", "p1")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "packet: tor.2",
            "packet: tar.2",
            "tar.2 is on no packet switch of this lab; did you mean",
        ),
        (
            "packet: tor.2",
            "packet: tor.5",
            "tor.5 is not among the listed ports of packet switch tor; add it to",
        ),
        ("packet: tor.2", "packet: tor.1", "tor.1 is plugged in twice; first at"),
        ("packet: tor.2", "tx: tor.2, packet: tor.3", "expected both tx and rx, or bidi or packet"),
        ("packet: tor.2", "packet: tor.2, max_dbm: 3 dBm", "receives no light that max_dbm"),
        ("packet: tor.2", "bidi: tor.2", "tor.2 is on no switch of this lab"),
        (
            "[1-4]}",
            "[1-4]}\npower: {tor: {driver: redfish, resource: 'https://x'}}",
            "tor names two",
        ),
    ],
)
def test_an_invalid_packet_switch_port_is_refused_at_its_place(lab, old, new, error):
    with pytest.raises(FileError) as refused:
        lab(old, new)
    assert error in str(refused.value)
