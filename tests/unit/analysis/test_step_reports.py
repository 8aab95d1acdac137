"""Steps of reports in columns, against the definition of a step taken report by report."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.clocks import Clocks
from testbed.analysis.step_in_progress import StepInProgress
from testbed.analysis.step_reports import StepReports, finished_steps
from testbed.analysis.steps import Step
from testbed.events import Event

RANKS = 3
HOSTS = ("h0", "h1", "h2", "h9")
"""Nobody measures the clock of the last."""
stamps = st.floats(0.0, 40.0)
bounds = st.sampled_from([1e-5, 1e-4, 1e-3, 0.5])


def offset(t, host, ahead, bound):
    return Event(0, t, "clock.offset", host, None, {"ahead": ahead, "bound": bound})


@st.composite
def clocks(draw):
    """Return clocks measured now and again, badly at times, of hosts that start anew at times."""
    events = []
    for number, host in enumerate(HOSTS[:-1]):
        for t in sorted(draw(st.lists(stamps, min_size=1, max_size=40))):
            if draw(st.integers(0, 9)) == 0:
                events.append(Event(0, t, "host.ready", host, None, {}))
            ahead = 100.0 * number + draw(st.floats(-0.01, 0.01))
            events.append(offset(t, host, ahead, draw(bounds)))
    return Clocks(events)


@given(clocks(), st.lists(st.tuples(stamps, stamps), min_size=1, max_size=60), st.data())
def test_many_stamps_are_moved_as_each_of_them_to_the_last_bit(found, pairs, data):
    host = data.draw(st.sampled_from(HOSTS))
    number = HOSTS.index(host)
    reported = np.array([t for t, _ in pairs])
    monos = np.array([mono + 100.0 * number for _, mono in pairs])
    together = found.instants(host, reported, monos)
    events = [Event(0, t, "step", "", 0, {"host": host}) for t in reported.tolist()]
    alone = [found.instant(*one) for one in zip(events, monos.tolist(), strict=True)]
    if together is None:
        assert set(alone) == {None}
        return
    assert [*together.each()] == alone


def by_definition(reports, clocks, ranks, later=None):
    """Return the steps that so many ranks reported, each taken from its reports one by one.

    A generation that is in `later` has so many ranks instead.
    """
    of = later or {}
    groups = {}
    for report in reports:
        if report.data["rank"] is not None:
            key = (report.data["generation"], report.data["step"])
            groups.setdefault(key, []).append(report)
    steps = [
        step_of(*one, clocks) for one in groups.items() if len(one[1]) == of.get(one[0][0], ranks)
    ]
    return sorted((step for step in steps if step), key=lambda step: step.end.late)


def step_of(key, reports, clocks):
    def moved(*stamp):
        found = [clocks.instant(report, at(report.data, *stamp)) for report in reports]
        return [one for one in found if one is not None]

    begins, ends = moved("begin"), moved("end")
    if len(begins) < len(reports):
        return None
    is_sample = reports[0].kind == "sample"
    entries, exits = (
        (begins, ends) if is_sample else (moved("collective", 0), moved("collective", 1))
    )
    arrived = sorted(one.middle for one in entries)
    data = [report.data for report in reports]
    return Step(
        *key,
        begin=min(begins, key=lambda one: one.early),
        end=max(ends, key=lambda one: one.late),
        is_verified=share_digests(data) and all(one["verified"] for one in data),
        loss=next((one["loss"] for one in data if one["loss"] is not None), None),
        collective=max(one.middle for one in exits) - arrived[-1],
        skew=arrived[-1] - arrived[-2] if len(arrived) > 1 else 0.0,
        bytes_sent=max(one["bytes"] or 0 for one in data),
        choice=data[0]["choice"],
        work=f"ring {data[0]['size']}" if is_sample else "",
    )


def one_by_one(reports, clocks, ranks):
    """Return the steps that so many ranks reported, each from one report after the other."""
    steps = {}
    for report in reports:
        if report.data["rank"] is not None:
            key = (report.data["generation"], report.data["step"])
            steps.setdefault(key, StepInProgress(report)).add(report, clocks)
    found = [step.finished() for step in steps.values() if step.reports == ranks]
    return sorted((step for step in found if step), key=lambda step: step.end.late)


def share_digests(data):
    """Tell whether all with one part of the parameters have the same digest."""
    both = {(one["part"], one["digest"]) for one in data}
    return len(both) == len({part for part, _ in both})


def at(data, key, place=None):
    return data[key] if place is None else data[key][place]


@st.composite
def reports(draw):
    """Return reports of few steps: out of order, twice, of spares, on clocks nobody measured."""
    ranks = st.sampled_from([*range(RANKS)] * 8 + [None])
    found = []
    for _ in range(draw(st.integers(0, 60))):
        rank = draw(ranks)
        host = HOSTS[-1] if draw(st.integers(0, 30)) == 0 else HOSTS[rank or 0]
        begin = draw(stamps) + 100.0 * HOSTS.index(host)
        length, within = draw(st.floats(0.01, 1.0)), draw(st.floats(0.0, 1.0))
        data = {
            "host": host,
            "rank": rank,
            "generation": draw(st.integers(1, 2)),
            "step": draw(st.integers(0, 3)),
            "begin": begin,
            "end": begin + length,
            "collective": [begin + within * length, begin + length],
            "verified": draw(st.integers(0, 9)) > 0,
            "digest": draw(st.sampled_from(["a", "a", "a", "b"])),
            "part": draw(st.sampled_from([0, 0, 0, 1])),
            "loss": draw(st.sampled_from([None, 2.5, 0.125])),
            "bytes": draw(st.sampled_from([None, 1000, 2000])),
            "choice": draw(st.integers(0, 1)),
            "size": 4096,
        }
        t = begin - 100.0 * HOSTS.index(host) + draw(st.floats(-0.1, 2.0))
        found.append(Event(len(found), t, draw(st.sampled_from(KINDS)), "", 0, data))
    return found


KINDS = ["step", "step", "step", "sample"]


@given(reports(), clocks(), st.integers(1, RANKS))
def test_steps_of_columns_are_those_of_the_definition_to_the_last_bit(reported, found, ranks):
    alike = {}
    for event in reported:  # one step is of training or a timed collective, and no mixture
        alike.setdefault((event.data["generation"], event.data["step"]), event.kind)
    events = [e for e in reported if e.kind == alike[e.data["generation"], e.data["step"]]]
    expected = by_definition(events, found, ranks)
    assert finished_steps(events, found, ranks) == expected
    assert one_by_one(events, found, ranks) == expected
    assert StepReports(events).ranks == 1 + max(
        (e.data["rank"] for e in events if e.data["rank"] is not None), default=-1
    )


@given(reports(), clocks(), st.dictionaries(st.integers(1, 2), st.integers(1, RANKS)))
def test_a_generation_has_as_many_ranks_as_were_ordered_to_form_it(reported, found, later):
    events = [event for event in reported if event.kind == "step"]
    columns = StepReports(events)
    for generation, ranks in later.items():
        data = {"generation": generation, "hosts": HOSTS[:ranks]}
        columns.add_generation(Event(0, 0.0, "membership", "main", 0, data))
    expected = by_definition(events, found, RANKS, later)
    order = {(step.generation, step.number): step for step in columns.finished(found, RANKS)}
    assert order == {(step.generation, step.number): step for step in expected}
    ends = [step.end.late for step in columns.finished(found, RANKS)]
    assert ends == sorted(ends)


def test_reports_of_no_step_give_none():
    assert finished_steps([], Clocks(), 3) == []
    assert StepReports().ranks == 0
    assert StepReports().wire_overhead(1, 7) is None


@pytest.mark.parametrize("wired", [True, False])
def test_wire_overhead_is_the_median_over_the_ranks(wired):
    found = StepReports()
    for step in range(4):
        for rank, over in ((0, 1.1), (1, 1.3), (2, 1.2)):
            data = {"host": f"h{rank}", "rank": rank, "generation": 1, "step": step, "bytes": 1000}
            data |= {"begin": 0.0, "end": 1.0, "collective": [0.0, 1.0], "verified": True}
            data |= {"wire": round(7 + step * 1000 * over)} if wired else {}
            found.extend([Event(0, 1.0, "step", "", 0, data)])
    assert found.wire_overhead(1, 3) == (pytest.approx(0.2, abs=1e-3) if wired else None)
    assert found.wire_overhead(2, 3) is None
    assert found.wire_overhead(1, 0) is None, "of one step nothing was asked after the first"
