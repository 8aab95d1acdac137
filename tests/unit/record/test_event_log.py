"""The event log: written by many threads, read after a crash at any byte."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.clock import now
from testbed.errors import LabError, UsageError
from testbed.events.origin import NOWHERE, Origin, attributed
from testbed.record.log import EventLog, read_events
from testbed.secret import conceal

THREADS, EACH = 8, 100


@pytest.fixture
def log(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    yield log
    log.close()


def test_secrets_are_masked_except_where_they_are_names(log, tmp_path):
    conceal("gpu-node-1")
    told = {"argv": ["--at=gpu-node-1"], "why": "gpu-node-1"}
    log.append("program.begin", "gpu-node-1", host="gpu-node-1", **told)
    (event,) = read_events(tmp_path / "events.jsonl")
    assert event.subject == event.data["host"] == "gpu-node-1"
    assert (event.data["argv"], event.data["why"]) == (["--at=***"], "***")


def test_secrets_in_reports_are_masked_too(log, tmp_path):
    conceal("gpu-node-1")
    said = {"host": "gpu-node-1", "rank": 0, "why": "gpu-node-1"}
    shown = [
        log.append_data("rank.left", "rank 0", log.started, said),
        log.unwritten("rank.left", "rank 0", log.started, said),
        *read_events(tmp_path / "events.jsonl"),
    ]
    assert [dict(event.data) for event in shown] == [{**said, "why": "***"}] * 3


def test_many_threads_append_complete_events_in_one_order(log, tmp_path):
    heard = []
    log.subscribe(heard.append)
    gate = threading.Barrier(THREADS)

    def write(thread):
        gate.wait()
        for number in range(EACH):
            log.append("note", f"thread {thread}", number=number, text="–" * 200)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(THREADS)))
    log.close()
    written = list(read_events(tmp_path / "events.jsonl"))
    assert [event.seq for event in written] == list(range(THREADS * EACH))
    assert [event.to_json() for event in heard] == [event.to_json() for event in written]
    for thread in range(THREADS):
        mine = [e.data["number"] for e in written if e.subject == f"thread {thread}"]
        assert mine == list(range(EACH))
    assert all(a.t <= b.t for a, b in pairwise(written))


def test_an_event_is_on_the_disk_when_append_returns(log, tmp_path):
    event = log.append("note", "h0", text="now")
    assert list(read_events(tmp_path / "events.jsonl"))[-1].to_json() == event.to_json()


def test_an_event_can_be_logged_with_an_earlier_time(log):
    happened = now() - 0.5
    event = log.append("symptom", "h0", at=happened)
    assert event.t == pytest.approx(log.at(happened), abs=1e-6)
    assert event.t < log.append("note").t


def test_events_have_the_number_of_the_present_trial(log):
    assert log.append("phase").trial is None
    log.trial = 3
    assert log.append("step").trial == 3
    log.trial = None
    assert log.append("phase").trial is None


def test_events_are_attributed_to_what_led_to_them(log, tmp_path):
    with attributed(Origin(job="main")):
        symptom = log.append("symptom", "h1")
    with attributed(Origin("main", controller="splice", cause=symptom.seq)):
        decided = log.append("recovery.decided", "h1")
        with attributed(Origin(owner="main", cause=decided.seq)):
            log.append("fabric.change", "recovery")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(log.append, "note", "another thread").result()
    log.append("note", "later")
    found = [event.origin for event in read_events(tmp_path / "events.jsonl")]
    assert found == [
        Origin(job="main"),
        Origin("main", "", "splice", symptom.seq),
        Origin("main", "main", "splice", decided.seq),
        NOWHERE,
        NOWHERE,
    ]


def test_an_error_ends_the_attribution(log):
    with pytest.raises(LabError), attributed(Origin(cause=3)):
        raise LabError("it failed")
    assert log.append("note").origin is NOWHERE


def test_an_event_of_an_unknown_kind_is_refused_and_not_counted(log):
    with pytest.raises(ValueError, match="'stepp' is not a kind of event"):
        log.append("stepp")
    assert log.append("step").seq == 0


def test_closing_the_event_log_twice_is_harmless(log):
    log.close()
    log.close()


def test_an_existing_event_log_is_never_overwritten(log, tmp_path):
    with pytest.raises(FileExistsError):
        EventLog(tmp_path / "events.jsonl")


FULL_DISK = """
import resource, sys
from pathlib import Path
from testbed.errors import LabError
from testbed.record.journal import Journal
from testbed.record.log import EventLog
log, journal = EventLog(Path("events.jsonl")), Journal(Path("journal.jsonl"))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for write in (lambda: log.append("note", text="x" * 100), lambda: journal.record_undo("x" * 100)):
    try:
        for _ in range(20):
            write()
    except LabError as error:
        print(error)
"""


def test_appending_an_event_on_a_full_disk_raises_an_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK], cwd=tmp_path, capture_output=True, text=True
    )
    log, journal = done.stdout.splitlines()
    assert log.startswith("writing the event log failed: [Errno 27]")
    assert journal.startswith("writing the undo journal failed: [Errno 27]")
    assert "nothing was changed" in journal
    assert "free space" in log
    assert "free space" in journal


def test_a_full_disk_is_no_error_once_the_record_is_optional(log, tmp_path, full_disk):
    heard = []
    log.subscribe(heard.append)
    log.append("phase", "trials")
    with full_disk():
        with pytest.raises(LabError, match="writing the event log failed"):
            log.append("step")
        log.required = False
        log.append("phase", "restore")
        with pytest.raises(LabError, match="writing the event log failed"):
            log.close()
    assert heard[-1].subject == "restore"
    assert [event.subject for event in read_events(tmp_path / "events.jsonl")] == ["trials"]


def test_events_kept_back_by_a_full_disk_are_written_later(log, tmp_path, full_disk):
    with full_disk(), pytest.raises(LabError):
        log.append("step")
    log.append("phase", "restore")
    assert [event.seq for event in read_events(tmp_path / "events.jsonl")] == [0, 1]


def test_an_event_can_hold_any_text(log, tmp_path):
    error = json.loads(r'"there is no file caf\udce9"')  # as an agent may send it
    log.append("cleanup.end", error, problem=error)
    (event,) = read_events(tmp_path / "events.jsonl")
    assert (event.subject, event.data["problem"]) == (error, error)


def test_a_failing_subscriber_does_not_stop_others_once_the_record_is_optional(log):
    heard = []

    def fail(event):
        raise BrokenPipeError

    log.subscribe(fail)
    log.subscribe(heard.append)
    with pytest.raises(BrokenPipeError):
        log.append("step")
    log.required = False
    log.append("phase", "restore")
    assert [event.subject for event in heard] == ["restore"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The bytes of a log whose text needs more than ASCII, and has odd ends of line in it."""
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    log = EventLog(path)
    for number in range(8):
        log.append("link.good", "h0.p1–h1.p0", text=f"µ\u2028\u0085\x0c\n{number}")
    log.close()
    return path.read_bytes()


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_cut_at_any_byte_gives_the_events_before_the_cut(recorded, tmp_path, data):
    cut = data.draw(st.integers(0, len(recorded)))
    path = tmp_path / "cut.jsonl"
    path.write_bytes(recorded[:cut])
    lines = recorded[: cut + 1].count(b"\n")  # a line that lacks only its end is there
    assert [event.seq for event in read_events(path)] == list(range(lines))


def test_an_invalid_line_before_the_last_is_reported_as_a_corrupt_file(recorded, tmp_path):
    lines = recorded.splitlines(keepends=True)
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"".join([lines[0], lines[1][:20] + b"\n", *lines[2:]]))
    with pytest.raises(UsageError, match=r"broken\.jsonl:2: "):
        list(read_events(path))


def test_undecodable_bytes_are_reported_as_a_corrupt_file(recorded, tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b'{"\xff": 1}\n' + recorded)
    with pytest.raises(UsageError, match=r"broken\.jsonl:1: "):
        list(read_events(path))


def test_a_missing_event_log_is_named_in_the_error(tmp_path):
    with pytest.raises(UsageError, match=r"none\.jsonl failed: No such file"):
        list(read_events(tmp_path / "none.jsonl"))


def test_every_line_is_json_that_other_tools_read(recorded):
    rows = [json.loads(line) for line in recorded.decode().split("\n")[:-1]]
    assert all(row.keys() == {"seq", "t", "kind", "subject", "data"} for row in rows)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_cut_at_any_byte_is_resumed_in_order(recorded, tmp_path, data):
    path = tmp_path / "cut.jsonl"
    path.write_bytes(recorded[: data.draw(st.integers(0, len(recorded)))])
    before = list(read_events(path))
    resumed = EventLog.resume(path)
    resumed.append("note", "a run")
    resumed.close()
    *kept, added = read_events(path)
    assert kept == before
    assert added.seq == len(before)
    assert not before or added.t >= before[-1].t


def test_a_resumed_log_times_events_by_the_wall_clock(tmp_path):
    path = tmp_path / "events.jsonl"
    first = EventLog(path)
    first.append("run.begin", started=(datetime.now(UTC) - timedelta(hours=2)).isoformat())
    first.close()
    resumed = EventLog.resume(path)
    assert 7200 <= resumed.append("note").t < 7260
    resumed.close()


def test_events_of_kinds_that_are_not_wanted_are_left_out(log, tmp_path):
    kinds = ("run.begin", "step", "note", "sample", "step", "clock.offset")
    for number, kind in enumerate(kinds):
        log.trial = number or None
        log.append(kind, kind)
    found = read_events(tmp_path / "events.jsonl", without=("step", "sample"))
    assert [event.kind for event in found] == ["run.begin", "note", "clock.offset"]
