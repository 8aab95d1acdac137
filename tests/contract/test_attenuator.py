"""The contract of an attenuator, kept by every driver on every wire that it claims."""

import contextlib

import pytest

from testbed.clock import now
from testbed.errors import InstrumentError, LinkLost, NoReply, Rejected, UsageError
from tests.contract.light_rig import Rig, claims, soon


@pytest.fixture(params=claims("attenuator"), ids="-".join)
def rig(request):
    rig = Rig(*request.param, channels=(1, 3))
    yield rig
    rig.close()


@pytest.fixture
def voa(rig):
    return rig.opened()


def test_opening_reads_the_identity_and_the_present_attenuation(voa):
    assert voa.identify(soon()).serial == "L1"
    assert [voa.attenuation(channel, soon()) for channel in (1, 3)] == [0.0, 0.0]
    assert voa.is_open(1, soon())


def test_a_set_attenuation_reads_back_and_reduces_the_power_of_that_channel_only(rig, voa):
    assert voa.attenuate(3, 12.5, soon()) == 12.5
    assert voa.attenuation(3, soon()) == 12.5
    assert voa.attenuation(1, soon()) == 0.0
    assert rig.takes == {3: 12.5}


def test_the_attenuation_passes_through_all_steps_between_two_settings(rig, voa):
    voa.attenuate(1, 5.0, soon())
    assert rig.passed == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_shutter_closed_by_another_client_reads_as_closed_and_keeps_the_attenuation(rig, voa):
    voa.attenuate(1, 3.0, soon())
    other = rig.far_end.session(lambda data: None)
    other.receive(b":OUTP1 OFF\n")
    assert rig.takes[1] > 90.0
    assert not voa.is_open(1, soon())
    assert voa.attenuation(1, soon()) == 3.0
    other.receive(b":OUTP1 ON\n")
    assert rig.takes[1] == 3.0
    assert voa.is_open(1, soon())


@pytest.mark.parametrize("decibels", [-1.0, 60.0, float("nan")])
def test_an_attenuation_out_of_range_is_refused_before_the_first_byte(rig, voa, decibels):
    said = rig.sent
    with pytest.raises(UsageError, match="its range is 0 to 45 dB"):
        voa.attenuate(1, decibels, soon())
    assert rig.sent == said


def test_a_channel_outside_the_lab_file_is_neither_read_nor_set(rig, voa):
    said = rig.sent
    for act in (
        lambda: voa.attenuate(2, 1.0, soon()),
        lambda: voa.is_open(2, soon()),
        lambda: voa.attenuation(2, soon()),
    ):
        with pytest.raises(UsageError, match="channel 2 is not among its channels"):
            act()
    assert rig.sent == said


def test_the_error_of_a_refused_setting_quotes_the_attenuator_and_nothing_changes(rig, voa):
    rig.far_end.fault("error", count=1)
    with pytest.raises(Rejected, match="Execution error"):
        voa.attenuate(1, 4.0, soon())
    assert voa.attenuation(1, soon()) == 0.0


def test_a_stuck_channel_raises_an_error_from_its_read_back(rig):
    voa = rig.opened(settle_max=0.05)
    rig.far_end.fault("stuck", port=1)
    with pytest.raises(InstrumentError, match=r"told 4 dB on channel 1, .* shows 0 dB"):
        voa.attenuate(1, 4.0, soon())
    assert rig.takes == {}


def test_attenuate_waits_for_a_filter_that_still_moves(rig):
    rig.replace(speed=10.0)  # a step each 100 ms, so that it reads the same more than once
    assert rig.opened(settle_max=0.8).attenuate(1, 10.0, soon()) == 10.0


def test_a_false_read_back_is_not_detected_by_the_driver(rig, voa):
    rig.far_end.fault("lie", port=1)
    assert voa.attenuate(1, 4.0, soon()) == 4.0
    assert rig.takes == {}


def test_waiting_for_a_missing_reply_ends_at_the_deadline_and_nothing_is_resent(rig, voa):
    rig.far_end.fault("silent", count=1, command="ATT")
    deadline = soon(0.1)
    with pytest.raises(NoReply):
        voa.attenuate(1, 4.0, deadline)
    assert now() < deadline.at + 10, "it hung"
    deadline = soon()  # the filter is still moving; a read after it raises NoReply
    while voa.attenuation(1, deadline) != 4.0:
        pass
    assert rig.sent.count(":ATT 4.000") == 1


@pytest.mark.parametrize(
    "fault",
    ["silent", "garbled", "truncated", "wrong-end", "banner", "doubled", "cut", "reset", "merged"],
)
def test_an_attenuation_read_over_a_faulty_wire_is_right_or_an_error(rig, voa, fault):
    voa.attenuate(1, 7.0, soon())
    rig.far_end.fault(fault, count=1, command="ATT?", delay=0.02)
    with contextlib.suppress(InstrumentError, ConnectionError):
        assert voa.attenuation(1, soon(0.15)) == 7.0
    rig.far_end.clear()
    assert voa.attenuation(3, soon()) == 0.0
    assert voa.attenuation(1, soon()) == 7.0


@pytest.mark.parametrize(("fault", "delay"), [("late", 0.15), ("after-next", 0.0), ("drip", 0.01)])
def test_a_late_reply_is_not_taken_for_the_reply_to_a_later_query(rig, voa, fault, delay):
    voa.attenuate(1, 7.0, soon())
    rig.far_end.fault(fault, count=1, command="INP1:ATT?", delay=delay)
    with contextlib.suppress(NoReply):
        assert voa.attenuation(1, soon(0.1)) == 7.0, "its own answer, or none in time"
    assert voa.attenuation(3, soon()) == 0.0


def test_another_device_at_the_same_address_is_refused(rig):
    with pytest.raises(InstrumentError, match="L1 instead of L2"):
        rig.opened(identity="L2")


def test_setting_an_attenuation_before_opening_is_refused(rig):
    with pytest.raises(LinkLost, match="not been opened"):
        rig.driver().attenuate(1, 1.0, soon())


def test_closing_an_attenuator_twice_is_harmless_and_changes_no_attenuation(rig, voa):
    voa.attenuate(1, 2.0, soon())
    voa.close()
    voa.close()
    assert voa.attenuation(1, soon()) == 2.0
