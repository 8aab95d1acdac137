"""Reports of steps read without JSON, against the events in the same lines."""

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.report_columns import columns_of
from testbed.analysis.report_lines import ReportLine, columns_of_lines, report_of
from testbed.analysis.trial_events import TrialEvents
from testbed.events import Event
from testbed.record.log import read_events
from tests.bench.large_log import LargeLog

EVENTS = [event for event in islice(LargeLog(1, 30).events(), 100) if event.kind == "step"]
REPORTS = [event.to_json() for event in EVENTS]

numbers = st.floats(0.0, 1e300) | st.integers(0, 1 << 62) | st.floats(-1e9, 0.0)
values = numbers | st.none() | st.booleans() | st.text() | st.lists(numbers, max_size=3)


def assert_alike(line: str) -> bool:
    """Compare a report with the event in its line, and return whether there was one."""
    short = report_of(line.encode())
    if short is None:
        return False
    whole = Event.from_json(line)
    assert columns_of_lines([short]) == columns_of([whole])
    assert (short.trial, short.origin) == (whole.trial, whole.origin)
    assert whole.kind == "step"
    return True


@pytest.mark.parametrize("line", REPORTS)
def test_a_report_of_a_step_is_read_to_the_last_bit(line):
    assert assert_alike(line)
    assert assert_alike(line.replace('"job":"main",', ""))


@given(st.sampled_from(REPORTS), st.data())
def test_a_report_with_any_other_value_is_read_alike_or_left_to_the_parser(line, data):
    row = json.loads(line)
    part = data.draw(st.sampled_from([row, row["data"]]))
    part[data.draw(st.sampled_from([*part]))] = data.draw(values)
    assert_alike(json.dumps(row, ensure_ascii=False, separators=(",", ":")))


@given(st.sampled_from(REPORTS), st.data())
def test_a_damaged_line_that_is_read_is_still_an_event(line, data):
    place = data.draw(st.integers(0, len(line) - 1))
    put = data.draw(st.sampled_from(["", "0", "-", ".", "e", '"', "\\", ",", " ", "{", "\n", "é"]))
    kept = place + data.draw(st.integers(0, 2))
    assert_alike(line[:place] + put + line[kept:])


def test_a_log_is_read_with_reports_and_all_other_events(tmp_path):
    path = tmp_path / "events.jsonl"
    LargeLog(1, 30).write(path)
    whole, short = [*read_events(path)], [*read_events(path, shortcut=report_of)]
    for one, other in zip(short, whole, strict=True):
        if isinstance(one, ReportLine):
            assert columns_of_lines([one]) == columns_of([other])
        else:
            assert one == other
    assert sum(isinstance(one, ReportLine) for one in short) == 30 * 4


def test_reports_in_lines_and_events_in_turn_are_kept_in_the_order_of_the_log():
    events = [Event.from_json(line) for line in REPORTS]
    lines = [report_of(line.encode()) for line in REPORTS]
    mixed = [
        line if number % 7 < 3 else event
        for number, (line, event) in enumerate(zip(lines, events, strict=True))
    ]
    one, other = TrialEvents(mixed).reports, TrialEvents(events).reports
    assert one._columns == other._columns
    assert one._texts == other._texts
    assert len(one._columns["t"]) == len(events)
