"""Receivers that withstand only so much light, in changes of the fabric over real lines."""

import threading
from time import sleep

import pytest

from testbed.clock import now
from testbed.errors import LabError
from testbed.fabric.circuits import Circuit, CrossConnect
from testbed.fabric.light import LightLimits
from testbed.run.light_watch import LightWatch
from tests.unit.bench.optical_rig import Rack, soon

ONE, OTHER = Circuit.parse("h0.p1", "h1.p0"), Circuit.parse("h1.p1", "h2.p0")
CROSSED, OTHER_CROSSED = {2: 19, 3: 18}, {4: 21, 5: 20}
LIMITS = {"ocs": LightLimits({19: -3.0}, launch={2: -3.0})}


class Bench:
    """A rack with a limited receiver at h1.p0, and the light that its hosts send."""

    def __init__(self, directory):
        self.rack = Rack(directory, limits=LIMITS, monitors=True)
        self.light = dict.fromkeys(range(1, 17), -6.0)
        self.rack.sites["ocs"].launched = lambda port: self.light.get(port)
        self.stops = []
        self.rack.fabric.adopt({}, soon())

    def change(self, *circuits):
        return self.rack.fabric.set_circuits("job", frozenset(circuits), soon())

    def shine(self, port, dbm):
        self.light[port] = dbm
        self.rack.sites["ocs"].look_again()

    def readings(self):
        return sum("PMON" in line for line, _ in self.rack.sent)

    def watch(self):
        return LightWatch(self.rack.fabric, self.rack.log, self.stops.append, each=0.01)

    def until(self, true):
        end = now() + 10
        while not true():
            assert now() < end
            sleep(0.005)


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.rack.close()


def test_the_power_of_a_dark_spare_is_measured_before_its_port_is_used(bench):
    bench.light[2] = None
    bench.change(ONE)  # its launch is in the lab file
    bench.change()
    bench.shine(2, 5.0)
    with pytest.raises(
        LabError, match=r"port 19 withstands -3 dBm and could get 5\.5 .*h1\.p0 is behind"
    ):
        bench.change(ONE)
    assert bench.rack.shown() == {}


def test_a_too_strong_source_switched_on_in_a_circuit_is_disconnected_and_ends_the_run(bench):
    bench.light[2] = None
    bench.change(ONE, OTHER)
    watch = bench.watch()
    sleep(0.1)
    assert bench.stops == []
    bench.shine(2, 4.0)
    bench.until(lambda: bench.stops)
    watch.end()
    assert bench.rack.shown() == OTHER_CROSSED
    assert bench.rack.fabric.circuits == {OTHER}
    (stop,) = bench.stops
    assert isinstance(stop, LabError)
    assert str(stop).startswith("port 19 withstands -3 dBm and ")
    assert "dBm leave; h1.p0 is behind it; its circuit was taken down" in str(stop)
    (event,) = (event for event in bench.rack.events() if event.kind == "light.excess")
    assert event.subject == str(CrossConnect("ocs", 2, 19))


def test_a_circuit_that_cannot_be_removed_is_reported(bench):
    bench.light[2] = None
    bench.change(ONE)
    bench.rack.far_ends["ocs"].fault("error", command="SUB")
    bench.shine(2, 4.0)
    bench.watch()
    bench.until(lambda: bench.stops)
    assert "its circuit could not be taken down: ocs" in str(bench.stops[0])


def test_light_that_cannot_be_measured_for_a_while_is_noted_once(bench):
    bench.change(ONE)
    bench.rack.far_ends["ocs"].fault("silent", command="PMON")
    watch = bench.watch()
    bench.until(lambda: any(event.kind == "note" for event in bench.rack.events()))
    bench.rack.far_ends["ocs"].clear()
    before = bench.readings()
    bench.until(lambda: bench.readings() > before + 3)
    watch.end()
    assert [event.kind for event in bench.rack.events()].count("note") == 1
    assert bench.stops == []


def test_no_power_is_measured_where_no_receiver_has_a_limit(tmp_path):
    rack = Rack(tmp_path, limits={"ocs": LightLimits(launch={2: 9.0})}, monitors=True)
    rack.fabric.adopt({}, soon())
    opened = sum("PMON" in line for line, _ in rack.sent)
    watch = LightWatch(rack.fabric, rack.log, lambda problem: None, each=0.01)
    assert "light" not in {thread.name for thread in threading.enumerate()}
    watch.end()
    rack.close()
    assert opened == 2, "the two sides, when it was opened"
