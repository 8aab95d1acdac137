"""All-to-alls of four ranks on a rail, one matching after the other, in a recorded run.

The log is that of an `allreduce` with `mesh: {ep: 4, tp: 2}` on the twin of configs/rails.yaml,
without what no test here needs.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_monitor import monitor
from testbed.analysis.rail_profile import rail_profile
from testbed.rails.profile import Group, stages_of
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.workload import workload_of
from testbed.record.log import read_events

LOG = Path(__file__).parent / "data" / "exchanges.jsonl"
WITH_0 = [6, 4, 2]
"""Whom rank 0 meets in the three matchings of its group."""


@pytest.fixture(scope="module")
def events():
    return list(read_events(LOG))


@pytest.fixture(scope="module")
def profile(events):
    return rail_profile(events, "a run")


def test_an_exchange_is_an_operation_of_two_ranks_in_each_matching(profile):
    assert profile.groups["ep1"] == Group((1, 3, 5, 7), "rail1")
    for ranks in profile.iterations:
        exchanged = [each for each in ranks[0].operations if each.group == "ep0"]
        assert [each.ranks for each in exchanged] == [(0, other) for other in WITH_0]
        for rank, own in enumerate(ranks):
            assert [each.group[:2] for each in own.operations] == ["ep", "ep", "ep", "tp"]
            stages = [each.stage for each in stages_of(own.operations, profile.groups)]
            assert [len(stage.ranks) for stage in stages] == [2, 2, 2]
            for each in own.operations[:3]:
                (other,) = {*each.ranks} - {rank}
                number = (each.group, each.number)
                assert number in [(one.group, one.number) for one in ranks[other].operations]


@pytest.mark.parametrize("ports", [1, 2])
def test_on_demand_an_exchange_of_four_ranks_has_three_changes_of_its_rail(profile, ports):
    workload = workload_of(profile)
    still, slow = (replay(workload, Rails(delay, ports=ports)).iteration for delay in (0.0, 0.1))
    assert slow - still == pytest.approx(0.3, abs=1e-6)


def test_no_circuit_went_under_traffic(events):
    seen = monitor(events)
    assert (seen.found, seen.not_judged) == ((), ())
    assert seen.collectives == 8 * 6 * (3 + 1)
    # Six exchanges and a warm-up on two rails; what the first change removed the log does not tell.
    assert seen.removed == 2 * 7 * 3 * 2 - 2


@pytest.mark.parametrize("matching", range(3))
def test_a_circuit_that_goes_in_the_matching_of_its_ranks_is_found_and_in_another_it_is_none(
    events, matching
):
    clocks = Clocks(e for e in events if e.kind in ("host.ready", "clock.offset"))
    samples = [e for e in events if e.kind == "sample" and e.data["dimension"] == "ep"]
    sample = max((e for e in samples if e.data["rank"] == 0), key=lambda e: longest(e, matching))
    _, _, _, begin, end, _ = sample.data["matchings"][matching]
    at = (clocks.instant(sample, begin).late + clocks.instant(sample, end).early) / 2
    for other in (2, 4, 6):
        circuit = f"h0.p0–h{other // 2}.p0"
        seen = monitor(with_removal(events, circuit, at))
        assert seen.removed == 1
        is_used = other == WITH_0[matching]
        assert [found.ranks for found in seen.found] == [(0, other)] * is_used


def longest(sample, matching):
    return sample.data["matchings"][matching][4] - sample.data["matchings"][matching][3]


def with_removal(events, circuit, at):
    """Return the log without its own changes, and with one that removes a circuit."""
    model = next(e for e in events if e.kind == "fabric.change")

    def change(seq, when, circuits):
        return replace(model, seq=seq, data={**model.data, "commanded": when, "circuits": circuits})

    others = [e for e in events if e.kind != "fabric.change"]
    return [change(-2, 0.0, [circuit]), *others, change(-1, at, [])]
