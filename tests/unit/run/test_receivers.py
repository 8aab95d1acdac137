"""Receivers that a twin says were destroyed: written down once; a run that needs one is refused."""

import pytest

from testbed.errors import LabError
from testbed.fabric.circuits import HostPort
from testbed.record.log import EventLog, read_events
from testbed.run.light_watch import Receivers
from testbed.schema import load_lab
from testbed.twin.light import Light

LAB = """\
lab: bench
hosts:
  h0:
    ssh: h0
    ports: {p0: {interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.5}}
  h1:
    ssh: h1
    ports: {p0: {interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.6, max_dbm: -3 dBm}}
switches: {ocs: {driver: polatis, resource: "tcp://192.0.2.10:5025", ports: [1-8]}}
"""


class TwinLight:
    """What a twin answers of its light."""

    def __init__(self, light):
        self._light = light
        self.asked = 0

    def destroyed(self):
        self.asked += 1
        return [
            {"at": one.t, "port": str(one.port), "dbm": one.dbm} for one in self._light.destroyed
        ]


@pytest.fixture
def around(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB)
    lab = load_lab(tmp_path / "lab.yaml")
    log = EventLog(tmp_path / "events.jsonl")
    yield lab, log
    log.close()


def lit(lab, now):
    """Return the light of a twin of a lab, whose clock says `now`."""

    class Clock:
        def now(self):
            return now

    return Light(lab.wiring(), {}, None, Clock(), 0.0, {})


def test_a_destroyed_receiver_is_recorded_once_and_ends_the_run(around, tmp_path):
    lab, log = around
    light = lit(lab, log.started + 2.5)
    receivers = Receivers(lab, TwinLight(light), log)
    receivers.refuse_destroyed(["h0", "h1"])
    receivers.note()
    light.receiver_is_destroyed("ocs", 6, 1.25)
    with pytest.raises(
        LabError, match=r"of h1\.p0 was destroyed: it got 1\.2 dBm and withstands -3 dBm"
    ):
        receivers.note()
    receivers.note()
    (event,) = read_events(tmp_path / "events.jsonl")
    assert (event.kind, event.subject, event.t) == ("receiver.destroyed", "h1.p0", 2.5)
    assert event.data == {"dbm": 1.25, "max_dbm": -3.0}


def test_a_run_that_uses_a_destroyed_receiver_is_refused(around, tmp_path):
    lab, log = around
    light = lit(lab, log.started)
    light.receiver_is_destroyed("ocs", 6, 1.25)
    with pytest.raises(LabError, match=r"destroyed in this twin by 1\.2 dBm: .*down and up again"):
        Receivers(lab, TwinLight(light), log).refuse_destroyed(["h0", "h1"])
    elsewhere = Receivers(lab, TwinLight(light), log)
    elsewhere.refuse_destroyed(["h0"])
    elsewhere.note()
    assert list(read_events(tmp_path / "events.jsonl")) == []
    assert light.destroyed[0].port == HostPort("h1", "p0")


def test_the_twin_is_not_queried_for_receivers_without_a_limit(around):
    lab, log = around
    without = lab.model_copy(update={"hosts": {"h0": lab.hosts["h0"]}})
    twin = TwinLight(lit(lab, 0.0))
    receivers = Receivers(without, twin, log)
    receivers.refuse_destroyed(["h0"])
    receivers.note()
    assert twin.asked == 0
    Receivers(lab, None, log).note()
