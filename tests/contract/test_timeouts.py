"""Every phase of an exchange has a limit of its own, which the lab file may raise."""

import pytest

from testbed.bench.instrument_factory import opening_seconds
from testbed.errors import NoReply
from testbed.fabric.change import Change
from testbed.schema import load_lab
from tests.contract.scripted import GREETING, IDENTITY, OPENING, Conversation, Script
from tests.contract.virtual_time import VirtualDeadline, VirtualTime

LAB = """\
lab: slow
hosts:
  h0: {ssh: h0, network: existing}
switches:
  fast: {driver: polatis, resource: "tcp://192.0.2.1:5025", ports: [1-8]}
  slow: {driver: polatis, resource: "tcp://192.0.2.2:5025", ports: [1-8], answer_timeout: 5 s}
power:
  pdu: {driver: redfish, resource: "https://192.0.2.3"}
"""


class SlowLine(Conversation):
    """A line whose other side takes its time for each answer."""

    def __init__(self, pairs, time, seconds):
        super().__init__(pairs)
        self._time, self._seconds = time, seconds

    def receive(self, end, deadline):
        self._time.advance(min(self._seconds, deadline.left))
        if deadline.passed:
            raise NoReply("ocs", "did not answer in time")
        return super().receive(end, deadline)


class SlowBox(Script):
    """A switch that takes its time to accept a connection, and for each answer."""

    def __init__(self, connecting, answering):
        super().__init__()
        self.time = VirtualTime()
        self._connecting, self._answering = connecting, answering

    def line(self, *pairs):
        self.lines.append(SlowLine(pairs, self.time, self._answering))

    def dial(self, instrument, resource, *, baud, deadline):
        self.time.advance(min(self._connecting, deadline.left))
        if deadline.passed:
            raise NoReply(instrument, "did not accept a connection in time")
        return super().dial(instrument, resource, baud=baud, deadline=deadline)

    def by(self, seconds):
        return VirtualDeadline(self.time.now() + seconds, self.time)


def test_each_reply_has_its_own_timeout_besides_that_of_connecting():
    box = SlowBox(connecting=1.9, answering=1.9)
    box.line(*OPENING)
    assert box.polatis().open(box.by(60)).serial == "S1"
    assert not box.opened[0].leftovers


def test_a_slow_reply_needs_a_longer_timeout_in_the_lab_file():
    box = SlowBox(connecting=0, answering=5)
    box.line(*OPENING)
    assert box.polatis(answer_timeout=6).open(box.by(60)).serial == "S1"
    box.line(IDENTITY)
    box.line(IDENTITY)
    driver = box.polatis()
    with pytest.raises(NoReply, match="asked for its identity"):
        driver.open(box.by(60))


def test_a_slow_connection_needs_a_longer_timeout_in_the_lab_file():
    box = SlowBox(connecting=5, answering=0)
    box.line(*OPENING)
    assert box.polatis(connect_timeout=6).open(box.by(60)).serial == "S1"
    with pytest.raises(NoReply, match="did not accept"):
        box.polatis().open(box.by(60))


def test_the_time_to_connect_does_not_shorten_the_time_for_a_change():
    box = SlowBox(connecting=1.9, answering=0.5)
    box.line(*OPENING)
    said = b'0, "No error";0, "No error";(@1),(@17);(E,E)\n'
    asked = b":OXC:SWIT:CONN:STAT?;:OXC:SWIT:PORT:STAT? (@1,17)\n"
    box.line(*GREETING, (b":SYST:ERR?;:OXC:SWIT:CONN:ADD (@1),(@17);:SYST:ERR?;" + asked, said))
    driver = box.polatis()
    driver.open(box.by(60))
    driver.close()
    assert driver.apply(Change({}, {1: 17}), box.by(60)).state == {1: 17}


@pytest.mark.parametrize("key", ["connect_timeout", "answer_timeout"])
def test_a_timeout_of_zero_is_refused(key):
    with pytest.raises(ValueError, match=f"{key} must be more than 0"):
        SlowBox(0, 0).polatis(**{key: 0.0})


def test_the_time_limit_for_opening_instruments_grows_with_their_timeouts(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB)
    lab = load_lab(tmp_path / "lab.yaml")
    assert opening_seconds(lab, ["fast"], 10) == 10
    assert opening_seconds(lab, ["fast", "slow"], 10) == 16
    assert opening_seconds(lab, ["pdu"], 10) > 20
