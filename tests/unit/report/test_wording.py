"""Values, intervals, bars and orders, as every report writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.checks import CheckResult
from testbed.report.wording import (
    bar,
    by_arm,
    check_value,
    difference,
    explain,
    in_order,
    interval,
    message_size,
    quantity,
    share,
    spread,
    supports,
)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.02515, "s", "25.15 ms"),
        (4.8e8, "bit/s", "480 Mbit/s"),
        (1.0123456, "1", "1.012"),
        (0.0, "s", "0 s"),
        (-1e-17, "s", "0 s"),
        (0.0, "bit/s", "0 bit/s"),
    ],
)
def test_a_value_is_printed_with_a_readable_unit_prefix(value, unit, shown):
    assert quantity(value, unit) == shown


def test_an_interval_has_its_unit_once_if_both_ends_have_the_same_unit():
    assert spread(0.019, 0.0306, "s") == "19–30.6 ms"
    assert spread(0.95, 1.02, "s") == "950 ms–1.02 s"
    assert interval(None, "s") == "n < 6"


def test_a_difference_of_values_is_printed_with_a_sign():
    assert difference(0.005, "s") == "+5 ms"
    assert difference(-0.005, "s") == "−5 ms"


@given(st.floats(0, 1))
def test_a_supported_share_is_never_rounded_up(value):
    assert float(share(value).removesuffix(" %")) <= value * 100


def test_the_supported_share_is_stated_only_for_checks_of_every_trial():
    ten_of_ten = CheckResult("warm.recovery_time every", "< 1 s", 0.5, "passed", "", 0.7411)
    assert supports(ten_of_ten) == "supports ≥ 74 % at 95 % confidence"
    assert supports(CheckResult("warm.recovery_time median", "< 1 s", 0.5, "passed")) == ""


@pytest.mark.parametrize(
    ("name", "limit", "value", "unit", "shown"),
    [
        ("warm.recovery_time every", "< 1 s", 0.5647, "s", "564.7 ms"),
        ("warm.recovery_time near_prediction", "within 10 % of the prediction", 6.0, "%", "6 %"),
        (
            "warm.recovery_time near_prediction",
            "at most 50 ms above the prediction",
            0.03,
            "s",
            "30 ms",
        ),
        ("only.busbw_4mib median", "> 400 Mbit/s", 4.5e8, "bit/s", "450 Mbit/s"),
        ("only.hit_rate min", ">= 90 %", 98.2, "%", "98.2 %"),
        ("only.loss_of_light max", "< 3 dB", 1.25, "dB", "1.25 dB"),
        ("a.digest equals", "the same as b.digest", "5a8c", "", "5a8c"),
        ("warm.recovery_time every", "< 1 s", None, "s", "no value"),
    ],
)
def test_a_check_shows_its_value_in_the_unit_of_its_limit(name, limit, value, unit, shown):
    assert check_value(CheckResult(name, limit, value, "passed", unit=unit)) == shown


@given(st.floats(0, 10), st.floats(0, 10), st.integers(1, 100))
def test_a_bar_stays_within_its_width_and_is_visible_unless_its_length_is_zero(
    begin, length, width
):
    scale = begin + length
    drawn = bar(begin, length, scale, width) if scale else ""
    assert len(drawn) <= width + 1
    assert bool(drawn.strip()) == (length > 0)


def test_a_bar_is_drawn_to_an_eighth_of_a_column():
    assert bar(0, 1, 2, 8) == "████"
    assert bar(1, 0.125, 2, 8) == "    ▌"


def test_names_with_numbers_are_sorted_by_the_value_of_the_number():
    assert in_order({"n=16", "n=2", "n=4"}) == ["n=2", "n=4", "n=16"]


def test_metrics_are_ordered_by_arm_and_then_by_definition():
    names = ["b.detection", "a.busbw_4mib", "a.busbw_64kib", "a.loss", "b.recovery_time"]
    assert by_arm(names) == [
        "a.loss", "a.busbw_64kib", "a.busbw_4mib", "b.recovery_time", "b.detection",
    ]  # fmt: skip


def test_a_message_size_is_read_from_a_metrics_name():
    assert message_size("busbw_4mib") == 4 * 2**20
    assert message_size("time_100b") == 100
    assert message_size("busbw") is None


def test_every_label_of_results_has_an_explanation():
    for label in ("measured-hw", "measured-twin", "emulated", "model"):
        assert len(explain(label)) > 20
