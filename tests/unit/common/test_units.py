"""Quantities as people write them, read and printed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from testbed.units import (
    DIMENSIONS,
    FREQUENCY,
    LOSS,
    POWER,
    RATE,
    SHARE,
    SIZE,
    TIME,
    Seconds,
    counted,
    written_alike,
)

SIGNED = [POWER, LOSS]
UNSIGNED = [dimension for dimension in DIMENSIONS if not dimension.signed]
values = st.floats(1e-9, 1e15)


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (TIME, "3 ns", 3e-9),
        (TIME, "3 µs", 3e-6),
        (TIME, "3 μs", 3e-6),
        (TIME, "3 us", 3e-6),
        (TIME, "25 ms", 0.025),
        (TIME, "1.5s", 1.5),
        (TIME, " 1.5  s ", 1.5),
        (TIME, "1.5\u00a0s", 1.5),
        (TIME, "1.5\u202fs", 1.5),
        (TIME, "2 min", 120),
        (TIME, "1 h", 3600),
        (RATE, "9600 bit/s", 9600),
        (RATE, "1 kbit/s", 1e3),
        (RATE, "500 Mbit/s", 500e6),
        (RATE, "400 Gbit/s", 400e9),
        (RATE, "1.6 Tbit/s", 1.6e12),
        (RATE, "1 B/s", 8),
        (RATE, "1 kB/s", 8e3),
        (RATE, "1 MB/s", 8e6),
        (RATE, "1 GB/s", 8e9),
        (SIZE, "7 B", 7),
        (SIZE, "4 KiB", 4096),
        (SIZE, "16 MiB", 16 * 2**20),
        (SIZE, "0.5 GiB", 2**29),
        (SIZE, "1.001 kB", 1001),
        (SIZE, "1 MB", 10**6),
        (SIZE, "2 GB", 2 * 10**9),
        (FREQUENCY, "5 1/s", 5),
        (POWER, "-3 dBm", -3),
        (LOSS, "1.5 dB", 1.5),
        (SHARE, "95 %", 0.95),
        (SHARE, "100 ppm", 1e-4),
        (TIME, " 1e-3 s ", 1e-3),
        (TIME, "+.5 s", 0.5),
    ],
)
def test_every_unit_is_read_into_the_base_unit(dimension, text, value):
    assert dimension.parse(text) == pytest.approx(value, rel=1e-12)


def test_these_tests_cover_every_unit():
    (cases,) = test_every_unit_is_read_into_the_base_unit.pytestmark
    read = {
        (dimension, unit)
        for dimension, text, _ in cases.args[1]
        for unit in dimension.units
        if text.strip().lstrip("+-.e0123456789").strip() == unit
    }
    assert read >= {(d, unit) for d in DIMENSIONS for unit in d.units}


@given(st.sampled_from(UNSIGNED), values)
def test_a_printed_quantity_reads_back_to_four_digits(dimension, value):
    if dimension is SIZE:
        value = round(value)
    assert dimension.parse(dimension.format(value)) == pytest.approx(value, rel=5e-4)


@given(st.sampled_from(SIGNED), st.floats(-200, 200))
def test_a_level_reads_back_with_its_sign(dimension, value):
    assert dimension.parse(dimension.format(value)) == pytest.approx(value, rel=5e-4, abs=1e-300)


@given(st.integers(0, 2**50))
def test_a_size_reads_back_to_the_byte(size):
    assert SIZE.parse(SIZE.format(size)) == size


@given(st.integers(0, 10**9))
def test_thousandths_of_a_decimal_unit_are_whole_bytes(count):
    assert SIZE.parse(f"{count / 1000} kB") == count


@pytest.mark.parametrize(
    ("dimension", "value", "text"),
    [
        (TIME, 0.025, "25 ms"),
        (TIME, 90.0, "90 s"),
        (TIME, 2e-6, "2 µs"),
        (RATE, 480e6, "480 Mbit/s"),
        (SIZE, 4096, "4 KiB"),
        (SIZE, 1500, "1500 B"),
        (SIZE, 0, "0 B"),
        (SHARE, 0.95, "95 %"),
    ],
)
def test_a_quantity_is_printed_with_a_readable_unit(dimension, value, text):
    assert dimension.format(value) == text


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "given_",
    [
        *(25, 2.5, True, None, "25", "ms", "", "25 m s", "0x10 s", "1,5 s"),
        *("25\nms", "25\tms", "25 ms\n", "\t25 ms", "25\r ms", "25\x0bms", "\u0662\u0665 ms"),
    ],
)
def test_a_number_without_a_unit_of_its_kind_is_refused_with_an_example(dimension, given_):
    with pytest.raises(ValueError) as refusal:
        dimension.parse(given_)
    assert dimension.example in str(refusal.value)


@pytest.mark.parametrize(
    ("dimension", "text", "complaint"),
    [
        (TIME, "-1 s", "negative"),
        (SIZE, "-1 B", "negative"),
        (SIZE, "0.3 B", "whole number"),
        (SIZE, "0.1 GiB", "whole number"),
        (TIME, "1e999 s", "too large"),
        (SIZE, "1e999 B", "too large"),
        (TIME, "5 MiB", "not a time"),
        (RATE, "5 s", "not a rate"),
        (TIME, "nan s", "not a time"),
        (TIME, "inf s", "not a time"),
    ],
)
def test_an_impossible_value_is_refused(dimension, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        dimension.parse(text)


def test_a_file_must_give_the_unit_and_a_program_need_not():
    seconds = TypeAdapter(Seconds)
    assert seconds.validate_python("25 ms") == 0.025
    assert seconds.validate_python(0.025, context={"base_units": True}) == 0.025
    for number in (0.025, 25, True):
        with pytest.raises(ValidationError, match="not a time"):
            seconds.validate_python(number)


@given(st.sampled_from(DIMENSIONS), st.text())
def test_any_text_is_read_as_a_quantity_or_refused(dimension, text):
    try:
        value = dimension.parse(text)
    except ValueError:
        return
    assert math.isfinite(value)


def test_a_count_of_one_is_singular():
    said = [counted(n, noun) for noun in ("cross-connect", "switch") for n in (0, 1, 2)]
    assert said[:3] == ["0 cross-connects", "1 cross-connect", "2 cross-connects"]
    assert said[3:] == ["0 switches", "1 switch", "2 switches"]


@pytest.mark.parametrize(
    ("bound", "text", "shown"),
    [
        (0.0005, "900 ppm", "500 ppm"),
        (1, "150 %", "100 %"),
        (0, "-5 ms", "0 ms"),
        (5, "7", 5),
        (5, 7, 5),
        (5, "7 furlongs", 5),
    ],
)
def test_a_limit_is_printed_in_the_unit_of_the_value_it_limits(bound, text, shown):
    assert written_alike(bound, text) == shown
