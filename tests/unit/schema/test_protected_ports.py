"""Protected ports, light that must stay and receivers with a limit, as a lab file says them."""

from __future__ import annotations

import re

import pytest

from testbed.errors import FileError
from testbed.fabric.light import LightLimits

LAB = """\
lab: bench
hosts:
  h0:
    ssh: h0
    ports: {p0: {interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.5, max_dbm: -3 dBm}}
  h1:
    ssh: h1
    ports: {p0: {interface: e, address: 10.0.0.2/8, bidi: ocs.2, max_dbm: 1 dBm, launch: -2 dBm}}
switches:
  ocs:
    driver: toy-ocs
    resource: "tcp://192.0.2.10:5025"
    ports: [1-8]
    protected: [3, 7]
    keep_alive: [2, 5, 8]
  other: {driver: polatis, resource: "tcp://192.0.2.11:5025", ports: [1-8]}
"""


def test_power_limits_are_those_of_the_output_ports(read_lab):
    limits = read_lab(LAB).light_limits()
    assert limits["ocs"] == LightLimits({5: -3.0, 2: 1.0}, frozenset({2, 5, 8}), {}, {2: -2.0})
    assert not limits["other"]


def test_a_protected_port_is_not_usable_even_if_it_is_listed(read_lab):
    switches = read_lab(LAB).switches
    assert switches["ocs"].usable == {1, 2, 4, 5, 6, 8}
    assert switches["other"].usable == frozenset(range(1, 9))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("[3, 7]", "[1, 3]", "f:5:57: hosts.h0.ports.p0.tx: ocs.1 is a protected port, which no"),
        ("[3, 7]", "[2]", "h1.ports.p0.bidi: ocs.2 is a protected port, which no run may use; use"),
        ("[3, 7]", "[3, 3]", "ocs.protected.1: port 3 is listed twice"),
        ("[2, 5, 8]", "[9]", "ocs.keep_alive: port 9 is protected or not in `ports`"),
        ("[2, 5, 8]", "[7]", "ocs.keep_alive: port 7 is protected or not in `ports`"),
        ("[2, 5, 8]", "[1]", "ocs.keep_alive: light only enters the switch at port 1; name the"),
        ("-3 dBm", "-3 dB", "h0.ports.p0.max_dbm: '-3 dB' is not a power level"),
        ("rx: ocs.5", "rx: osc.5", "h0.ports.p0.rx: osc.5 is on no switch of this lab; did"),
        ("bidi: ocs.2", "bidi: osc.2", "h1.ports.p0.bidi: osc.2 is on no switch of this lab"),
    ],
)
def test_wrong_protections_are_reported_at_their_place(read_lab, old, new, error):
    with pytest.raises(FileError) as caught:
        read_lab(LAB.replace(old, new, 1))
    assert error in "\n".join(map(str, (caught.value, *getattr(caught.value, "others", ()))))


def test_idle_circuits_for_unused_light_are_read_from_the_lab_file(read_lab):
    text = LAB.replace("keep_alive: [2, 5, 8]", "safe: {1: 6, 4: 8}")
    assert read_lab(text).light_limits()["ocs"].safe == {1: 6, 4: 8}


@pytest.mark.parametrize(
    ("safe", "error"),
    [
        ("{1: 7}", "ocs.safe.1: port 7 is protected or not in `ports`"),
        ("{3: 5}", "ocs.safe.3: port 3 is protected or not in `ports`"),
        ("{1: 5, 4: 5}", "ocs.safe.1: port 5 is in two cross-connects of `safe`"),
        ("{1: 4, 4: 5}", "ocs.safe.1: port 4 is in two cross-connects of `safe`"),
        ("{0: 5}", "ocs.safe"),
        ("{1: 0}", "ocs.safe.1"),
        ("[1, 5]", "ocs.safe"),
        (
            "{1: 5}",
            "ocs.safe.1: the receiver at ocs.5 withstands -3 dBm, and the source at ocs.1 has no "
            "`launch`",
        ),
        (
            "{2: 5}",
            "ocs.safe.2: the receiver at ocs.5 withstands -3 dBm, and the source at ocs.2 sends "
            "-2 dBm; connect 2 to another port in `safe`",
        ),
    ],
)
def test_an_impossible_idle_circuit_is_reported_at_its_place(read_lab, safe, error):
    with pytest.raises(FileError, match=re.escape(error)):
        read_lab(LAB.replace("keep_alive: [2, 5, 8]", f"safe: {safe}"))
