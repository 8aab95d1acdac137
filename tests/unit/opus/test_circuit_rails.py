"""Which circuits the words of shims stand for, and that none goes that a rank still uses."""

from pathlib import Path

import pytest

from testbed.fabric.fibre_plant import own_ports
from testbed.opus.circuit_rails import CircuitRails
from testbed.opus.communicators import Close, Repoint, Send
from testbed.opus.controller_side import ControllerSide
from testbed.schema import load_lab

A, B, C, D = ("A" * 64, "B" * 64, "C" * 64, "D" * 64)
CONFIGS = Path(__file__).parents[3] / "configs"


class Ranks:
    """A controller's side on a lab; client 10 × rail + host is the rank there."""

    def __init__(self, lab="rails", hosts=4, limit=10.0):
        self.lab = load_lab(CONFIGS / f"{lab}.yaml")
        self.hosts = list(self.lab.hosts)[:hosts]
        ports = own_ports(self.hosts, self.lab.ports(), 2)
        self.rails = CircuitRails(self.hosts, ports, 2, self.lab.wiring())
        self.side = ControllerSide(self.rails, {f"a{n}": n for n in range(hosts)}, limit)
        for host in range(hosts):
            for rail in (0, 1):
                self.side.connected(10 * rail + host, f"a{host}")

    def say(self, client, line, now=0.0):
        return self.side.received(client, line.encode(), now)

    def join(self, name, *clients):
        """Have clients make a communicator; return what follows from the last."""
        for client in clients:
            effects = self.say(client, f"COMM;{name},{len(clients)},{client // 10}")
        return effects

    def ask(self, name, number, counter, *clients, now=0.0):
        """Have clients ask for a stage; return all that follows."""
        line = f"CONFIG_REQ;{name},{number},{counter}"
        return [effect for client in clients for effect in self.say(client, line, now)]

    def lit(self, name, number, counter, *clients):
        """Have clients ask for a stage that needs a change, and have that made."""
        (change,) = self.ask(name, number, counter, *clients)
        return self.side.worker_done(change.rail, change.number, 0.0)


def shown(effect):
    """Return what a change removes and adds, in words."""
    assert isinstance(effect, Repoint)
    return [f"-{c}" for c in sorted(effect.move.remove)] + [
        f"+{c}" for c in sorted(effect.move.add)
    ]


def ack(name, *clients):
    return [Send(client, f"CONFIG_ACK;{name}\n".encode()) for client in clients]


def test_a_pair_gets_its_circuit_when_both_have_asked_and_is_told_when_it_is_there():
    ranks = Ranks()
    assert ranks.join(A, 0, 1)[-1] == Send(1, f"CHECKIN_ACK;{A},0\n".encode())
    assert ranks.ask(A, 2, 0, 0) == []
    (change,) = ranks.ask(A, 2, 0, 1)
    assert (change.rail, shown(change)) == (0, ["+h0.p0–h1.p0"])
    assert ranks.side.worker_done(0, change.number, 0.0) == ack(A, 0, 1)


def test_circuits_that_are_lit_are_answered_at_once():
    ranks = Ranks()
    ranks.join(A, 0, 1)
    ranks.lit(A, 2, 0, 0, 1)
    assert ranks.ask(A, 2, 1, 0, 1) == ack(A, 0, 1)
    assert [one.changed for one in ranks.side.answered] == [True, False]


def test_the_record_says_how_long_after_the_last_request_ranks_were_told():
    ranks = Ranks()
    ranks.join(A, 10, 12)
    ranks.ask(A, 2, 0, 10, now=1.0)
    (change,) = ranks.ask(A, 2, 0, 12, now=3.0)
    ranks.side.worker_done(1, change.number, 3.25)
    (one,) = ranks.side.answered
    assert (one.rail, one.asked, one.ranks, one.hosts) == (1, 2, 2, (0, 2))
    assert (one.seconds, one.changed, shown(change)) == (0.25, True, ["+h0.p1–h2.p1"])


def data_then_pipeline():
    """Return ranks whose data-parallel pairs 0–1 and 2–3 are lit, and pairs across made."""
    ranks = Ranks()
    for name, pair in ((A, (0, 1)), (B, (2, 3)), (C, (0, 2)), (D, (1, 3))):
        ranks.join(name, *pair)
    ranks.lit(A, 2, 0, 0, 1)
    ranks.lit(B, 2, 1_000_000, 2, 3)
    return ranks


def test_no_circuit_goes_before_both_its_ranks_have_asked_for_another():
    ranks = data_then_pipeline()
    assert ranks.ask(C, 11, 1_000_000, 0, 2) == []
    assert ranks.ask(D, 11, 1_000_000, 1) == []
    first, second = ranks.ask(D, 11, 1_000_000, 3)
    assert shown(first) == ["-h0.p0–h1.p0", "-h2.p0–h3.p0", "+h0.p0–h2.p0"]
    assert shown(second) == ["+h1.p0–h3.p0"]
    assert ranks.side.worker_done(0, first.number, 0.0) == ack(C, 0, 2)
    assert ranks.side.worker_done(0, second.number, 0.0) == ack(D, 1, 3)


def test_who_keeps_circuits_that_others_wait_for_is_named_after_the_limit():
    ranks = data_then_pipeline()
    ranks.ask(C, 11, 1_000_000, 0, now=2.0)
    ranks.ask(C, 11, 1_000_000, 2, now=5.0)
    assert ranks.side.wake_at() == 15.0
    effects = ranks.side.expire(15.0)
    assert [effect.client for effect in effects if isinstance(effect, Close)] == [0, 2]
    assert effects[0].why == (
        "the ranks on h1 and h3 use circuits that must go for it, and have asked for no other"
    )
    assert ranks.side.wake_at() is None


def test_a_rank_that_leaves_frees_what_others_wait_for():
    ranks = data_then_pipeline()
    ranks.ask(C, 11, 1_000_000, 0, 2)
    ranks.ask(D, 11, 1_000_000, 1)
    closed, change, *_ = ranks.side.left(3, 0.0)
    assert closed == Close(3, "it ended its line")
    assert shown(change) == ["-h0.p0–h1.p0", "-h2.p0–h3.p0", "+h0.p0–h2.p0"]


@pytest.mark.parametrize(
    ("client", "line", "why"),
    [
        (1, f"COMM;{B},2,1", "it joins as local rank 1 of h1, and has joined as local rank 0"),
        (11, f"COMM;{B},2,0", "it joins as local rank 0 of h1, which another client is"),
        (99, f"COMM;{B},2,0", "its address is that of none of h0, h1, h2, h3"),
        (0, f"COMM;{A},2,0", "client 0 (a0) has joined"),
        (0, f"CONFIG_REQ;{A},2,0", "client 0 (a0) asks with counter 0 after 0"),
    ],
)
def test_who_cannot_be_a_rank_or_asks_wrongly_loses_its_line(client, line, why):
    ranks = Ranks()
    ranks.side.connected(99, "elsewhere")
    ranks.join(A, 0, 1)
    ranks.lit(A, 2, 0, 0, 1)
    (first, *_) = ranks.say(client, line)
    assert isinstance(first, Close)
    assert first.client == client
    assert why in first.why


def test_a_group_inside_a_host_needs_no_circuits():
    ranks = Ranks()
    assert ranks.join(A, 0, 10)[-1] == Send(10, f"CHECKIN_ACK;{A},1\n".encode())
    assert ranks.ask(A, 3, 0, 0, 10) == ack(A, 0, 10)


def test_ranks_on_two_rails_cannot_ask_for_circuits():
    ranks = Ranks()
    ranks.join(A, 0, 1, 10, 11)
    (closed,) = ranks.ask(A, 0, 0, 1)
    assert closed.why == f"the ranks of {A} are on rails 0 and 1, which nothing joins"


def test_a_ring_of_ranks_with_one_port_is_refused_to_the_last_and_all_are_told():
    ranks = Ranks()
    ranks.join(A, 0, 1, 2)
    effects = ranks.ask(A, 2, 0, 2, 0, 1)
    assert [effect.client for effect in effects] == [1, 0, 2]
    assert effects[0].why.startswith("no circuits join the ranks on h0, h1, h2: a ring of 3 ranks")


def test_a_pipeline_of_four_keeps_both_neighbours_where_ranks_have_two_ports():
    ranks = Ranks("rails-wide")
    ranks.join(A, 3, 1, 0, 2)
    made = [
        ranks.ask(A, 11, 1_000_000, 0, 1),
        ranks.ask(A, 31, 3_000_000, 3, 2),
    ]
    assert [shown(change) for (change,) in made] == [["+h0.p1–h1.p0"], ["+h2.p1–h3.p0"]]
    for (change,) in made:
        ranks.side.worker_done(0, change.number, 0.0)
    (change,) = ranks.ask(A, 21, 2_000_000, 2, 1)
    assert shown(change) == ["+h1.p1–h2.p0"]


def test_the_circuits_of_a_client_that_vanishes_are_removed():
    ranks = Ranks()
    ranks.join(A, 0, 1)
    ranks.lit(A, 2, 0, 0, 1)
    closed, change = ranks.side.left(1, 0.0)
    assert (closed.client, shown(change)) == (1, ["-h0.p0–h1.p0"])
    assert ranks.side.worker_done(0, change.number, 0.0) == []
    assert ranks.side.left(0, 0.0) == [Close(0, "it ended its line")]


def test_a_circuit_that_is_made_for_a_client_that_has_vanished_since_is_removed_again():
    ranks = Ranks()
    ranks.join(A, 0, 1)
    (change,) = ranks.ask(A, 2, 0, 0, 1)
    assert ranks.side.left(1, 0.0) == [Close(1, "it ended its line")]
    told, again = ranks.side.worker_done(0, change.number, 0.0)
    assert [told] == ack(A, 0)
    assert shown(again) == ["-h0.p0–h1.p0"]


def test_a_change_that_fails_ends_the_lines_of_who_asked_and_leaves_what_is_there():
    ranks = data_then_pipeline()
    there = frozenset(c for lane in ranks.rails._lanes for c in lane._state.lit)
    ranks.ask(C, 11, 1_000_000, 0, 2)
    first, second = ranks.ask(D, 11, 1_000_000, 1, 3)
    assert ranks.side.worker_failed(0, "no", 0.0, second.number, there)[0] == Close(
        1, "the circuits of rail 0 could not be changed: no"
    )
    effects = ranks.side.worker_failed(0, "the switch refused", 0.0, first.number, there)
    assert effects[0] == Close(0, "the circuits of rail 0 could not be changed: the switch refused")
    assert {effect.client for effect in effects if isinstance(effect, Close)} == {0, 2}
    swept = {c for effect in effects if isinstance(effect, Repoint) for c in shown(effect)}
    assert swept == {"-h0.p0–h1.p0", "-h2.p0–h3.p0"}


def test_a_removal_that_fails_is_not_tried_for_ever():
    ranks = Ranks()
    ranks.join(A, 0, 1)
    ranks.lit(A, 2, 0, 0, 1)
    _, change = ranks.side.left(1, 0.0)
    assert ranks.side.worker_failed(0, "no", 0.0, change.number, change.move.remove) == []
    assert ranks.side.left(0, 0.0) == [Close(0, "it ended its line")]


def test_a_circuit_that_could_not_be_removed_goes_when_its_ports_are_needed():
    ranks = Ranks()
    ranks.join(A, 0, 1)
    ranks.join(B, 0, 2)
    ranks.lit(A, 2, 0, 0, 1)
    _, change = ranks.side.left(1, 0.0)
    ranks.side.worker_failed(0, "no", 0.0, change.number, change.move.remove)
    (change,) = ranks.ask(B, 11, 1_000_000, 0, 2)
    assert shown(change) == ["-h0.p0–h1.p0", "+h0.p0–h2.p0"]


def test_communicators_that_are_gone_are_forgotten():
    ranks = Ranks()
    for _ in range(50):
        for client in (0, 1):
            ranks.side.connected(client, f"a{client}")
        ranks.join(A, 0, 1)
        ranks.lit(A, 2, 0, 0, 1)
        for client in (0, 1):
            for effect in ranks.side.left(client, 0.0):
                if isinstance(effect, Repoint):
                    ranks.side.worker_done(0, effect.number, 0.0)
        assert (ranks.side._groups, ranks.side._requests) == ({}, [])
    lane = ranks.rails._lanes[0]
    assert len(lane._groups) <= 1
    assert len(lane._state.last) <= 2
    assert len(lane._state.joined) <= 1
