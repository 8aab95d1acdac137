"""Attenuators and power meters in the lab file: what it says, and how it can be wrong."""

from __future__ import annotations

import pytest

from testbed.errors import FileError
from testbed.fabric.circuits import SwitchPort
from testbed.schema.json_schema import json_schema

LAB = """\
lab: bench
hosts:
  h0:
    ssh: h0
    ports: {p0: {interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.5, launch: -2 dBm}}
  h1:
    ssh: h1
    ports: {p0: {interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.6}}
switches:
  ocs: {driver: polatis, resource: "tcp://192.0.2.10:5025", ports: [1-8]}
attenuators:
  voa: {driver: keysight-voa, resource: "tcp://192.0.2.12:5025", fibres: {1: ocs.1, 2: ocs.6}}
meters:
  opm: {driver: keysight-meter, resource: "tcp://192.0.2.13:5025", taps: {1: ocs.1}, floor: -70 dBm}
twin: {sensitivity: -20 dBm}
"""


def test_optical_settings_of_a_lab_are_read_from_its_file(read_lab):
    lab = read_lab(LAB)
    assert lab.hosts["h0"].ports["p0"].launch == -2.0
    assert lab.hosts["h1"].ports["p0"].launch is None, "nobody has said it"
    assert lab.attenuators["voa"].fibres == {1: SwitchPort("ocs", 1), 2: SwitchPort("ocs", 6)}
    assert lab.meters["opm"].taps == {1: SwitchPort("ocs", 1)}
    assert lab.meters["opm"].options.floor == -70.0
    assert lab.twin.sensitivity == -20.0
    assert lab.attenuated() == {SwitchPort("ocs", 1): ("voa", 1), SwitchPort("ocs", 6): ("voa", 2)}
    assert list(lab.instruments()) == ["ocs", "voa", "opm"]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("-2 dBm", "-2", "h0.ports.p0.launch: -2 is not a power level: write it as '-3 dBm'"),
        ("-2 dBm", "2 dB", "h0.ports.p0.launch: '2 dB' is not a power level"),
        ("{1: ocs.1, 2", "{0: ocs.1, 2", "voa.fibres.0: '0' is not a channel number from 1 to 999"),
        ("{1: ocs.1, 2", "{a: ocs.1, 2", "voa.fibres.a: 'a' is not a channel number"),
        ("2: ocs.6}", "2: osc.6}", "voa.fibres.2: osc.6 is on no switch of this lab; did you mean"),
        (
            "2: ocs.6}",
            "2: ocs.9}",
            "voa.fibres.2: ocs.9 is not among the listed ports of switch ocs",
        ),
        (
            "2: ocs.6}",
            "2: ocs.1}",
            "voa.fibres.2: ocs.1 runs through two attenuators; first at f:12:78",
        ),
        ("{1: ocs.1, 2: ocs.6}", "{}", "voa.fibres: expected at least 1 entry"),
        ("taps: {1: ocs.1}", "taps: {1: ocs.1, 2: ocs.1}", "opm.taps.2: ocs.1 is tapped twice"),
        ("taps: {1: ocs.1}", "taps: {1: ocs.10}", "opm.taps.1: ocs.10 is not among the listed"),
        ("taps: {1: ocs.1}", "fibres: {1: ocs.1}", "meters.opm: the key 'taps' is missing"),
        ("keysight-meter", "keysight-voa", "opm.driver: 'keysight-voa' is not one of the meter"),
        ("keysight-voa,", "polatis,", "voa.driver: 'polatis' is not one of the attenuator drivers"),
        ("  opm:", "  voa:", "meters.voa: voa names two instruments; first at f:12:"),
        ("192.0.2.13", "192.0.2.12", "opm.resource: tcp://192.0.2.12:5025 is the address of two"),
        ("-20 dBm", "-20 dB", "twin.sensitivity: '-20 dB' is not a power level"),
    ],
)
def test_wrong_optical_settings_are_reported_at_their_place(read_lab, old, new, error):
    assert LAB.count(old) >= 1
    with pytest.raises(FileError) as caught:
        read_lab(LAB.replace(old, new, 1))
    assert error in "\n".join(map(str, (caught.value, *getattr(caught.value, "others", ()))))


@pytest.mark.parametrize(
    ("twin", "error"),
    [
        (
            "{sensitivity: 20 dBm}",
            "twin.sensitivity: receivers need 20 dBm, and no port sends more than 1 dBm",
        ),
        (
            "{sensitivity: -2 dBm}",
            "twin.sensitivity: receivers need -2 dBm, and that of hosts.h0.ports.p0 withstands "
            "-3 dBm at most; set it to at most -3 dBm",
        ),
        ("{clock_drift: 900 ppm}", "twin.clock_drift: expected at most 500 ppm, got '900 ppm'"),
    ],
)
def test_a_twin_whose_receivers_can_never_get_enough_light_is_refused(read_lab, twin, error):
    text = LAB.replace("launch: -2 dBm", "launch: 1 dBm, max_dbm: -3 dBm")
    with pytest.raises(FileError) as caught:
        read_lab(text.replace("{sensitivity: -20 dBm}", twin))
    assert error in "\n".join(map(str, (caught.value, *getattr(caught.value, "others", ()))))


def test_the_json_schema_offers_drivers_and_channels_of_attenuators_and_meters():
    sections = json_schema("lab")["properties"]
    for section, mapping, driver in (
        ("attenuators", "fibres", "keysight-voa"),
        ("meters", "taps", "thorlabs-meter"),
    ):
        (entry,) = sections[section]["patternProperties"].values()
        offered = {one["title"]: one for one in entry["oneOf"]}
        assert driver in offered
        assert "polatis" not in offered
        assert list(offered[driver]["properties"][mapping]["patternProperties"]) == [
            "^[1-9][0-9]{0,2}$"
        ]
