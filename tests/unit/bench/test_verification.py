"""The second and third level of a change: what the device says of it, and the light itself.

The switch is the inside of a far end, driven without a line, on a clock that moves only when
somebody waits.
"""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from testbed.bench.multi_switch_change import PlannedChange, change_all
from testbed.bench.verification import MARGIN
from testbed.errors import BusyError, InstrumentError, LabError, UnsafeError, UsageError
from testbed.fabric.light import LightLimits
from testbed_drivers.dialects.armed_faults import ArmedFault
from tests.unit.bench.driver_without_line import (
    CAN,
    EGRESS,
    INGRESS,
    SETTLE,
    SETTLE_MAX,
    WithoutALine,
)


def change(switch, crossbar, wanted):
    move = PlannedChange(crossbar, *crossbar.plan(wanted, switch.soon()))
    (moved,) = change_all([move], switch.soon())
    return moved.verified


@pytest.fixture
def switch():
    return WithoutALine()


@pytest.fixture
def crossbar(switch):
    return switch.crossbar()


def arm(switch, name, **scope):
    switch.faults.arm(ArmedFault(name, **scope))


def test_a_change_ends_soon_after_the_mirrors_settled(switch, crossbar):
    verified = change(switch, crossbar, {1: 5, 2: 6})
    assert verified.steady is not None
    assert verified.lit is not None
    assert SETTLE <= switch.time.now() <= SETTLE + 0.012
    gaps = [b - a for a, b in zip(switch.looks, switch.looks[1:], strict=False)]
    assert gaps[0] == pytest.approx(0.002)
    assert gaps == sorted(gaps), "looks come less and less often"


def test_a_mirror_that_does_not_settle_fails_after_the_maximum_settle_time(switch, crossbar):
    arm(switch, "slow", port=1)
    with pytest.raises(InstrumentError, match="reports 1→5: moving; the change was rolled back"):
        change(switch, crossbar, {1: 5})
    assert SETTLE_MAX + MARGIN <= switch.time.now() <= SETTLE_MAX + MARGIN + 0.08
    assert switch.box.commanded == {}


def test_verification_does_not_wait_for_a_circuit_that_has_failed(switch, crossbar):
    arm(switch, "failed", port=2)
    with pytest.raises(InstrumentError, match="reports 2→6: failed"):
        change(switch, crossbar, {1: 5, 2: 6})
    assert len(switch.looks) == 1


def test_verification_waits_only_for_the_circuits_of_the_change(switch, crossbar):
    change(switch, crossbar, {1: 5})
    switch.box.connect({4: 8})
    before = switch.time.now()
    assert switch.box.unsteady() == {4: "moving"}
    assert change(switch, crossbar, {}).steady is None
    assert switch.time.now() == before


@pytest.mark.parametrize("fault", ["lie", "dim"])
def test_a_circuit_without_light_is_found_by_power_readings_alone(fault):
    switch = WithoutALine(replace(CAN, steadiness=False))
    arm(switch, fault, port=1)
    with pytest.raises(InstrumentError, match=r"1→5 (is dark|takes 3\d\.\d dB)"):
        change(switch, switch.crossbar(), {1: 5, 2: 6})
    assert switch.box.commanded == {}


def test_light_that_remains_after_a_circuit_was_removed_is_found(switch, crossbar):
    change(switch, crossbar, {1: 5})
    arm(switch, "lie", port=1, count=1)
    with pytest.raises(InstrumentError, match=r"port 5 still gets light of 0\.0 dBm; .* rolled"):
        change(switch, crossbar, {})
    assert switch.box.commanded == {1: 5}


def test_a_change_is_not_called_rolled_back_while_light_remains(switch, crossbar):
    move = PlannedChange(crossbar, *crossbar.plan({1: 5}, switch.soon()))
    change_all([move], switch.soon())
    arm(switch, "lie", port=1)
    with pytest.raises(UnsafeError, match=r"was brought back, but .* port 5 still gets light"):
        crossbar.roll_back(move.change, KeyboardInterrupt())
    assert switch.box.commanded == {}


def test_a_change_is_accepted_where_the_source_of_light_is_dark(switch, crossbar):
    switch.launched[1] = None
    arm(switch, "dim", port=1)
    assert change(switch, crossbar, {1: 5}).lit is not None
    assert switch.box.commanded == {1: 5}


@pytest.mark.parametrize(("averaging", "is_enough"), [(0.0, False), (0.4, True)])
def test_verification_waits_for_power_monitors_that_average(averaging, is_enough):
    switch = WithoutALine(replace(CAN, steadiness=False, averaging=averaging))
    arm(switch, "slow", port=1)  # as a mean that rises slowly
    with nullcontext() if is_enough else pytest.raises(InstrumentError, match="1→5 is dark"):
        assert change(switch, switch.crossbar(), {1: 5}).lit is not None


def test_a_change_is_accepted_where_light_is_not_measured():
    switch = WithoutALine(replace(CAN, monitored=frozenset({1, 6})))
    verified = change(switch, switch.crossbar(), {1: 5, 2: 6})
    assert verified.lit is None


def test_a_lost_power_reading_is_requested_again(switch, crossbar):
    switch.losses = 2
    assert change(switch, crossbar, {1: 5}).lit is not None
    switch.losses = 10_000
    with pytest.raises(UnsafeError, match=r"was brought back, but .* did not answer"):
        change(switch, crossbar, {1: 5, 2: 6})
    assert switch.box.commanded == {1: 5}


def test_a_receiver_is_not_given_more_than_its_maximum_power(switch):
    crossbar = switch.crossbar(limits=LightLimits(max_dbm={5: -3.0}))
    words = r"port 5 withstands -3 dBm and could get 0\.5 dBm from port 1"
    with pytest.raises(LabError, match=words):
        change(switch, crossbar, {1: 5})
    switch.launched[1] = -4.0
    change(switch, crossbar, {1: 5})
    assert switch.box.commanded == {1: 5}


def test_a_source_that_is_off_is_judged_by_the_lab_file_alone(switch):
    switch.launched[1] = None
    with pytest.raises(LabError, match=r"source at port 1 is dark: .*write its `launch` in the"):
        change(switch, switch.crossbar(limits=LightLimits({5: -3.0})), {1: 5})
    with pytest.raises(LabError, match=r"could get -2\.0 dBm from port 1 \(as the lab file says\)"):
        change(switch, switch.crossbar(limits=LightLimits({5: -3.0}, launch={1: -2.0})), {1: 5})
    assert switch.box.commanded == {}
    crossbar = switch.crossbar(limits=LightLimits({5: -3.0}, launch={1: -3.0}))
    change(switch, crossbar, {1: 5})
    assert crossbar.overloads(switch.soon()) == {}
    switch.launched[1] = 4.0  # it comes on, and is stronger than the file says
    (words,) = crossbar.overloads(switch.soon()).values()
    assert words.startswith("port 5 withstands -3 dBm and")
    assert words.endswith("dBm leave; an unwired receiver is behind it")


def test_an_unmeasured_source_is_never_connected_to_a_limited_receiver(switch):
    switch.can = replace(CAN, monitored=EGRESS)
    switch.open(switch.soon())
    limits = LightLimits({5: 30.0}, launch={1: -30.0})
    with pytest.raises(
        LabError, match=r"enters at port 1 is not measured; an unwired rec.*monitor"
    ):
        change(switch, switch.crossbar(limits=limits), {1: 5})
    assert switch.box.commanded == {}


def test_a_circuit_with_too_strong_light_is_removed_and_not_retried(switch):
    switch.launched[1] = None
    crossbar = switch.crossbar(limits=LightLimits({5: -3.0}, launch={1: -3.0}))
    wanted = crossbar.plan({1: 5}, switch.soon())
    switch.launched[1] = 4.0
    with pytest.raises(
        LabError, match=r"withstands -3 dBm and 2\.. dBm leave; .* rolled back; correct `launch`"
    ) as found:
        change_all([PlannedChange(crossbar, *wanted)], switch.soon())
    assert not isinstance(found.value, InstrumentError), "those are tried once more in a recovery"
    assert switch.box.commanded == {}


def test_light_attenuated_by_the_run_is_judged_as_it_will_be(switch):
    switch.launched[1] = -20.0
    limits = LightLimits({5: -3.0})
    crossbar = switch.crossbar(limits=limits, added=lambda fibre: 20.0 * (fibre.number == 1))
    with pytest.raises(LabError, match=r"could get 0\.5 dBm from port 1"):
        change(switch, crossbar, {1: 5})
    change(switch, switch.crossbar(limits=limits), {1: 5})


def test_no_power_is_read_where_no_receiver_has_a_limit(switch):
    switch.can = replace(CAN, monitored=INGRESS)  # nothing to compare with what enters
    switch.open(switch.soon())
    crossbar = switch.crossbar(limits=LightLimits({5: 1.0}))
    change(switch, crossbar, {1: 6, 2: 7})
    assert crossbar.overloads(switch.soon()) == {}
    assert switch.readings == 0
    change(switch, crossbar, {1: 6, 3: 5})
    assert switch.readings > 0


def test_light_that_must_stay_is_removed_only_for_other_light_or_by_the_restoring(switch):
    crossbar = switch.crossbar(limits=LightLimits(keep_alive=frozenset({5})))
    change(switch, crossbar, {1: 5})
    with pytest.raises(LabError, match="port 5 is listed in keep_alive"):
        change(switch, crossbar, {})
    change(switch, crossbar, {2: 5})
    crossbar.restore(switch.soon())
    assert switch.box.commanded == {}


BAR, CROSSED = {1: 5, 2: 6}, {1: 6, 2: 5}


def element():
    """Return a 2×2 element that stands in bar."""
    switch = WithoutALine(replace(CAN, positions=(BAR, CROSSED)))
    switch.box.connect(BAR)
    switch.time.advance(SETTLE)
    return switch


def test_an_always_connected_switch_is_adopted_and_restored():
    switch = element()
    crossbar = switch.crossbar(frozenset({1, 2, 5, 6}))
    crossbar.adopt({1: 6}, switch.soon())
    change(switch, crossbar, {1: 6})
    assert switch.box.commanded == CROSSED
    crossbar.check(switch.soon())
    crossbar.restore(switch.soon())
    assert switch.box.commanded == BAR


def test_an_always_connected_switch_is_refused_where_a_change_would_move_foreign_ports():
    switch = element()
    crossbar = switch.crossbar(frozenset({1, 5, 6}))
    with pytest.raises(BusyError, match="2→6"):
        crossbar.adopt({1: 6}, switch.soon())
    assert switch.box.commanded == BAR


def test_circuits_that_no_position_provides_are_a_usage_error():
    switch = element()
    crossbar = switch.crossbar()
    crossbar.adopt({}, switch.soon())
    with pytest.raises(UsageError, match="no position of this switch holds 1→7 together"):
        crossbar.plan({1: 7}, switch.soon())
