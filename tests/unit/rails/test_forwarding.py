"""Groups that are forwarded over other rails: which, what that costs, and that it is predicted."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.rails.forwarding import MARGIN, Costs, costs, forwarded, routes, sharers
from testbed.rails.optimum import optimum
from testbed.rails.profile import Group
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import forwarding, replay
from testbed.rails.workload import IterationParts, Part, Workload

HOSTS = tuple(f"h{rank // 2}" for rank in range(8))
PAIRS = {"dp": [(0, 4), (1, 5), (2, 6), (3, 7)], "pp": [(0, 2), (1, 3), (4, 6), (5, 7)]}
GROUPS = {
    f"{name}{number}": Group(ranks, f"rail{ranks[0] % 2}")
    for name, pairs in PAIRS.items()
    for number, ranks in enumerate(pairs)
}
MODES = ("on-demand", "provisioned", "learned")


def workload(took, gap=0.08, hosts=HOSTS):
    """Return an iteration of eight ranks on two rails: a stage along dp, then one along pp."""
    each = []
    for rank in range(8):
        mine = [name for name, group in GROUPS.items() if rank in group.ranks]
        parts = (Part(name, 0, GROUPS[name].ranks, gap, took) for name in mine)
        each.append(IterationParts(tuple(parts)))
    return Workload(GROUPS, (tuple(each),), (0.0,) * 8, hosts=hosts)


def test_each_pair_of_hosts_keeps_a_rail_and_two_groups_share_it():
    found = routes(GROUPS, HOSTS)
    assert found is not None and found.keys() == GROUPS.keys()
    assert {rail for name, rail in found.items() if name.startswith("dp")} == {"rail0"}
    assert {rail for name, rail in found.items() if name.startswith("pp")} == {"rail1"}
    assert set(sharers(found, GROUPS, HOSTS).values()) == {2}


@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6))
def test_a_rail_is_found_for_each_pair_of_hosts_where_there_is_one(pairs):
    pairs = sorted({tuple(sorted(pair)) for pair in pairs if pair[0] != pair[1]})
    hosts = [rank // 2 for rank in range(10)]
    groups = {
        f"g{a}{b}r{rail}": Group((2 * a + rail, 2 * b + rail), f"rail{rail}")
        for a, b in pairs
        for rail in (0, 1)
    }

    def is_free(rails):
        at = [(host, rail) for pair, rail in zip(pairs, rails, strict=True) for host in pair]
        return len(at) == len(set(at))

    can_be = any(is_free(rails) for rails in product((0, 1), repeat=len(pairs)))
    are_apart = len({host for pair in pairs for host in pair}) == 2 * len(pairs)
    found = routes(groups, hosts)
    assert (found is not None) is (can_be and not are_apart)
    if found is not None:
        assert is_free([found[f"g{a}{b}r0"] for a, b in pairs])
        assert all(found[f"g{a}{b}r0"] == found[f"g{a}{b}r1"] for a, b in pairs)


def test_a_ring_of_three_hosts_whose_hosts_are_not_known_or_have_one_rank_is_not_forwarded():
    assert routes(GROUPS, ()) is None
    alone = {"a": Group((0, 1), "rail0"), "b": Group((0, 2), "rail0")}
    assert routes(alone, ("h0", "h1", "h2")) is None
    ring = {**GROUPS, "ring": Group((0, 2, 4), "rail0")}
    assert routes(ring, HOSTS) is None


def test_what_both_ways_cost_is_that_of_the_rank_for_which_it_is_most():
    windows = [((0, 4), 0.1), ((0, 2), 0.3), ((4, 6), 0.6)]
    traffic = [((0, 4), 0.02, 2), ((0, 2), 0.01, 3), ((4, 6), 0.001, 1)]
    found = costs(windows, 0.5, traffic)
    assert found == Costs(pytest.approx(0.4 + 0.2), pytest.approx(0.02 + 2 * 0.01))


def test_the_way_that_is_hardly_cheaper_is_not_taken():
    near, far = Costs(1.0, MARGIN + 0.01), Costs(1.0, MARGIN - 0.01)
    assert not near.favour_forwarding(False) and near.favour_forwarding(True)
    assert far.favour_forwarding(False)
    assert not Costs(MARGIN - 0.01, 1.0).favour_forwarding(True)


@pytest.mark.parametrize("delay", [0.01, 0.1, 0.13, 0.5])
@pytest.mark.parametrize("took", [0.002, 0.02, 0.3])
def test_a_replay_forwards_where_it_is_cheaper_and_no_mode_beats_the_optimum(delay, took):
    job = workload(took)
    found = {m: replay(job, Rails(delay, m, 1, forward=True)).iteration for m in MODES}
    apart = {m: replay(job, Rails(delay, m, 1)).iteration for m in MODES}
    stays = 2 * 0.08 + 2 * 2 * took
    assert [found[m] for m in MODES[:2]] == [apart[m] for m in MODES[:2]], "only learned forwards"
    over = forwarding(job, Rails(delay, "learned", 1, forward=True))
    assert over is not None
    if over.is_cheaper:
        assert found["learned"] == pytest.approx(stays)
        assert found["learned"] < apart["learned"]
    else:
        assert found["learned"] == apart["learned"]
        assert (
            apart["learned"] <= stays + 1e-9
            or over.costs.forwarding > MARGIN * over.costs.repointing
        )
    best = optimum(job, Rails(delay, ports=1, forward=True))
    assert best == pytest.approx(min(stays, optimum(job, Rails(delay, ports=1))))
    assert best <= min(found.values()) + 1e-9


def test_a_job_whose_hosts_are_not_known_is_replayed_without():
    rails = Rails(0.5, "learned", 1, forward=True)
    assert forwarding(workload(0.002, hosts=()), rails) is None
    assert replay(workload(0.002, hosts=()), rails).iteration > 0.9


def test_operations_of_groups_that_share_circuits_take_as_many_times_as_long():
    job = workload(0.01)
    slower = forwarded(job, routes(GROUPS, HOSTS) or {})
    took = {part.took for own in slower.iterations[0] for part in own.parts}
    assert took == {0.02}
