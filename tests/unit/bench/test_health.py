"""Health before a run: each trouble is a sentence with what to do, and a healthy lab has none."""

import re
import time
from types import SimpleNamespace

import pytest

from testbed.bench.health import troubles_of_host, troubles_of_light, troubles_of_results
from testbed.clock import Deadline
from testbed.fabric.reading import DARK, NOT_CONNECTED, NOT_MEASURED, measured
from testbed.schema import load_lab

LAB = """\
lab: small
hosts:
  h0: {ssh: h0, ports: {p0: {interface: eth1, address: 10.0.0.1/24, tx: ocs.1, rx: ocs.17}}}
  h1: {ssh: h1, ports: {p0: {interface: eth1, address: 10.0.0.2/24, tx: ocs.2, rx: ocs.18}}}
  h2: {ssh: h2, ports: {p0: {interface: eth1, address: 10.0.0.3/24, tx: ocs.3, rx: ocs.19}}}
switches: {ocs: {driver: polatis, resource: "TCPIP::192.0.2.10::5025::SOCKET", ports: [1-32]}}
"""


def facts(**changes):
    return {"time": time.time(), "free": 10**12, "leftovers": ()} | changes


def test_a_healthy_host_has_no_findings():
    assert list(troubles_of_host(facts())) == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"time": time.time() + 3600}, "s ahead of ours: start NTP"),
        ({"time": time.time() - 3600}, "s behind ours: start NTP"),
        ({"free": 10 * 2**20}, "has 10 MiB left: free some"),
        ({"leftovers": [{"run": "R1", "recorded": ["ranks"]}]}, "dead agent of run R1 .*recover"),
    ],
)
def test_each_problem_of_a_host_is_reported_with_a_hint(wrong, words):
    (trouble,) = troubles_of_host(facts(**wrong))
    assert re.search(words, trouble), trouble


class Monitors:
    """A switch that measures the light of some ports."""

    def __init__(self, levels, monitored=range(1, 33)):
        ingress = frozenset(range(1, 17))
        self.capabilities = SimpleNamespace(monitored=frozenset(monitored), ingress=ingress)
        self._levels = levels
        self.asked = []

    def power(self, ports, deadline):
        self.asked += ports
        return {port: self._levels.get(port, NOT_MEASURED) for port in ports}


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB)
    return load_lab(tmp_path / "lab.yaml")


def test_a_port_without_light_is_named_and_only_ports_of_hosts_are_measured(lab):
    switch = Monitors({1: measured(-1.0), 2: DARK, 3: DARK})
    (trouble,) = troubles_of_light(lab, "ocs", switch, ["h0", "h1"], Deadline.after(1))
    assert trouble.startswith("no light of h1.p0 enters at port 2: is the host on")
    assert switch.asked == [1, 2]


def test_a_port_measurable_only_in_a_circuit_is_not_reported_dark(lab):
    switch = Monitors({1: NOT_CONNECTED, 2: NOT_MEASURED, 3: measured(-1.0)})
    assert list(troubles_of_light(lab, "ocs", switch, ["h0", "h1"], Deadline.after(1))) == []


def test_a_switch_without_monitors_is_not_queried(lab):
    switch = Monitors({}, monitored=())
    assert list(troubles_of_light(lab, "ocs", switch, list(lab.hosts), Deadline.after(1))) == []
    assert switch.asked == []


def test_a_nearly_full_disk_is_reported_for_a_directory_that_does_not_exist_yet(
    tmp_path, monkeypatch
):
    place = tmp_path / "not" / "yet"
    assert list(troubles_of_results(place)) == []
    monkeypatch.setattr("testbed.bench.health._NEEDED", 2**80)
    (trouble,) = troubles_of_results(place)
    assert "left: free some, or choose another place with --results" in trouble
    assert not place.exists()


def test_power_at_an_output_is_not_taken_for_the_power_of_a_transmitter(tmp_path):
    text = (
        "lab: single\n"
        "hosts:\n"
        "  h0: {ssh: h0, ports: {p0: {interface: e, address: 10.0.0.1/24, bidi: ocs.1}}}\n"
        "  h1: {ssh: h1, ports: {p0: {interface: e, address: 10.0.0.2/24, bidi: ocs.17}}}\n"
        'switches: {ocs: {driver: polatis, resource: "tcp://h:1", size: [16, 16], ports: [1-32]}}\n'
    )
    (tmp_path / "lab.yaml").write_text(text)
    switch = Monitors({1: DARK, 17: DARK})
    lab = load_lab(tmp_path / "lab.yaml")
    (said,) = troubles_of_light(lab, "ocs", switch, ["h0", "h1"], Deadline.after(1))
    assert said.startswith("no light of h0.p0 enters at port 1")
