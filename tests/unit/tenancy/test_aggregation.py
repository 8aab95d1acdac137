"""The sum at the root is the direct sum, whatever happens to the messages on the way.

Values are whole numbers, so that a sum in double precision is exact in any order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from testbed.tenancy import leaf as leaves
from testbed.tenancy import root as roots
from testbed.tenancy.aggregation import Answer, Code, Flush, Push, Sum
from testbed.tenancy.leaf import Leaf
from testbed.tenancy.root import Root
from testbed.tenancy.tensors import Refusal, TensorSpec, encode

MODEL = (TensorSpec("w", "float32", (2, 2)), TensorSpec("b", "float64", (1,)))
WRONG = (TensorSpec("w", "float32", (4,)), TensorSpec("b", "float64", (1,)))
PUT = b"parameters"


class Network:
    """A root, leaves and clients, whose messages are lost, late and doubled by chance."""

    def __init__(self, chance):
        self.chance = chance
        self.now = 0.0
        self.seen = Counter()
        self.root = Root(MODEL)
        self.leaves = [Leaf(f"leaf{number}.0", MODEL) for number in range(chance.randint(1, 4))]
        self.lives = 0
        self.on_the_way = []
        self.clients = {}
        for number in range(chance.randint(1, 12)):
            values = [float(chance.randint(-(2**20), 2**20)) for _ in range(5)]
            self.clients[f"client{number}"] = values, chance.randint(1, 500)
        self.begin(1)

    def begin(self, round):
        """The job begins a round; leaves hear of it when they ask."""
        demand = self.chance.randint(1, len(self.clients) + 1)
        answer, self.root = roots.put(self.root, round, demand, PUT, self.now)
        assert answer.code is Code.OK
        self.counted = set()
        self.accepted = {}

    def ask_root(self, at):
        """A leaf fetches the present round from the root."""
        answer, parameters = roots.get(self.root, self.root.round, self.now)
        if answer.code is Code.OK:
            known = self.root.total.clients if self.root.total else ()
            leaf = leaves.fill(self.leaves[at], self.root.round, parameters, self.now, known)
            self.leaves[at] = leaf

    def push(self, client):
        """A client pushes to its own leaf, or now and then to another; some updates are wrong."""
        at = hash_of(client) % len(self.leaves)
        if self.chance.random() < 0.2:
            at = self.chance.randrange(len(self.leaves))
        round = self.chance.choice([self.root.round] * 6 + [self.root.round - 1, 99])
        kind = self.chance.choice(["right"] * 8 + ["nan", "shape", "large", "weight"])
        answer, self.leaves[at] = leaves.push(
            self.leaves[at], self.update(client, round, kind), self.now
        )
        self.seen[kind if round == self.root.round else "other round", answer.code] += 1
        if answer.code is Code.MISS:
            self.ask_root(at)
        self.judge(client, at, round, kind, answer)

    def judge(self, client, at, round, kind, answer):
        known = self.leaves[at].counted
        if answer.code in (Code.OK, Code.REPEATED):
            assert round == self.leaves[at].round
            assert client in known
            self.accepted.setdefault((round, client), set()).add(self.leaves[at].name)
        if kind != "right" and (round, client) not in self.accepted and client not in known:
            assert answer.code not in (Code.OK, Code.REPEATED)

    def update(self, client, round, kind):
        values, weight = self.clients[client]
        model = WRONG if kind == "shape" else MODEL
        numbers = [np.nan if kind == "nan" else values[0], *values[1:]]
        tensors = [np.array(numbers[:4]).reshape(model[0].shape), np.array(numbers[4:])]
        data = encode(tensors, model) + (b"more" if kind == "large" else b"")
        return Push(client, round, 0 if kind == "weight" else weight, data)

    def send(self, at):
        """A leaf sends what the root has not acknowledged; it is lost, doubled, reordered."""
        self.leaves[at] = leaves.flush(self.leaves[at], self.now, self.chance.random() < 0.5)
        waiting = list(self.leaves[at].unacknowledged)
        self.chance.shuffle(waiting)
        for flush in waiting:
            for _ in range(self.chance.choice([0, 1, 1, 2])):
                answer = self.deliver(flush)
                if self.chance.random() < 0.7:
                    self.leaves[at] = leaves.acknowledge(self.leaves[at], flush.sequence, answer)

    def deliver(self, flush):
        before = self.root.count
        answer, self.root = roots.add(self.root, flush, self.now)
        if self.root.count > before:
            assert answer.code is Code.OK
            assert not self.counted & flush.total.clients
            self.counted |= flush.total.clients
        self.seen["flush", answer.code, answer.reason] += 1
        return answer

    def kill(self, at):
        """A leaf dies with all that the root has not got, and starts again."""
        self.lives += 1
        dead = self.leaves[at].name
        self.on_the_way.extend(self.leaves[at].unacknowledged)
        self.leaves[at] = Leaf(f"leaf{at}.{self.lives}", MODEL)
        for (_, client), names in list(self.accepted.items()):
            if client not in self.counted:
                names.discard(dead)
        self.accepted = {key: names for key, names in self.accepted.items() if names}

    def act(self):
        self.now += self.chance.choice([0.1, 1.0, 11.0])
        at = self.chance.randrange(len(self.leaves))
        act = self.chance.choices(
            ["push", "send", "ask", "kill", "next", "late"], [60, 20, 10, 2, 2, 4]
        )[0]
        if act == "push":
            self.push(self.chance.choice(list(self.clients)))
        elif act == "send":
            self.send(at)
        elif act == "ask":
            self.ask_root(at)
        elif act == "kill":
            self.kill(at)
        elif act == "next":
            self.check()
            self.begin(self.root.round + 1)
        else:
            self.late()

    def late(self):
        """What a dead leaf sent arrives, and something from a round long ago."""
        if self.on_the_way:
            self.deliver(self.on_the_way.pop())
        old = Sum.of("client0", np.zeros(5), 1)
        answer, self.root = roots.add(
            self.root, Flush("leaf0.0", 0, self.root.round - 1, old), self.now
        )
        assert answer.code is Code.STALE

    def drain(self):
        """All that is to arrive arrives."""
        for at in range(len(self.leaves)):
            self.leaves[at] = leaves.flush(self.leaves[at], self.now, at_once=True)
            while self.leaves[at].unacknowledged:
                flush = self.leaves[at].unacknowledged[0]
                answer = self.deliver(flush)
                self.leaves[at] = leaves.acknowledge(self.leaves[at], flush.sequence, answer)
            self.compare_outcomes(at)

    def compare_outcomes(self, at):
        """What a leaf tells clients is what has become of their updates."""
        leaf = self.leaves[at]
        for client in self.clients:
            code = leaves.outcome(leaf, client, leaf.round).code
            assert code is not Code.PENDING
            if leaf.round == self.root.round:
                assert (code is Code.OK) <= (client in self.counted)
                if (leaf.round, client) in self.accepted and client in leaf.counted:
                    assert (code is Code.OK) is (client in self.counted)
                self.seen["outcome", code] += 1

    def check(self):
        """Compare the root's sum with the sum of what its clients pushed, taken directly."""
        total = self.root.total
        assert self.root.count == len(self.counted)
        if total is None:
            return
        assert total.clients == self.counted
        direct = [
            sum(int(self.clients[c][0][at]) * self.clients[c][1] for c in self.counted)
            for at in range(5)
        ]
        assert total.values.tolist() == [float(number) for number in direct]
        assert total.weight == sum(self.clients[c][1] for c in self.counted)


def hash_of(client):
    return int(client.removeprefix("client"))


def play(seed):
    network = Network(Random(seed))
    for _ in range(network.chance.randint(5, 60)):
        network.act()
    was_complete = network.root.is_complete
    network.drain()
    network.check()
    if not was_complete:
        accepted = {client for round, client in network.accepted if round == network.root.round}
        assert network.root.is_complete or accepted <= network.counted
    return network.seen


@pytest.mark.parametrize("orders", [150, pytest.param(10_000, marks=pytest.mark.soak)])
def test_the_sum_at_the_root_equals_the_direct_sum_of_all_updates(orders):
    seen = Counter()
    for seed in range(orders):
        seen.update(play(seed))
    for kind in ("nan", "shape", "large", "weight"):
        assert seen[kind, Code.REFUSED], kind
    assert seen["right", Code.OK]
    assert seen["other round", Code.STALE]
    assert seen["other round", Code.MISS]
    assert seen["right", Code.REPEATED]
    assert seen["flush", Code.OK, None]
    assert seen["flush", Code.REPEATED, None]
    assert seen["outcome", Code.OK] and seen["outcome", Code.REFUSED]
    assert seen["flush", Code.STALE, None]
    assert seen["flush", Code.REFUSED, Refusal.COMPLETE]
    assert seen["flush", Code.REFUSED, Refusal.DOUBLED]


def filled(now=0.0, round=1):
    return leaves.fill(Leaf("leaf", MODEL), round, PUT, now)


def update(client="x", round=1, weight=2, value=3.0):
    data = encode([np.full((2, 2), value), np.zeros(1)], MODEL)
    return Push(client, round, weight, data)


def test_the_mean_is_weighted_as_in_fedavg():
    leaf = filled()
    for client, weight, value in (("x", 1, 2.0), ("y", 3, 6.0)):
        _, leaf = leaves.push(leaf, update(client, 1, weight, value), 0.0)
    assert leaf.total.mean.tolist() == [5.0] * 4 + [0.0]


def test_floats_are_summed_in_double_precision():
    chance = np.random.default_rng(3)
    updates = chance.normal(size=(200, 4)).astype(np.float32)
    leaf = filled()
    for number, row in enumerate(updates):
        data = encode([row.reshape(2, 2), np.zeros(1)], MODEL)
        _, leaf = leaves.push(leaf, Push(f"c{number}", 1, 1, data), 0.0)
    direct = np.sum(updates.astype(np.float64), axis=0)
    assert np.abs(leaf.total.values[:4] - direct).max() < 1e-12


@pytest.mark.parametrize("weight", [0, -1, 10**9 + 1, True])
def test_an_update_whose_weight_is_no_positive_integer_is_refused(weight):
    answer, _ = leaves.push(filled(), update(weight=weight), 0.0)
    assert (answer.code, answer.reason) == (Code.REFUSED, Refusal.BAD_WEIGHT)


def test_an_update_that_overflows_the_sum_is_refused_and_the_sum_is_kept():
    huge = Push("y", 1, 2, encode([np.zeros((2, 2)), np.full(1, 1.7e308)], MODEL))
    _, before = leaves.push(filled(), update(), 0.0)
    answer, after = leaves.push(before, huge, 0.0)
    assert (answer.reason, after) == (Refusal.NOT_FINITE, before)


def test_a_leaf_sends_its_sum_when_no_push_came_for_ten_seconds():
    _, leaf = leaves.push(filled(), update("x"), 0.0)
    _, leaf = leaves.push(leaf, update("y"), 9.0)
    assert leaves.flush(leaf, 18.9) is leaf
    sent = leaves.flush(leaf, 19.0)
    (flush,) = sent.unacknowledged
    assert (flush.leaf, flush.sequence, flush.round) == ("leaf", 0, 1)
    assert flush.total.clients == {"x", "y"}
    assert sent.total is None
    assert leaves.flush(sent, 99.0) is sent
    answer, later = leaves.push(sent, update("x"), 20.0)  # a repetition after the flush
    assert (answer.code, later.total) == (Code.REPEATED, None)
    assert leaves.acknowledge(sent, 0).unacknowledged == ()


def test_an_update_before_the_first_round_is_refused():
    leaf, root = Leaf("leaf", MODEL), Root(MODEL)
    assert leaves.push(leaf, update(round=0), 0.0)[0].code is Code.MISS
    assert roots.add(root, flush("x", round=0), 0.0)[0].code is Code.MISS
    assert roots.close(root, 0)[0].code is Code.MISS
    assert roots.result(root, 0, 0.0)[0].code is Code.MISS


def test_parameters_are_fetched_once_and_again_after_five_minutes():
    leaf = filled(now=10.0)
    assert leaves.get(leaf, 1, 309.9)[1] == PUT
    assert leaves.get(leaf, 1, 310.0)[0].code is Code.MISS
    assert leaves.get(leaf, 2, 10.0)[0].code is Code.MISS
    newer = leaves.fill(leaf, 2, PUT, 20.0)
    assert leaves.get(newer, 1, 20.0)[0].code is Code.STALE
    assert leaves.fill(newer, 1, b"old", 21.0) is newer


def test_a_push_of_an_unannounced_round_changes_nothing():
    _, leaf = leaves.push(filled(), update("x"), 0.0)
    answer, after = leaves.push(leaf, update("liar", round=10**9), 0.0)
    assert (answer.code, after) == (Code.MISS, leaf)


def begun(demand=2, now=0.0):
    return roots.put(Root(MODEL), 1, demand, PUT, now)[1]


def flush(*clients, sequence=0, round=1, leaf="leaf"):
    total = Sum(np.ones(5), len(clients), frozenset(clients))
    return Flush(leaf, sequence, round, total)


def test_a_round_is_pending_until_its_demand_is_met_and_its_sum_then_stays():
    root = begun()
    assert roots.result(root, 1, 1.0)[0].code is Code.PENDING
    _, root = roots.add(root, flush("x"), 1.0)
    assert roots.result(root, 1, 1.0)[0].code is Code.PENDING
    _, root = roots.add(root, flush("y", sequence=1), 1.0)
    answer, total = roots.result(root, 1, 1.0)
    assert (answer.code, total.weight) == (Code.OK, 2)
    answer, after = roots.add(root, flush("z", sequence=2), 1.0)
    assert (answer.reason, after) == (Refusal.COMPLETE, root)


def test_a_round_can_be_closed_before_its_demand_is_met():
    _, root = roots.add(begun(), flush("x"), 1.0)
    assert roots.close(root, 2)[0].code is Code.MISS
    _, root = roots.close(root, 1)
    assert roots.result(root, 1, 1.0)[1].clients == {"x"}
    _, empty = roots.close(begun(), 1)
    answer, total = roots.result(empty, 1, 1.0)
    assert (answer.code, total) == (Code.OK, None)


def test_a_sum_with_a_client_that_was_counted_is_refused_and_says_which():
    _, root = roots.add(begun(3), flush("x"), 1.0)
    answer, after = roots.add(root, flush("x", "y", leaf="other"), 1.0)
    assert (answer.reason, answer.clients, after) == (Refusal.DOUBLED, {"x"}, root)


def flushed(*clients):
    """Return a leaf whose one flush has updates of these clients, with values 1, 2 and so on."""
    leaf = filled()
    for number, client in enumerate(clients, start=1):
        _, leaf = leaves.push(leaf, update(client, value=float(number)), 0.0)
    return leaves.flush(leaf, 0.0, at_once=True)


def test_of_a_sum_with_a_doubled_client_all_others_count():
    _, root = roots.add(begun(3), flush("x", leaf="other"), 1.0)
    leaf = flushed("w", "x", "y")
    answer, root = roots.add(root, leaf.unacknowledged[0], 1.0)
    leaf = leaves.acknowledge(leaf, 0, answer)
    (again,) = leaf.unacknowledged
    assert (again.sequence, again.total.clients) == (0, {"w", "y"})
    assert again.total.values[0] == 2 * 1.0 + 2 * 3.0
    answer, root = roots.add(root, again, 1.0)
    leaf = leaves.acknowledge(leaf, 0, answer)
    assert (leaf.unacknowledged, root.total.clients) == ((), {"w", "x", "y"})
    assert {leaves.outcome(leaf, client, 1).code for client in "wxy"} == {Code.OK}


def test_a_sum_of_doubled_clients_only_is_not_sent_again():
    leaf = leaves.acknowledge(
        flushed("x"), 0, Answer(Code.REFUSED, Refusal.DOUBLED, frozenset("xz"))
    )
    assert leaf.unacknowledged == ()
    assert leaves.outcome(leaf, "x", 1).code is Code.OK


def test_a_client_is_told_that_its_update_was_too_late():
    _, root = roots.add(begun(1), flush("first", leaf="other"), 1.0)
    leaf = flushed("x")
    assert leaves.outcome(leaf, "x", 1).code is Code.PENDING
    assert leaves.outcome(leaf, "y", 1).code is Code.MISS
    answer, _ = roots.add(root, leaf.unacknowledged[0], 1.0)
    leaf = leaves.acknowledge(leaf, 0, answer)
    assert leaves.outcome(leaf, "x", 1).reason is Refusal.COMPLETE
    for client in ("x", "y"):  # again, and another one
        assert leaves.push(leaf, update(client), 1.0)[0].reason is Refusal.COMPLETE


def test_a_client_is_told_of_the_round_before_whether_it_was_in_time():
    _, leaf = leaves.push(leaves.acknowledge(flushed("x"), 0), update("y"), 0.0)
    leaf = leaves.fill(leaf, 2, PUT, 5.0)
    assert leaves.outcome(leaf, "x", 1).code is Code.OK
    assert leaves.outcome(leaf, "y", 1).code is Code.STALE
    leaf = leaves.fill(leaf, 3, PUT, 5.0)
    assert leaves.outcome(leaf, "x", 1).code is Code.STALE
    assert leaves.outcome(leaf, "x", 4).code is Code.MISS


def test_an_answer_that_comes_after_the_round_counts_for_it():
    leaf = leaves.fill(flushed("x"), 2, PUT, 5.0)
    assert leaves.outcome(leaf, "x", 1).code is Code.STALE
    assert leaves.outcome(leaves.acknowledge(leaf, 0), "x", 1).code is Code.OK


def test_an_answer_that_comes_again_changes_nothing_more():
    answer = Answer(Code.REFUSED, Refusal.DOUBLED, frozenset("x"))
    leaf = leaves.acknowledge(flushed("x", "y"), 0, answer)
    assert leaves.acknowledge(leaf, 0, answer) is leaf
    assert leaves.acknowledge(leaf, 7, answer) is leaf


def test_a_client_whose_update_came_by_another_leaf_is_not_told_that_it_was_too_late():
    _, root = roots.add(begun(1), flush("x", leaf="other"), 1.0)
    leaf = flushed("x", "y")
    answer, _ = roots.add(root, leaf.unacknowledged[0], 1.0)
    leaf = leaves.acknowledge(leaf, 0, answer)
    assert answer.reason is Refusal.COMPLETE
    assert leaves.outcome(leaf, "x", 1).code is Code.OK
    assert leaves.outcome(leaf, "y", 1).reason is Refusal.COMPLETE


def test_updates_of_a_round_that_the_root_has_forgotten_may_come_again():
    leaf = leaves.acknowledge(flushed("x"), 0, Answer(Code.MISS))
    assert leaves.outcome(leaf, "x", 1).code is Code.MISS
    assert leaves.push(leaf, update("x"), 1.0)[0].code is Code.OK


@pytest.mark.parametrize(
    ("total", "reason"),
    [
        (Sum(np.ones(4), 1, frozenset("x")), Refusal.WRONG_SHAPE),
        (Sum(np.full(5, np.nan), 1, frozenset("x")), Refusal.NOT_FINITE),
        (Sum(np.ones(5), 0, frozenset("x")), Refusal.BAD_WEIGHT),
        (Sum(np.ones(5), 1, frozenset()), Refusal.BAD_WEIGHT),
    ],
)
def test_the_root_checks_the_updates_that_leaves_send(total, reason):
    answer, after = roots.add(begun(), Flush("leaf", 0, 1, total), 1.0)
    assert (answer.reason, after.count) == (reason, 0)


def test_the_root_keeps_parameters_for_1000_s_and_sums_for_2000_s():
    root = begun(now=10.0)
    assert roots.get(root, 1, 1009.9)[1] == PUT
    assert roots.get(root, 1, 1010.0)[0].code is Code.MISS
    assert roots.get(Root(MODEL), 0, 1.0)[0].code is Code.MISS
    assert roots.result(root, 1, 2009.9)[0].code is Code.PENDING
    assert roots.result(root, 1, 2010.0)[0].code is Code.MISS
    assert roots.add(root, flush("x"), 2010.0)[0].reason is Refusal.COMPLETE


def test_a_round_begins_only_once_and_never_after_a_later_one():
    root = begun()
    assert roots.put(root, 1, 2, PUT, 5.0)[1] is root
    assert roots.put(root, 1, 3, PUT, 5.0)[0].code is Code.STALE
    _, second = roots.put(replace(root, is_closed=True), 2, 1, PUT, 5.0)
    assert (second.round, second.is_complete, second.begun) == (2, False, 5.0)
    assert roots.get(second, 1, 5.0)[0].code is Code.STALE
    assert roots.result(second, 1, 5.0)[0].code is Code.STALE
    assert roots.result(second, 3, 5.0)[0].code is Code.MISS
    assert roots.close(second, 1)[0].code is Code.STALE


def test_a_client_counted_twice_is_an_internal_error():
    one = Sum.of("x", np.ones(5), 1)
    with pytest.raises(ValueError, match="common client"):
        one.plus(one)
