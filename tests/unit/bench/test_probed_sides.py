"""Which ports of a switch are probed as ingress and which as egress."""

import pytest

from testbed.bench.conformance_probe import probed_sides, spare_ports
from testbed.errors import UsageError
from testbed.fabric.device import Capabilities
from testbed.schema import load_lab

LAB = """\
lab: one
hosts: {h0: {ssh: h0, ports: {p0: {interface: e, address: 10.0.0.1/24, bidi: ocs.6}}}}
switches: {ocs: {driver: polatis, resource: "tcp://192.0.2.1:5025", size: [8, 0], ports: [1-8]}}
"""
EVERY = frozenset(range(1, 9))
ONE_SIDE = Capabilities(EVERY, EVERY, 0.01, 0.02)


def test_on_one_side_the_two_lower_ports_are_the_ingress():
    two_sides = Capabilities(frozenset(range(1, 5)), frozenset(range(5, 9)), 0.01, 0.02)
    assert probed_sides([8, 1, 3, 2], ONE_SIDE) == ((1, 2), (3, 8))
    assert probed_sides([8, 1, 5, 2], two_sides) == ((1, 2), (5, 8))


def test_on_one_side_spare_ports_are_the_last_four_that_are_free(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB)
    lab = load_lab(tmp_path / "lab.yaml")
    assert spare_ports(lab, "ocs", ONE_SIDE, {1: 7}) == ((3, 4), (5, 8))
    with pytest.raises(UsageError, match="no two unused ingress ports and two unused egress ports"):
        spare_ports(lab, "ocs", ONE_SIDE, {1: 2, 3: 4})
