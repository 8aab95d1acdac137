"""An iteration as lanes: what is drawn stands where the profile, the replay and the log have it."""

from pathlib import Path

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_lanes import (
    COMPUTE,
    STALL,
    lanes_of_iteration,
    measured_lanes,
    replayed_lanes,
)
from testbed.analysis.rail_profile import rail_profile
from testbed.analysis.rail_spans import CircuitSpan
from testbed.analysis.rail_times import profile_of
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.workload import workload_of
from testbed.record.log import read_events
from tests.unit.analysis.test_rail_prediction import planted
from tests.unit.rails.profiles import two_stages

DATA = Path(__file__).parent / "data"
MODES = ("on-demand", "provisioned", "learned")


def recorded(log):
    return rail_profile(read_events(DATA / log), log)


def on_rails(dark):
    events = planted(dark)
    return profile_of(0, events, Clocks(events))


PROFILES = {
    "collectives": recorded("groups.jsonl"),
    "training": recorded("hybrid.jsonl"),
    "rails": on_rails(0.035),
}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_bar_of_a_rank_stands_where_the_profile_has_it(profile):
    last = profile.iterations[-1]
    zero = min(own.begin for own in last)
    lanes = measured_lanes(profile).ranks
    assert len(lanes) == profile.ranks
    for own, bars in zip(last, lanes, strict=True):
        said = [(o.group, o.lit - zero, o.end - zero) for o in own.operations if o.end > o.lit]
        waits = [(o.begin - zero, o.lit - zero) for o in own.operations if o.lit > o.begin]
        drawn = [bar for bar in bars if bar.what not in (COMPUTE, STALL)]
        assert [(bar.what, bar.begin, bar.end) for bar in drawn] == said
        assert [(bar.begin, bar.end) for bar in bars if bar.what == STALL] == waits
        assert (bars[0].begin, bars[-1].end) == (own.begin - zero, own.end - zero)
        assert [bar.begin for bar in bars[1:]] == [bar.end for bar in bars[:-1]]
    assert min(bars[0].begin for bars in lanes) == 0.0


def test_a_rank_on_rails_computes_stalls_and_communicates_in_turn():
    (first, *_) = measured_lanes(on_rails(0.035)).ranks
    # 100 ms of compute, a change of 35 ms with 10 ms of control, a collective of 20 ms.
    whats = [bar.what for bar in first]
    assert whats == [COMPUTE, STALL, "dp0", COMPUTE, STALL, "pp0"]
    assert [bar.end for bar in first] == pytest.approx([0.1, 0.145, 0.165, 0.265, 0.31, 0.33])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_predicted_lanes_sum_up_to_the_iteration_of_the_replay(profile, mode):
    workload = workload_of(profile)
    found = replay(workload, Rails(0.05, mode))
    each = len(workload.iterations)
    ends = [list(workload.offsets)]
    for number in range(1 + max(one.task.iteration for one in found.ran)):
        lanes = lanes_of_iteration(workload, found, number)
        took = [sum(bar.end - bar.begin for bar in bars) for bars in lanes.ranks]
        ends.append([at + more for at, more in zip(ends[-1], took, strict=True)])
    assert max(ends[-1]) == pytest.approx(found.took)
    assert (max(ends[-1]) - max(ends[-1 - each])) / each == pytest.approx(found.iteration)
    assert replayed_lanes(workload, found) == lanes


def test_a_predicted_stall_on_demand_ends_with_the_change_that_it_waits_for():
    workload = workload_of(two_stages(forward=0.4, between=0.2))
    lanes = replayed_lanes(workload, replay(workload, Rails(0.05)))
    over = {round(bar.end, 9) for bar in lanes.rails["rail0"]}
    stalls = [bar for bars in lanes.ranks for bar in bars if bar.what == STALL]
    assert len(stalls) == 8
    assert {round(bar.end, 9) for bar in stalls} == over
    assert all(bar.end - bar.begin == pytest.approx(0.05) for bar in lanes.rails["rail0"])


def test_a_predicted_change_within_its_window_begins_before_the_ranks_come():
    workload = workload_of(two_stages(forward=0.4, between=0.2))
    lanes = replayed_lanes(workload, replay(workload, Rails(0.05, "provisioned")))
    assert not any(bar.what == STALL for bars in lanes.ranks for bar in bars)
    pipeline, data = (bar for bar in lanes.rails["rail0"] if bar.what in ("pp1", "dp1"))
    assert (data.begin, data.end) == pytest.approx((0.45, 0.5)), "ranks come at 0.65 s"
    assert (pipeline.begin, pipeline.end) == pytest.approx((0.0, 0.05))


def test_changes_stand_below_from_their_command_until_all_their_circuits_are_lit():
    profile = on_rails(0.035)
    zero = min(own.begin for own in profile.iterations[-1])

    def span(group, commanded, lit, circuit="a–b", rail="rail0"):
        until = None if lit is None else zero + lit
        owner = f"main.{rail}.{group}"
        return CircuitSpan(circuit, owner, 0, zero + commanded, lit=until)

    spans = [
        span("pp0", -0.2, -0.1),  # over before the iteration
        span("dp0", -0.03, 0.02),
        span("pp0", 0.1, 0.14),
        span("pp0", 0.1, 0.15, "c–d"),
        span("dp0", 0.2, None),  # never lit
        span("dp0", 0.9, 1.0),  # after it
        span("dp0", 0.1, 0.2, rail="rail7"),  # of another job
    ]
    lanes = measured_lanes(profile, spans)
    assert lanes.rails.keys() == {"rail0"}
    bars = lanes.rails["rail0"]
    assert [bar.what for bar in bars] == ["dp0", "pp0"]
    times = [at for bar in bars for at in (bar.begin, bar.end)]
    assert times == pytest.approx([-0.03, 0.02, 0.1, 0.15])
    assert measured_lanes(profile, []).rails == {"rail0": ()}
    assert measured_lanes(profile).rails == {}
