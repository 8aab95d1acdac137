"""Everything in a lab is asked how it is, and each finding says what to do."""

import pytest

from testbed.bench.doctor import examine
from testbed.bench.sites import SwitchSite
from testbed.fabric.device import spans
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from testbed_drivers.switches.switch import sides

LAB = """\
lab: bench
hosts:
  h0: {{ssh: "127.0.0.1:1", ports: {{p0: {{interface: e, address: 10.0.0.1/8, {fibres}}}}}}}
switches:
  ocs: {{driver: polatis, resource: "tcp://127.0.0.1:{port}", ports: [1-16]}}
"""


@pytest.fixture
def examined(tmp_path):
    """Return a way to examine a lab with an 8 × 8 switch; its host never answers."""
    scheduler = WallScheduler()
    site = SwitchSite(*sides(8, 8), "S1", 0.001, 1, scheduler, lambda lit: None)
    wires = []

    def examined(fibres, serial="S1"):
        file = tmp_path / "lab.yaml"
        site.serial = serial
        wire = serve_tcp(PolatisFarEnd(site))
        wires.append(wire)
        file.write_text(LAB.format(port=wire.port, fibres=fibres))
        return {finding.subject: finding for finding in examine(load_lab(str(file)))}

    yield examined
    for wire in wires:
        wire.close()
    scheduler.close()


def test_a_host_that_does_not_answer_does_not_hide_a_switch_that_does(examined):
    found = examined("tx: ocs.1, rx: ocs.9")
    assert found["ocs"].good
    assert found["ocs"].text.endswith("serial S1, firmware 6.5.2.18; 0 cross-connects")
    assert not found["h0"].good


def test_a_switch_without_a_serial_number_is_reported_as_identified_by_its_address(examined):
    found = examined("tx: ocs.1, rx: ocs.9", serial="123456")["ocs"]
    assert found.good
    assert (
        "; it has no serial number of its own, so it is leased by its address alone;" in found.text
    )


@pytest.mark.parametrize(
    ("fibres", "words"),
    [
        ("tx: ocs.9, rx: ocs.10", "h0.p0 sends into ocs.9, but light enters this switch at 1-8"),
        ("tx: ocs.1, rx: ocs.2", "h0.p0 receives from ocs.2, but light leaves this switch at 9-16"),
    ],
)
def test_a_fibre_on_a_port_of_the_wrong_side_is_found(examined, fibres, words):
    found = examined(fibres)["ocs"]
    assert not found.good
    assert found.text.startswith(words)
    assert "correct the lab file" in found.text


@pytest.mark.parametrize(
    ("ports", "text"), [((), ""), ((3,), "3"), ((1, 2, 3, 7), "1-3, 7"), ((9, 1, 8), "1, 8-9")]
)
def test_ports_are_named_as_a_lab_file_lists_them(ports, text):
    assert spans(ports) == text
