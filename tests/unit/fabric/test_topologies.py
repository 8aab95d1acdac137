"""Topologies as links between ranks, against their definitions taken word by word."""

from collections import Counter
from itertools import combinations, product
from math import ceil, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.fabric.fibre_plant import circuits_of_links, rank_ports
from testbed.fabric.links import link, links_between, renumbered, ring_ports, side_by_side
from testbed.fabric.topologies import (
    TOPOLOGIES,
    AllToAll,
    Graph,
    Pairs,
    Rails,
    Ring,
    TimeSlots,
    Torus,
    name_of,
    summary,
)
from testbed.fabric.topology import ring

fibres = st.integers(1, 3)
spare_ports = st.integers(0, 2)


@st.composite
def rings(draw):
    each, ranks = draw(fibres), draw(st.integers(1, 9))
    return Ring(each), ranks, 2 * each + draw(spare_ports)


@st.composite
def pairings(draw):
    each, stride = draw(fibres), draw(st.integers(1, 4))
    ranks = 2 * stride * draw(st.integers(1, 3))
    return Pairs(stride, each), ranks, each + draw(spare_ports)


@st.composite
def tori(draw):
    each = draw(st.integers(1, 2))
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    needed = 2 * each * sum(size > 1 for size in shape)
    return Torus(shape, each), prod(shape), needed + draw(spare_ports)


@st.composite
def all_to_alls(draw):
    each, ranks = draw(st.integers(1, 2)), draw(st.integers(1, 9))
    return AllToAll(each), ranks, draw(st.integers(each, 8))


@st.composite
def pair_lists(draw, ranks):
    pairs = st.sampled_from(list(combinations(range(ranks), 2)))
    return tuple(draw(st.lists(pairs, max_size=8)))


@st.composite
def graphs(draw):
    ranks = draw(st.integers(2, 6))
    return Graph(draw(pair_lists(ranks))), ranks, 8


@st.composite
def slot_tables(draw):
    ranks = draw(st.integers(2, 6))
    return TimeSlots(tuple(draw(st.lists(pair_lists(ranks), min_size=1, max_size=4)))), ranks, 8


@st.composite
def rails(draw):
    each, ranks, ports = draw(st.one_of(rings(), pairings(), all_to_alls()))
    per_host = draw(st.integers(1, 3))
    return Rails(per_host, each), ranks * per_host, ports


EVERY = {
    "all-to-all": all_to_alls(),
    "graph": graphs(),
    "pairs": pairings(),
    "rails": rails(),
    "ring": rings(),
    "time-slots": slot_tables(),
    "torus": tori(),
}


def pairs_of(links):
    """Count how many links join each two ranks."""
    return Counter((a, b) for (a, _), (b, _) in links)


@pytest.mark.parametrize("name", TOPOLOGIES)
@given(data=st.data())
def test_every_port_is_in_at_most_one_link_of_a_matching(name, data):
    topology, ranks, ports = data.draw(EVERY[name])
    assert type(topology) is TOPOLOGIES[name]
    matchings = topology.matchings(ranks, ports)
    assert matchings
    for links in matchings:
        ends = [end for both in links for end in both]
        assert len(ends) == len(set(ends))
        assert all(0 <= rank < ranks and 0 <= port < ports for rank, port in ends)
        assert all(one < other and one[0] != other[0] for one, other in links)


@given(rings().filter(lambda case: case[1] > 1))
def test_a_ring_joins_each_rank_with_the_next(case):
    topology, ranks, ports = case
    (links,) = topology.matchings(ranks, ports)
    expected = Counter()
    for rank in range(ranks):
        expected[tuple(sorted((rank, (rank + 1) % ranks)))] += topology.fibres
    assert pairs_of(links) == expected


@given(st.integers(1, 8), st.integers(2, 5))
def test_a_ring_of_one_fibre_has_the_circuits_of_the_ring_of_hosts(ranks, per_host):
    hosts = [f"h{rank}" for rank in range(ranks)]
    ports = {host: [f"p{number}" for number in range(per_host)] for host in hosts}
    (links,) = Ring().matchings(ranks, per_host)
    assert circuits_of_links(links, rank_ports(hosts, ports)) == ring(hosts, ports)


@given(fibres)
def test_two_ranks_with_ports_for_one_side_are_joined_once(each):
    assert Ring(each).matchings(2, each) == Pairs(fibres=each).matchings(2, each)


@given(tori())
def test_torus_neighbours_differ_by_one_along_one_axis(case):
    topology, ranks, ports = case
    (links,) = topology.matchings(ranks, ports)
    places = list(product(*map(range, topology.shape)))
    expected = Counter()
    for (a, one), (b, other) in product(enumerate(places), repeat=2):
        for axis, size in enumerate(topology.shape):
            moved = (*one[:axis], (one[axis] + 1) % size, *one[axis + 1 :])
            if size > 1 and moved == other:
                expected[min(a, b), max(a, b)] += topology.fibres
    assert len(places) == ranks
    assert pairs_of(links) == expected


@given(rings())
def test_a_torus_of_one_dimension_is_a_ring(case):
    topology, ranks, ports = case
    assert Torus((ranks,), topology.fibres).matchings(ranks, ports) == case[0].matchings(
        ranks, ports
    )


@given(all_to_alls())
def test_all_to_all_joins_every_two_ranks_in_one_matching(case):
    topology, ranks, ports = case
    matchings = topology.matchings(ranks, ports)
    total = sum((pairs_of(links) for links in matchings), Counter())
    assert total == dict.fromkeys(combinations(range(ranks), 2), topology.fibres)
    assert all(set(pairs_of(links).values()) <= {topology.fibres} for links in matchings)
    rounds = ranks - 1 + ranks % 2 if ranks > 1 else 1
    assert len(matchings) == ceil(rounds / (ports // topology.fibres))


def test_all_to_all_with_a_port_for_every_peer_has_one_matching():
    (links,) = AllToAll().matchings(8, 7)
    assert len(links) == 28


@given(all_to_alls(), st.integers(0, 7))
def test_in_all_to_all_no_two_ranks_meet_twice_behind_one_port(case, port):
    topology, ranks, ports = case
    met = Counter()
    for links in topology.matchings(ranks, ports):
        met += pairs_of(each for each in links if each[0][1] == each[1][1] == port)
    assert set(met.values()) <= {1}


@given(st.integers(0, 3), st.integers(1, 3))
def test_pairs_with_a_stride_that_is_a_power_of_two_differ_in_one_bit(bit, blocks):
    stride = 2**bit
    ranks = 2 * stride * blocks
    (links,) = Pairs(stride).matchings(ranks, 1)
    assert pairs_of(links) == Counter(
        (rank, rank ^ stride) for rank in range(ranks) if rank < rank ^ stride
    )


@given(rails())
def test_each_rail_has_the_links_of_its_topology_and_none_to_other_rails(case):
    topology, ranks, ports = case
    per_host = topology.ranks_per_host
    inside = topology.each.matchings(ranks // per_host, ports)
    for number, links in enumerate(topology.matchings(ranks, ports)):
        for local in range(per_host):
            of_rail = {
                link((a // per_host, p), (b // per_host, q))
                for (a, p), (b, q) in links
                if local in (a % per_host, b % per_host)
            }
            assert of_rail == inside[number]


@given(st.data(), st.integers(2, 6), st.integers(1, 4))
def test_a_graph_is_accepted_exactly_where_no_rank_has_more_links_than_ports(data, ranks, ports):
    pairs = data.draw(pair_lists(ranks))
    degrees = Counter(rank for pair in pairs for rank in pair)
    if max(degrees.values(), default=0) > ports:
        with pytest.raises(ValueError, match="has no port left for the link of"):
            Graph(pairs).matchings(ranks, ports)
        return
    (links,) = Graph(pairs).matchings(ranks, ports)
    assert pairs_of(links) == Counter(pairs)
    ends = sorted(end for both in links for end in both)
    assert ends == [(rank, port) for rank in range(ranks) for port in range(degrees[rank])]


def test_the_links_of_each_time_slot_equal_those_of_a_graph():
    slots = (((0, 1), (2, 3)), ((0, 2),), ())
    assert TimeSlots(slots).matchings(4, 1) == tuple(
        Graph(pairs).matchings(4, 1)[0] for pairs in slots
    )


def test_links_of_a_list_are_the_same_whichever_end_is_named_first():
    assert links_between([(1, 0)], 2, 1) == links_between([(0, 1)], 2, 1) == {((0, 0), (1, 0))}


def test_combined_topologies_with_fewer_matchings_have_no_links_in_later_ones():
    pair, ring_of_three = Pairs().matchings(2, 1), AllToAll().matchings(3, 1)
    both = side_by_side(
        [
            [renumbered(links, [4, 3]) for links in pair],
            [renumbered(links, range(3)) for links in ring_of_three],
        ]
    )
    assert both[0] == {((3, 0), (4, 0))} | ring_of_three[0]
    assert both[1:] == ring_of_three[1:]


@pytest.mark.parametrize(
    ("topology", "ranks", "ports", "reason"),
    [
        (
            Ring(),
            4,
            1,
            "ring of 4 ranks with 1 fibre .* takes 2 ports on each rank, not 1: .*per round",
        ),
        (Ring(2), 3, 3, "with 2 fibres to each neighbour takes 4 ports on each rank, not 3"),
        (Ring(), 2, 0, "a ring of 2 ranks"),
        (Ring(), 0, 2, "ranks must be at least 1, not 0"),
        (Pairs(), 3, 1, "pairs at a stride of 1 take a multiple of 2 ranks, not 3"),
        (Pairs(2), 6, 1, "pairs at a stride of 2 take a multiple of 4 ranks, not 6"),
        (Pairs(fibres=2), 2, 1, "a pair with 2 fibres takes 2 ports on each rank, not 1"),
        (Torus((2, 2)), 6, 4, "a torus of 2×2 has 4 ranks, not 6"),
        (Torus((4, 4, 4)), 64, 4, "a torus of 4×4×4 .* takes 6 ports on each rank, not 4"),
        (AllToAll(2), 4, 1, "all-to-all with 2 fibres a pair takes 2 ports on each rank, not 1"),
        (AllToAll(), 4, 0, "takes 1 port on each rank, not 0"),
        (Rails(2), 5, 2, "5 ranks do not fill hosts of 2"),
        (Rails(2), 8, 1, "a ring of 4 ranks"),
        (Graph(((0, 4),)), 4, 1, "^rank 4 is not one of the 4 ranks"),
        (Graph(((0, 1), (1, 2))), 3, 1, "^rank 1 has no port left for the link of 1 and 2"),
        (Graph(((1, 1),)), 2, 2, "a link from rank 1 to itself"),
        (TimeSlots((((0, 1),), ((0, -1),))), 2, 1, "in time slot 1, rank -1 is not one of"),
    ],
)
def test_a_topology_that_the_ports_do_not_allow_is_refused_with_the_reason(
    topology, ranks, ports, reason
):
    with pytest.raises(ValueError, match=reason):
        topology.matchings(ranks, ports)


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        (Ring, [0], "fibres must be at least 1, not 0"),
        (Pairs, [0], "stride must be at least 1"),
        (Pairs, [1, -1], "fibres must be at least 1"),
        (Torus, [()], "not no axis"),
        (Torus, [(2, 0)], "at least one rank each, not 2×0"),
        (Torus, [(2, 2), 0], "fibres must be at least 1"),
        (AllToAll, [0], "fibres must be at least 1"),
        (Rails, [0], "ranks_per_host must be at least 1"),
        (TimeSlots, [()], "at least one slot"),
    ],
)
def test_impossible_options_are_refused_as_a_topology_is_made(kind, options, reason):
    with pytest.raises(ValueError, match=reason):
        kind(*options)


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=5)
@given(data=st.data())
def test_every_topology_knows_its_name_and_says_what_it_joins(name, data):
    assert name_of(data.draw(EVERY[name])[0]) == name
    assert summary(name).endswith(".")
    assert "\n" not in summary(name)


def neighbour_of(links, rank, port):
    """Return the end that a link joins with a port of a rank."""
    (found,) = [set(both) - {(rank, port)} for both in links if (rank, port) in both]
    return found.pop()


@given(st.one_of(rings(), all_to_alls()).filter(lambda case: case[1] > 1))
def test_ring_ports_lead_to_the_next_rank_and_back(case):
    topology, ranks, ports = case
    links, *others = topology.matchings(ranks, ports)
    if others:
        links = AllToAll().matchings(ranks, ranks)[0]  # all are joined at once
    found = ring_ports(links, ranks)
    for rank, (_, to_next) in enumerate(found):
        after = (rank + 1) % ranks
        assert neighbour_of(links, rank, to_next) == (after, found[after][0])
        joined = [port for both in links for at, port in both if at == rank and after in pair(both)]
        assert to_next == max(joined)


def pair(both):
    return {rank for rank, _ in both}


@given(fibres, st.integers(3, 9), spare_ports)
def test_every_rank_of_a_ring_has_the_same_ring_ports(each, ranks, spare):
    (links,) = Ring(each).matchings(ranks, 2 * each + spare)
    assert set(ring_ports(links, ranks)) == {(each - 1, 2 * each + spare - 1)}


def test_ranks_that_are_not_joined_in_a_ring_are_named():
    with pytest.raises(ValueError, match=r"^rank 1 is not joined with rank 2$"):
        ring_ports(Torus((2, 2)).matchings(4, 4)[0], 4)
    with pytest.raises(ValueError, match=r"^rank 2 is not joined with rank 0$"):
        ring_ports(Graph(((0, 1), (1, 2))).matchings(3, 2)[0], 3)
