"""The trace of a run: what is in it, that it nests, and that its times are those of the profile."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.rail_profile import rail_profile
from testbed.analysis.rail_spans import rail_spans
from testbed.analysis.trace import Trace, background
from testbed.events.origin import Origin
from testbed.record.log import read_events
from tests.unit.analysis.logs_by_hand import Log

DATA = Path(__file__).parent / "data"
GROUPS, TRAINING = DATA / "groups.jsonl", DATA / "hybrid.jsonl"
DP, PP = "h0.p0–h1.p0", "h0.p0–h2.p0"


def traced(events, trial=None):
    events = list(events)
    trace = Trace(background(events), trial)
    return json.loads(json.dumps(list(trace.rows(events)))), trace


def by_thread(rows):
    """Return the complete events of each thread by the names of its process and itself."""
    processes = {r["pid"]: r["args"]["name"] for r in rows if r["name"] == "process_name"}
    names = {(r["pid"], r["tid"]): r["args"]["name"] for r in rows if r["name"] == "thread_name"}
    found = defaultdict(list)
    for row in rows:
        if row["ph"] == "X":
            found[processes[row["pid"]], names[row["pid"], row["tid"]]].append(row)
    return found


def nanoseconds(row):
    begin = round(row["ts"] * 1000)
    return begin, begin + round(row["dur"] * 1000)


def require_nested(rows):
    """Fail unless the complete events of each thread are after each other, or in each other."""
    for thread, own in by_thread(rows).items():
        open_ends = []
        for begin, last in sorted(map(nanoseconds, own), key=lambda span: (span[0], -span[1])):
            assert last >= begin
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or last <= open_ends[-1], (thread, begin)
            open_ends.append(last)


def communication(rows):
    """Return of each rank what it communicated: group and number, begin and end."""
    found = defaultdict(list)
    for (_, name), own in by_thread(rows).items():
        for row in own:
            if row["cat"] == "communication":
                begin, end = row["ts"], row["ts"] + row["dur"]
                found[name].append((row["name"], pytest.approx(begin), pytest.approx(end)))
    return found


@pytest.mark.parametrize("log", [GROUPS, TRAINING], ids=["samples", "training"])
def test_the_trace_has_each_operation_of_the_profile_at_its_time(log):
    events = list(read_events(log))
    rows, _ = traced(events)
    require_nested(rows)
    profile, of_rank = rail_profile(events, "a run"), communication(rows)
    assert len(of_rank) == profile.ranks == 8
    for iteration in profile.iterations:
        for rank, own in enumerate(iteration):
            for each in own.operations:
                said = (f"{each.group} {each.number}", each.begin * 1e6, each.end * 1e6)
                assert said in of_rank[f"rank {rank}"]


def test_the_trace_of_a_job_not_on_rails_has_no_waiting_for_circuits():
    rows, trace = traced(read_events(TRAINING))
    assert {row["cat"] for row in rows if row["ph"] == "X"} == {"step", "compute", "communication"}
    assert trace.seen.isdisjoint({"circuits", "faults"})


def test_a_step_that_its_operations_told_of_is_traced_once():
    events = list(read_events(TRAINING))
    both = []
    for event in events:
        both.append(event)
        if event.kind == "operations":
            said = event.data | {"collective": [event.data["end"]] * 2, "algorithm": "ring"}
            both.append(replace(event, kind="step", data=said))
    assert traced(both)[0] == traced(events)[0]


def test_each_host_is_a_process_and_each_rank_a_thread_with_its_number():
    rows, _ = traced(read_events(GROUPS))
    assert set(by_thread(rows)) == {(f"h{rank // 2}", f"rank {rank}") for rank in range(8)}
    assert {r["tid"] for r in rows if r.get("cat") == "step"} == set(range(8))


def on_rails(log, t, rank, number, reached, lit, job="main"):
    """Write a timed collective that came to its end at `t`, of 64 bytes."""
    host, ahead = f"h{rank}", log.ahead[f"h{rank}"]
    stamps = {"reached": reached, "lit": lit, "begin": lit, "end": t}
    said = {name: stamp + ahead for name, stamp in stamps.items()}
    said |= {"host": host, "rank": rank, "mono": t + ahead, "generation": 1, "step": number}
    said |= {"size": 64, "iteration": number, "bytes": 64, "dimension": "dp", "members": [0, 1]}
    log.write(t + 0.001, "sample", f"rank {rank}", origin=Origin(job), **said)


def change(log, at, circuits, owner, trial=0):
    data = {"circuits": circuits, "commanded": at, "steady": at + 0.001}
    log.write(at + 0.002, "fabric.change", "rails", trial, Origin("main", owner), **data)


@pytest.fixture
def log():
    """Return a log of two ranks on a rail: two collectives, the first after a change."""
    log = Log(ahead=10.0)
    log.measure(0.0)
    change(log, 0.5, [DP], "main.rail0.dp0")
    log.begin(1.0, arm="slow")
    for rank in (0, 1):
        on_rails(log, 2.0, rank, 0, 1.25, 1.75)
    change(log, 2.5, [PP], "main.rail0.pp0")
    log.write(2.75, "link.good", PP, host="h0", mono=12.75)
    for rank in (0, 1):
        on_rails(log, 4.0, rank, 1, 3.0, 3.5)
    log.write(4.25, "fault.inject", "h1", sent=4.2, rank=1, fault="straggler")
    log.write(4.5, "recovery.decided", "h1", because="it is late", replacement="")
    log.end(5.0)
    return log


def test_a_rank_computes_waits_for_circuits_and_communicates_in_turn(log):
    rows, _ = traced(log.events)
    require_nested(rows)
    told = [(r["name"], r["ts"], r["dur"]) for r in by_thread(rows)["h1", "rank 1"]]
    assert told == [
        ("step 0", 1.25e6, 0.75e6),
        ("waiting for circuits", 1.25e6, 0.5e6),
        ("dp0 0", 1.75e6, 0.25e6),
        ("step 1", 2e6, 2e6),
        ("compute", 2e6, 1e6),
        ("waiting for circuits", 3e6, 0.5e6),
        ("dp0 1", 3.5e6, 0.5e6),
    ]
    (first,) = (r for r in by_thread(rows)["h1", "rank 1"] if r["name"] == "dp0 0")
    assert first["args"] == {"bytes": 64, "ranks": [0, 1], "waits": "all"}


def test_what_is_before_a_collective_of_another_size_is_not_called_compute(log):
    changed = [
        replace(e, data={**e.data, "size": e.data["step"]}) if e.kind == "sample" else e
        for e in log.events
    ]
    names = [row["name"] for row in traced(changed)[0]]
    assert "step 1" in names and "compute" not in names


def test_a_circuit_is_dark_from_its_command_until_it_is_lit_or_steady(log):
    rows, _ = traced(log.events)
    found = by_thread(rows)
    told = {
        thread: [(r["name"], r["ts"], r["dur"]) for r in own]
        for (process, thread), own in found.items()
        if process == "circuits of main.rail0"
    }
    assert told == {
        DP: [("dp0, dark", 0.5e6, 1000), ("dp0", 501000, 1999000)],
        PP: [("pp0, dark", 2.5e6, 0.25e6), ("pp0", 2.75e6, 2.25e6)],
    }
    for span in rail_spans(log.events, 0):
        first, *_ = found["circuits of main.rail0", span.circuit]
        assert first["ts"] == span.commanded * 1e6
        assert span.lit is None or first["ts"] + first["dur"] == span.lit * 1e6


def test_a_circuit_that_was_removed_before_it_was_lit_is_dark_until_then():
    log = Log()
    change(log, 1.0, [DP], "main.rail0.dp0")
    change(log, 1.5, [PP], "main.rail0.pp0")
    log.events[0].data["steady"] = 1.75
    rows, _ = traced(log.events)
    require_nested(rows)
    assert [(r["ts"], r["dur"]) for r in by_thread(rows)["circuits of main.rail0", DP]] == [
        (1e6, 0.5e6)
    ]


def test_trials_faults_and_decisions_of_controllers_are_marked(log):
    rows, trace = traced(log.events)
    marks = [(r["cat"], r["name"], r["ts"]) for r in rows if r["ph"] == "i"]
    assert marks == [
        ("trials", "trial.begin slow", 1e6),
        ("faults", "fault.inject straggler h1", 4.2e6),
        ("controllers", "recovery.decided h1", 4.5e6),
        ("trials", "trial.end warm", 5e6),
    ]
    assert trace.seen == {"ranks", "circuits", "trials", "faults", "controllers"}


def test_one_trial_is_traced_without_the_others(log):
    for event in list(log.events):
        if event.trial == 0 and event.kind != "fabric.change":
            log.events.append(replace(event, trial=1))
    rows, _ = traced(log.events, trial=1)
    assert {r["args"].get("trial") for r in rows if r.get("cat") == "step"} == {1}
    assert not [row for row in rows if row.get("cat") == "change"]
    assert len([row for row in rows if row["ph"] == "i"]) == 4


def test_a_step_of_a_ring_shows_its_sum_between_computing():
    log = Log(ahead=5.0)
    log.measure(0.0)
    log.step(1.0, 0, algorithm="ring")
    log.step(1.1, 1, algorithm="ring")
    rows, _ = traced(log.events)
    require_nested(rows)
    told = [(r["name"], r["cat"], r["ts"]) for r in by_thread(rows)["h3", "rank 3"][:3]]
    assert told == [
        ("step 0", "step", 0.9e6),
        ("compute", "compute", 0.9e6),
        ("ring 0", "communication", 0.96e6),
    ]


def test_ranks_of_several_jobs_on_one_host_are_in_processes_of_their_jobs(log):
    on_rails(log, 4.0, 1, 0, 3.0, 3.5, job="other")
    rows, _ = traced(log.events)
    require_nested(rows)
    assert {("h1 (main)", "rank 1"), ("h1 (other)", "rank 1")} <= set(by_thread(rows))


def test_ranks_on_a_host_whose_clock_was_not_measured_are_left_out_and_named(log):
    events = [e for e in log.events if (e.kind, e.subject) != ("clock.offset", "h1")]
    rows, trace = traced(events)
    assert trace.unmeasured == {"h1"}
    assert ("h0", "rank 0") in by_thread(rows) and ("h1", "rank 1") not in by_thread(rows)
