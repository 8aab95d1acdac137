"""Addresses that no fabric port of a host can have, alone or beside the others."""

from __future__ import annotations

import pytest

from testbed.schema import load_lab

FIRST = "10.0.0.1/24, tx: ocs.1"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("10.0.0.0/24", "'10.0.0.0/24' is the address of the network of 10.0.0.0/24"),
        ("10.0.0.255/24", "'10.0.0.255/24' is the broadcast address of 10.0.0.0/24"),
        ("10.0.0.3/30", "'10.0.0.3/30' is the broadcast address of 10.0.0.0/30"),
        ("224.0.0.1/24", "'224.0.0.1/24' is a multicast address"),
        ("0.0.0.1/24", "'0.0.0.1/24' is a reserved address"),
        ("250.0.0.1/24", "'250.0.0.1/24' is a reserved address"),
    ],
)
def test_an_ip_address_that_no_host_can_have_is_refused(refused_lab, address, words):
    (said,) = refused_lab("10.0.0.1/24", address)
    assert said == f"f:9:38: hosts.h0.ports.p0.address: {words}; a port needs an address of a host"


def test_two_masks_on_one_network_are_refused_at_the_narrower_one(refused_lab):
    one, other = refused_lab(FIRST, FIRST.replace("/24", "/16"))
    assert one == (
        "f:10:38: hosts.h0.ports.p1.address: the network 10.0.1.0/24 is part of 10.0.0.0/16, in "
        "which other ports are; write one prefix length for both; 10.0.0.0/16 is at f:9:38"
    )
    assert other.startswith("f:15:38: hosts.h1.ports.p0.address: the network 10.0.0.0/24 is part")


def test_separate_networks_may_have_different_masks(tmp_path, lab_text):
    text = lab_text.replace("10.0.1.1/24", "10.0.1.0/31")
    (tmp_path / "lab").write_text(text)
    assert str(load_lab(tmp_path / "lab").hosts["h0"].ports["p1"].address) == "10.0.1.0/31"
