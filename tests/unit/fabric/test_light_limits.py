"""What light may do: the check of a plan against every state that fits what is known of the light.

The reference knows no formula. It tries sources of every power, behind every loss, with every error
of a monitor; it keeps those that would have been read as they were, lets happen what may happen
afterwards, and looks at what arrives at the receivers.
"""

import re
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.fabric.device import Capabilities
from testbed.fabric.light import LightLimits, LightRefused
from testbed.fabric.reading import (
    DARK,
    NOT_CONNECTED,
    NOT_MEASURED,
    Light,
    Reading,
    above,
    measured,
)

INGRESS, EGRESS = (1, 2), (6, 7)
POWERS = range(-14, 37)
"""What a source may send, in dBm; whole numbers, so that sums are exact."""
FLOOR = -10
"""dBm at and below which a monitor sees no light."""
MANY = 20_000


@dataclass(frozen=True)
class Case:
    """A switch with its limits, what is known of the light, and where a plan leads."""

    limits: LightLimits
    can: Capabilities
    before: dict
    after: dict
    readings: dict
    added: dict
    """dB that the testbed has an attenuator take from a source, to give back later."""

    def is_accepted(self):
        try:
            self.limits.check(self.before, self.after, self.readings, self.can, self.added)
        except LightRefused:
            return False
        return True


@st.composite
def crossings(draw):
    count = draw(st.sampled_from([0, 1, 1, 2]))
    pair = draw(st.permutations(INGRESS)), draw(st.permutations(EGRESS))
    return dict(list(zip(*pair, strict=True))[:count])


@st.composite
def cases(draw):
    """Draw a case whose levels are near to its limits; some paths amplify."""
    limit = float(draw(st.integers(-4, 4)))
    max_dbm = dict.fromkeys(draw(st.sampled_from([EGRESS, EGRESS[:1], EGRESS[1:], ()])), limit)
    near = st.integers(-3, 3).map(lambda by: limit + by)
    kinds = st.sampled_from([DARK, NOT_MEASURED, NOT_CONNECTED]) | near.map(measured)
    readings = {ingress: draw(kinds) for ingress in INGRESS}
    launch = {ingress: draw(near) for ingress in INGRESS if draw(st.booleans())}
    added = {ingress: draw(st.sampled_from([0.0, 0.0, 0.0, 2.0, 20.0])) for ingress in INGRESS}
    keep = frozenset(draw(st.sampled_from([[], [], [], EGRESS[:1]])))
    error, least = draw(st.sampled_from([1, 1, 0])), draw(st.integers(-2, 2))
    most = least + draw(st.integers(0, 2))
    can = Capabilities(
        frozenset(INGRESS), frozenset(EGRESS), 0.0, 0.0,
        tuple(draw(st.lists(crossings(), max_size=2))), sweeps=draw(st.booleans()),
        loss=(least - 2.0 * error, most + 2.0 * error), monitor_error=float(error),
    )  # fmt: skip
    limits = LightLimits(max_dbm, keep, {}, launch)
    return Case(limits, can, draw(crossings()), draw(crossings()), readings, added)


def as_read(case, ingress, power, error, taken):
    """Return what a source, behind a loss, would be read as by the monitor that there is."""
    kind = case.readings.get(ingress, NOT_MEASURED)
    if kind in (NOT_MEASURED, NOT_CONNECTED):
        return kind
    return above(FLOOR, float(power - taken + error)) if power is not None else DARK


def later(case, ingress, power):
    """Return what a source that was on, or off, may send later on."""
    reading = case.readings.get(ingress, NOT_MEASURED)
    if reading.light is Light.MEASURED:
        return {power}
    if reading.light is Light.NOT_MEASURED or ingress not in case.limits.launch:
        return set(POWERS)  # nobody can look at it, or nobody has said what it sends
    return {level for level in POWERS if level <= case.limits.launch[ingress]}


def arriving(case, ingress):
    """Return all that may come out of the switch of a source's light."""
    error = case.can.monitor_error
    slack = 2 * error
    paths = {case.can.loss[0] + slack, case.can.loss[1] - slack}
    added = case.added.get(ingress, 0.0)
    reading = case.readings.get(ingress, NOT_MEASURED)
    fixed = (0.0, 2.0)
    """What a connector may take for good, of which nobody knows."""
    found = {
        (sent, lost)
        for power, off_by, lost in product((None, *POWERS), {-error, 0.0, error}, fixed)
        if as_read(case, ingress, power, off_by, lost + added) == reading
        for sent in later(case, ingress, power)
    }
    return {sent - lost - path for (sent, lost), path in product(found, paths)}


def breaks_a_limit(case):
    """Tell, by trying everything, whether a receiver may get more than it withstands."""
    new = case.after.items() - case.before.items()
    if case.can.sweeps:
        moved = {ingress for ingress, _ in case.after.items() ^ case.before.items()}
        passed = {pair for position in case.can.positions for pair in position.items()}
        new |= {(ingress, egress) for ingress, egress in passed if ingress in moved}
    return any(
        level > case.limits.max_dbm[egress]
        for ingress, egress in new
        if egress in case.limits.max_dbm
        for level in arriving(case, ingress)
    )


def darkens(case):
    """Tell whether a receiver that is to keep its light has it, and loses it."""
    dark = {i for i in INGRESS if case.readings.get(i) == DARK}
    lost = dark | {i for i in INGRESS if case.readings.get(i) == NOT_CONNECTED}
    had = {e for i, e in case.before.items() if i not in dark}
    return bool(case.limits.keep_alive & had - {e for i, e in case.after.items() if i not in lost})


def hold_against_reference(case):
    assert case.is_accepted() is not (breaks_a_limit(case) or darkens(case)), case


@given(cases())
def test_a_plan_is_accepted_exactly_when_no_possible_light_levels_break_a_limit(case):
    hold_against_reference(case)


@pytest.mark.soak
@settings(max_examples=MANY)
@given(cases())
def test_many_plans_are_accepted_exactly_when_no_possible_light_levels_break_a_limit(case):
    hold_against_reference(case)


@given(cases())
def test_only_sources_that_reach_limited_receivers_are_measured(case):
    asked = case.limits.sources(case.before, case.after, case.can)
    known = {i: reading for i, reading in case.readings.items() if i in asked}
    again = Case(case.limits, case.can, case.before, case.after, known, case.added)
    assert again.is_accepted() is case.is_accepted()
    if not case.limits:
        assert not asked


CAN = Capabilities(frozenset(INGRESS), frozenset(EGRESS), 0.01, 0.02)


def check(reading, **launch):
    limits = LightLimits({6: -3.0}, launch={int(port[1:]): dbm for port, dbm in launch.items()})
    limits.check({}, {1: 6}, {1: reading}, CAN)


@pytest.mark.parametrize(
    ("reading", "launch", "reason", "hint"),
    [
        (
            measured(-2.5),
            {},
            r"withstands -3 dBm and could get -2\.0 dBm from port 1 \(-2\.5 dBm measured",
            "",
        ),
        (measured(-3.25), {}, r"could get -2\.8 dBm", ""),
        (
            DARK,
            {},
            "port 1 is dark: how strong it will be is not known",
            "let it send, .* `launch`",
        ),
        (DARK, {"p1": -2.0}, r"could get -2\.0 dBm from port 1 \(as the lab file says\)", ""),
        (NOT_CONNECTED, {}, "port 1 is measured in a circuit only", "write its `launch`"),
        (NOT_CONNECTED, {"p1": 3.0}, r"could get 3\.0 dBm", ""),
        (NOT_MEASURED, {}, "port 1 is not measured", "a port that has a monitor"),
        (NOT_MEASURED, {"p1": -30.0}, "port 1 is not measured", "that no monitor can check"),
    ],
)
def test_a_refusal_states_which_measurement_is_missing(reading, launch, reason, hint):
    with pytest.raises(LightRefused, match=reason) as found:
        check(reading, **launch)
    assert found.value.port == 6
    assert bool(found.value.source) is bool(hint)
    assert re.search(hint, found.value.hint)


def test_light_known_to_be_below_the_limit_is_accepted():
    check(measured(-3.5))
    check(DARK, p1=-3.0)
    check(NOT_CONNECTED, p1=-3.0)


def test_limits_are_checked_for_every_channel_that_a_moving_switch_passes():
    limits, channels = LightLimits({3: 0.0}), tuple({1: port} for port in (2, 3, 4))
    can = Capabilities(frozenset({1}), frozenset({2, 3, 4}), 0.1, 0.1, channels, sweeps=True)
    words = "port 3 withstands 0 dBm and what enters at port 1 is not measured"
    with pytest.raises(LightRefused, match=words):
        limits.check({1: 2}, {1: 4}, {}, can)
    limits.check({1: 2}, {1: 4}, {1: measured(-1.0)}, can)
    limits.check({1: 2}, {1: 2}, {}, can)


def test_light_behind_a_temporary_attenuation_is_checked_without_the_attenuation():
    limits = LightLimits({6: -3.0})
    limits.check({}, {1: 6}, {1: measured(-20.0)}, CAN, {1: 16.5})
    with pytest.raises(LightRefused, match=r"could get -2\.5 dBm"):
        limits.check({}, {1: 6}, {1: measured(-20.0)}, CAN, {1: 17.0})


@pytest.mark.parametrize(
    ("readings", "too_much"),
    [
        ({}, []),
        ({1: measured(-3.0), 6: measured(-4.0)}, []),
        ({1: measured(-2.6), 6: DARK}, []),
        ({1: measured(-2.4), 6: DARK}, [(1, -2.4)]),
        ({6: measured(-2.0)}, [(6, -2.0)]),
        ({1: measured(4.0), 6: measured(3.0)}, [(6, 3.0)]),
        ({2: measured(9.0)}, []),
    ],
)
def test_excess_power_is_reported_beyond_the_error_of_a_monitor(readings, too_much):
    found = LightLimits({6: -3.0}).overloads({1: 6, 2: 7}, readings, CAN)
    assert [(one.port, one.dbm) for one in found] == too_much


def test_a_receiver_that_needs_light_keeps_its_source_or_gets_another():
    limits = LightLimits(keep_alive=frozenset({6}))
    with pytest.raises(LightRefused, match="port 6 is listed in keep_alive"):
        limits.check({1: 6}, {}, {}, CAN)
    for unlit in (DARK, NOT_CONNECTED):
        with pytest.raises(LightRefused):
            limits.check({1: 6}, {2: 6}, {2: unlit}, CAN)
    limits.check({1: 6}, {2: 6}, {}, CAN)
    limits.check({1: 6}, {}, {1: DARK}, CAN)  # it was dark before


def test_a_light_reading_has_a_level_exactly_when_it_is_measured():
    with pytest.raises(ValueError, match="is dark cannot have a level"):
        Reading(Light.DARK, -3.0)
    for level in (None, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="level"):
            Reading(Light.MEASURED, level)
    with pytest.raises(ValueError, match="not a finite level"):
        above(-50.0, float("nan"))


def test_a_light_reading_is_printed_with_its_level_or_state():
    seen = (measured(-3.14), above(-50.0, -50.0), NOT_MEASURED, NOT_CONNECTED)
    assert list(map(str, seen)) == ["-3.1 dBm", "dark", "not measured", "not connected"]
