"""What the kernel says of a host's ports: addresses of makers, links that they depend on."""

import pytest

from testbed.onhost.agent.ports import card_addresses, depends_on_another_link


@pytest.fixture
def ports(tmp_path):
    """Return a directory as the kernel's, and a function that puts a port into it."""
    root = tmp_path / "net"
    root.mkdir()

    def port(name, address, bus=""):
        (root / name).mkdir()
        (root / name / "address").write_text(f"{address}\n")
        if bus:
            (tmp_path / "bus" / bus).mkdir(parents=True, exist_ok=True)
            (root / name / "device").mkdir()
            (root / name / "device" / "subsystem").symlink_to(tmp_path / "bus" / bus)

    port.root = root
    return port


def test_card_addresses_leave_out_virtual_and_usb_ports(ports):
    ports("lo", "00:00:00:00:00:00")
    ports("eth1", "0c:42:a1:00:00:02", "pci")
    ports("eth0", "0c:42:a1:00:00:01", "pci")
    ports("eth2", "52:54:00:12:34:56", "virtio")
    ports("vf0", "3e:11:22:33:44:55", "pci")
    ports("bmc", "18:66:da:00:00:01", "usb")
    ports("docker0", "02:42:00:00:00:01")
    ports("ib0", "", "pci")
    assert card_addresses(ports.root) == ["0c:42:a1:00:00:01", "0c:42:a1:00:00:02"]


def test_a_host_without_network_cards_has_no_card_addresses(tmp_path):
    assert card_addresses(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("number", "other", "depends"), [("7", "7", False), ("7", "12", True), ("7", "", False)]
)
def test_a_port_depends_on_another_link_by_its_iflink(ports, number, other, depends):
    ports("eth1", "02:42:00:00:00:01")
    (ports.root / "eth1" / "ifindex").write_text(f"{number}\n")
    if other:
        (ports.root / "eth1" / "iflink").write_text(f"{other}\n")
    assert depends_on_another_link("eth1", ports.root) == depends
    assert not depends_on_another_link("none", ports.root)
