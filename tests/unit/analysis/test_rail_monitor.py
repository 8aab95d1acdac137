"""Circuits that went while a group had traffic on them are found, and no others."""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.rail_monitor import monitor
from testbed.cli import run as command_line
from testbed.events import Event
from testbed.events.origin import Origin
from testbed.record.log import read_events

LOG = Path(__file__).parent / "data" / "groups.jsonl"
TRAINING = Path(__file__).parent / "data" / "hybrid.jsonl"
LIT = ["h0.p0–h2.p0", "h1.p0–h3.p0"]
PORTS = {"p0": "02:00", "p1": "02:01"}
"""Of each host, one for each of its two ranks: rails; the log is of a lab with one for both."""


RAILS = Origin(controller="rails")


def change(seq, at, circuits, origin=RAILS):
    data = {"circuits": circuits, "removed": [], "added": [], "disturbed": []}
    data |= {"commanded": at, "read_back": at, "steady": None, "lit": None}
    return Event(seq, at + 0.01, "fabric.change", "job", data=data, origin=origin)


def recorded():
    """Return the recorded log: rank 0 and 4 are on h0 and h2, and sum along dp."""
    return [
        replace(event, data={**event.data, "hardware": PORTS})
        if event.kind == "host.ready"
        else event
        for event in read_events(LOG)
    ]


def instant_inside(events, dimension):
    """Return a time at which rank 0 was in a collective along a dimension for certain."""
    from testbed.analysis.clocks import Clocks

    clocks = Clocks(e for e in events if e.kind in ("host.ready", "clock.offset"))
    sample = next(
        e
        for e in reversed(events)
        if e.kind == "sample" and e.data["rank"] == 0 and e.data["dimension"] == dimension
    )
    begin, end = (clocks.instant(sample, sample.data[name]) for name in ("begin", "end"))
    return sample, (begin.late + end.early) / 2


def with_removal(at):
    """Return the log with circuits that were there before it, of which one is removed."""
    events = recorded()
    return [change(-2, events[0].t, LIT), *events, change(-1, at, LIT[1:])]


def test_a_planted_removal_under_traffic_is_found_with_its_ranks():
    sample, at = instant_inside(recorded(), "dp")
    seen = monitor(with_removal(at))
    assert (seen.removed, seen.collectives) == (1, 80)
    (found,) = seen.found
    assert (found.circuit, found.change, found.ranks) == (LIT[0], -1, (0, 4))
    assert found.sample in {e.seq for e in recorded() if e.data.get("step") == sample.data["step"]}
    assert str(found).startswith(
        f"circuit {LIT[0]} went at {at:.6f} s (event -1) while ranks 0 and"
    )


def test_a_removal_under_the_traffic_of_training_is_found_and_one_between_stages_is_none():
    from testbed.analysis.clocks import Clocks

    events = list(read_events(TRAINING))
    clocks = Clocks(e for e in events if e.kind in ("host.ready", "clock.offset"))
    step = next(e for e in events if e.kind == "operations" and e.data["rank"] == 4)
    *_, begin, _, end, _, _ = next(r for r in step.data["operations"] if r[0] == "dp0")
    inside = (clocks.instant(step, begin).late + clocks.instant(step, end).early) / 2
    rings = ["h0.p0–h2.p0", "h1.p0–h3.p0"]
    for at, ranks in ((inside, {(0, 4), (1, 5)}), (inside - 0.05, set())):
        seen = monitor([change(-2, events[0].t, rings), *events, change(-1, at, rings[1:])])
        assert (seen.removed, seen.collectives) == (1, 3 * 8 * 41)
        assert [found.ranks in ranks for found in seen.found] == [True] * bool(ranks)


@pytest.mark.parametrize("dimension", ["pp", "tp"])
def test_a_removal_while_other_groups_communicate_is_none(dimension):
    _, at = instant_inside(recorded(), dimension)
    seen = monitor(with_removal(at))
    assert (seen.found, seen.removed) == ((), 1)


def test_a_removal_on_the_rail_of_other_ranks_is_none():
    _, at = instant_inside(recorded(), "dp")
    events = [
        event
        for event in recorded()
        if event.kind != "sample"
        or event.data["rank"] not in (1, 5)
        or event.data["dimension"] != "dp"
    ]
    others = [circuit.replace("p0", "p1") for circuit in LIT]
    seen = monitor([change(-2, events[0].t, others), *events, change(-1, at, others[1:])])
    assert (seen.found, seen.removed) == ((), 1)


def test_removals_at_many_instants_are_found_where_each_collective_is_looked_at():
    from testbed.analysis.clocks import Clocks

    events = recorded()
    clocks = Clocks(e for e in events if e.kind in ("host.ready", "clock.offset"))
    spans = [
        (clocks.instant(e, e.data["begin"]).late, clocks.instant(e, e.data["end"]).early)
        for e in events
        if e.kind == "sample" and e.data["dimension"] == "dp" and e.data["rank"] in (0, 4)
    ]
    first, last = min(spans)[0], max(spans)[1]
    instants = [first + (last - first) * number / 500 for number in range(501)]
    log = [*events]
    for number, at in enumerate(instants):
        log += [change(2 * number, at, LIT), change(2 * number + 1, at, LIT[1:])]
    seen = monitor(log)
    expected = {at for at in instants if any(begin <= at <= end for begin, end in spans)}
    assert {found.at for found in seen.found} == expected
    assert 0 < len(expected) < len(instants)


def test_a_removal_between_collectives_is_none():
    events = recorded()
    seen = monitor(with_removal(events[-1].t + 1.0))
    assert (seen.found, seen.removed) == ((), 1)


def test_a_change_that_removes_nothing_is_none():
    _, at = instant_inside(recorded(), "dp")
    assert monitor([*recorded(), change(-1, at, LIT)]).removed == 0


def test_a_clock_that_was_not_measured_is_no_finding():
    _, at = instant_inside(recorded(), "dp")
    unmeasured = [event for event in with_removal(at) if event.kind != "clock.offset"]
    assert monitor(unmeasured).found == ()


def test_the_command_names_what_went_under_traffic(tmp_path, capsys):
    _, at = instant_inside(recorded(), "dp")
    run = tmp_path / "20261123T210543Z-groups-03cd52"
    run.mkdir()
    (run / "run.json").write_text('{"format": 1}')
    lines = [event.to_json() for event in with_removal(at)]
    (run / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert command_line(["profile", str(run), "--delay", "1 ms"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert f"unsafe: circuit {LIT[0]} went at" in page
    assert "1 of 1 circuits that were removed had traffic" in page
    assert "80 parts of collectives and 0 of stages" in page


def test_circuits_of_which_nothing_is_known_are_said_to_be_not_judged():
    _, at = instant_inside(recorded(), "dp")
    unmeasured = [event for event in with_removal(at) if event.kind != "clock.offset"]
    (why,) = monitor(unmeasured).not_judged
    assert why == f"{LIT[0]} at {at:.6f} s: the clock of h0 was not measured"
    silent = [event for event in with_removal(at) if event.data.get("rank") not in (4, 5)]
    (why,) = monitor(silent).not_judged
    assert why == f"{LIT[0]} at {at:.6f} s: no rank at h2.p0 told of a stage or a collective"
    assert monitor(with_removal(at)).not_judged == ()


def test_what_another_than_the_controller_of_rails_removed_is_not_looked_at():
    _, at = instant_inside(recorded(), "dp")
    for name, looked_at in (("", 0), ("replace", 0), ("rails", 1), ("rails of main", 1)):
        seen = monitor([*with_removal(at)[:-1], change(-1, at, LIT[1:], Origin(controller=name))])
        assert (seen.removed, len(seen.found)) == (looked_at, looked_at)
