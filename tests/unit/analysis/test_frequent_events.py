"""Frequent events read by orjson, against the same lines read by `json`."""

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.trial_events import FREQUENT
from testbed.events import Event
from testbed.files import MAX_DEPTH
from testbed.record.log import read_events
from tests.bench.large_log import LargeLog

EVENTS = [event for event in islice(LargeLog(1, 30).events(), 100) if event.kind in FREQUENT]
LINES = [event.to_json() for event in EVENTS]

numbers = st.floats(0.0, 1e300) | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(-1e9, 0.0)
values = numbers | st.none() | st.booleans() | st.text() | st.lists(numbers, max_size=3)


def read(line):
    """Return the event in a line, or nothing where it has none."""
    try:
        return Event.from_json(line)
    except ValueError:
        return None


def assert_alike(line):
    """Read a line as a frequent event; what is read is what `json` reads, to the last bit."""
    try:
        short = Event.from_frequent(line.encode())
    except ValueError:
        return  # it is left to `json`
    whole = read(line)
    assert whole is not None
    assert repr(short) == repr(whole)


def test_all_kinds_that_are_frequent_are_tested():
    assert {event.kind for event in EVENTS} == set(FREQUENT)


@pytest.mark.parametrize("line", LINES)
def test_a_frequent_event_is_read_to_the_last_bit(line):
    assert Event.from_frequent(line.encode()) == read(line) is not None


@given(st.sampled_from(LINES), st.data())
def test_a_frequent_event_with_any_other_value_is_read_alike(line, data):
    row = json.loads(line)
    part = data.draw(st.sampled_from([row, row["data"]]))
    part[data.draw(st.sampled_from([*part]))] = data.draw(values)
    assert_alike(json.dumps(row, ensure_ascii=False, separators=(",", ":")))


@given(st.sampled_from(LINES), st.data())
def test_a_damaged_line_that_is_read_is_still_an_event(line, data):
    place = data.draw(st.integers(0, len(line) - 1))
    put = data.draw(st.sampled_from(["", "0", "-", ".", "e", '"', "\\", ",", " ", "{", "\n", "é"]))
    kept = place + data.draw(st.integers(0, 2))
    assert_alike(line[:place] + put + line[kept:])


def test_a_frequent_event_nested_too_deeply_is_no_event():
    deep = '{"seq":0,"t":0.5,"kind":"step","subject":"","data":{"loss":%s}}' % (
        "[" * MAX_DEPTH + "]" * MAX_DEPTH
    )
    with pytest.raises(ValueError, match="nested deeper"):
        Event.from_frequent(deep.encode())


def test_a_log_is_read_alike_with_frequent_events(tmp_path):
    path = tmp_path / "events.jsonl"
    LargeLog(1, 30).write(path)
    surrogate = Event(9, 1.5, "step", "h1", 0, {"rank": 0, "digest": "\udc80"}).to_json()
    with path.open("ab") as log:
        log.write(f"{surrogate}\n".encode(errors="backslashreplace"))
    whole = [*read_events(path)]
    assert [*read_events(path, frequent=FREQUENT)] == whole
    assert [*read_events(path, without=FREQUENT)] == [e for e in whole if e.kind not in FREQUENT]
    assert whole[-1].data["digest"] == "\udc80"


def test_whole_numbers_of_an_event_that_only_seems_frequent_stay_exact(tmp_path):
    path = tmp_path / "events.jsonl"
    row = '{"seq":0,"t":0.0,"kind":"step","kind":"run.begin","subject":"","data":{"seed":%d}}\n'
    path.write_text(row % ((1 << 65) + 1))
    (event,) = read_events(path, frequent=FREQUENT)
    assert (event.kind, event.data["seed"]) == ("run.begin", (1 << 65) + 1)
