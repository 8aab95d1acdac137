"""Root and leaf over gRPC: sums, caches, refusals by code, leaves that die."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import numpy as np
import pytest

from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.propius import data_pb2 as messages
from testbed.propius import pieces
from testbed.propius.leaf_server import LeafServer
from testbed.propius.pieces import LARGEST
from testbed.propius.root_server import RootServer
from testbed.propius.rpc import Caller
from testbed.propius.serve_data import LEAF, ROOT, serving_leaf, serving_root
from testbed.tenancy.aggregation import Code
from testbed.tenancy.tensors import TensorSpec, encode, header, size

MODEL = (TensorSpec("w", "float32", (20, 10)), TensorSpec("b", "float32", (10,)))
OTHER = (TensorSpec("w", "float32", (20, 9)), TensorSpec("b", "float32", (10,)))
ANY = "127.0.0.1:0"
PATIENCE = 60.0


def update(value, model=MODEL):
    return encode([np.full(tensor.shape, value, np.float32) for tensor in model], model)


class Tree:
    """A root and leaves on ports of this machine, which send what they have on request."""

    def __init__(self, stack: ExitStack, leaves: int, flush_after: float = 0.0) -> None:
        self._stack = stack
        self.at = stack.enter_context(serving_root(ANY, flush_after=0.0))
        self.root = self._caller(self.at, ROOT)
        self.ends = [ExitStack() for _ in range(leaves)]
        self.leaves = [self._caller(self.at, LEAF)] if not leaves else []
        for end in self.ends:
            stack.callback(end.close)
            where = end.enter_context(serving_leaf(ANY, self.at, flush_after))
            self.leaves.append(self._caller(where, LEAF))

    def _caller(self, address, service):
        caller = Caller(address, service)
        self._stack.callback(caller.close)
        return caller

    def put(self, round, demand, value=0.0, job="j"):
        parameters = messages.Parameters(job=job, round=round, demand=demand, data=update(value))
        return self.root("Put", parameters).code

    def push(self, leaf, client, round, value=1.0, weight=1, data=None):
        return self.leaves[leaf](
            "Push",
            messages.Update(
                job="j",
                round=round,
                client=client,
                weight=weight,
                data=update(value) if data is None else data,
            ),
        )

    def result(self, round):
        while True:
            found = self.root("Result", messages.Round(job="j", round=round))
            if found.code != Code.PENDING:
                return found, np.frombuffer(found.values, "<f8")


@pytest.fixture
def tree() -> Iterator[Tree]:
    with ExitStack() as stack:
        yield Tree(stack, 2)


def test_the_root_has_the_weighted_sum_of_what_clients_pushed_at_leaves(tree):
    assert tree.put(1, 4, 0.5) == Code.OK
    for number in range(4):
        leaf = tree.leaves[number % 2]
        found = leaf("Get", messages.Round(job="j", round=1))
        assert (found.code, found.data) == (Code.OK, update(0.5))
        assert tree.push(number % 2, f"c{number}", 1, float(number), 10 + number).code == Code.OK
    found, values = tree.result(1)
    assert sorted(found.clients) == ["c0", "c1", "c2", "c3"]
    assert found.weight == 46
    assert (values == sum(number * (10 + number) for number in range(4))).all()


def test_a_root_without_leaves_takes_clients_itself():
    with ExitStack() as stack:
        tree = Tree(stack, 0)
        tree.put(1, 2)
        for number in range(2):
            assert tree.push(0, f"c{number}", 1).code == Code.OK
        assert (tree.result(1)[1] == 2.0).all()


def refusals():
    nan = np.full((20, 10), np.nan, np.float32)
    small = (MODEL[1],)
    half = tuple(TensorSpec(one.name, "float16", one.shape) for one in MODEL)
    return [
        (encode([nan, np.zeros(10, np.float32)], MODEL), "not finite"),
        (update(1.0) + b"\0", "too large"),
        (update(1.0, OTHER), "wrong shape"),
        (update(1.0, small), "wrong tensors"),
        (encode([np.zeros(one.shape) for one in half], half), "wrong dtype"),
        (update(1.0)[:-1], "malformed"),
        (b"\x80\x04N.", "malformed"),  # a pickle
    ]


def test_poisoned_updates_are_refused_by_code_and_counted_and_the_round_ends_right(tree):
    tree.put(1, 2)
    for number, (data, reason) in enumerate(refusals()):
        answer = tree.push(0, f"bad {number}", 1, data=data)
        assert (answer.code, answer.reason) == (Code.REFUSED, reason)
    assert tree.push(0, "heavy", 1, weight=0).reason == "bad weight"
    assert tree.push(0, "stale", 0).code == Code.STALE
    assert tree.push(0, "early", 2).code == Code.MISS
    for code in (Code.OK, Code.REPEATED):  # the second is counted once, and said to be one
        assert tree.push(0, "good", 1, 3.0).code == code
    assert tree.push(1, "other", 1, 4.0).code == Code.OK
    found, values = tree.result(1)
    assert (sorted(found.clients), values[0]) == (["good", "other"], 7.0)
    counts = tree.leaves[0]("Count", messages.Empty()).answers
    assert counts["refused: malformed"] == 2
    assert counts["refused: not finite"] == 1
    assert (counts["stale"], counts["miss"], counts["ok"], counts["repeated"]) == (1, 1, 1, 1)


def answer_to_first_piece_of(caller, method, message):
    """Announce 2 GiB, send the first piece and no other, and return the answer."""
    held = threading.Event()

    def first_only():
        message.size = LARGEST
        yield message
        held.wait(PATIENCE)

    with grpc.insecure_channel(caller.address) as channel:
        call = channel.stream_unary(
            f"/testbed.propius.{method}",
            request_serializer=type(message).SerializeToString,
            response_deserializer=messages.Code.FromString,
        )
        answer = call(first_only(), timeout=PATIENCE)
        held.set()
    return answer


def test_a_message_too_large_for_its_model_is_refused_before_the_rest_is_sent(tree):
    leaf, data = tree.leaves[0], update(1.0)
    assert tree.put(1, 1, 0.5) == Code.OK
    for job, code, reason in (("j", Code.REFUSED, "too large"), ("nobody", Code.MISS, "")):
        pushed = messages.Update(job=job, round=1, client="c", weight=1, data=data)
        total = messages.LeafSum(job=job, round=1, leaf="l", weight=1, clients=["c"], values=data)
        for caller, method, message in (
            (leaf, "Leaf/Push", pushed),  # it does not know the model, and asks the root
            (leaf, "Leaf/Push", pushed),
            (tree.root, "Root/Add", total),
        ):
            answer = answer_to_first_piece_of(caller, method, message)
            assert (answer.code, answer.reason) == (code, reason)
    for job in ("j", "new"):
        parameters = messages.Parameters(job=job, round=2, demand=1, data=data)
        answer = answer_to_first_piece_of(tree.root, "Root/Put", parameters)
        assert (answer.code, answer.reason) == (Code.REFUSED, "too large")
    counted = [each("Count", messages.Empty()).answers for each in (leaf, tree.root)]
    assert [each["refused: too large"] for each in counted] == [2, 3]
    assert tree.push(0, "c", 1, 3.0).code == Code.OK
    assert tree.result(1)[1][0] == 3.0


def test_an_update_in_pieces_that_is_not_too_large_is_read(tree, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 100)
    assert tree.put(1, 1, 0.5) == Code.OK
    assert tree.push(0, "c", 1, 3.0).code == Code.OK
    assert tree.result(1)[1][0] == 3.0


def test_a_leaf_asks_the_root_once_for_a_round_however_many_clients_come(tree):
    tree.put(1, 9)
    for number in range(40):
        tree.leaves[number % 2]("Get", messages.Round(job="j", round=1))
    assert tree.root("Count", messages.Empty()).sent == 2 * size(MODEL)


def test_a_round_whose_leaf_died_is_ended_by_its_job_with_what_there_is(tree):
    tree.put(1, 3)
    assert tree.push(0, "kept", 1, 5.0).code == Code.OK
    while not tree.root("Count", messages.Empty()).answers["ok"] >= 3:  # put, get, add
        pass
    tree.ends[1].close()
    with pytest.raises(LabError, match=r"Push at .* failed: unavailable"):
        tree.push(1, "lost", 1, 7.0)
    pending = tree.root("Result", messages.Round(job="j", round=1))
    assert pending.code == Code.PENDING
    assert tree.root("Close", messages.Round(job="j", round=1)).code == Code.OK
    found, values = tree.result(1)
    assert (list(found.clients), values[0]) == (["kept"], 5.0)
    assert tree.put(2, 1) == Code.OK
    assert tree.push(0, "kept", 2, 6.0).code == Code.OK
    assert tree.result(2)[1][0] == 6.0


def test_a_job_cannot_change_its_model_and_begins_no_round_twice(tree):
    assert tree.put(2, 1) == Code.OK
    assert tree.put(2, 1) == Code.OK
    assert tree.put(1, 1) == Code.STALE
    other = messages.Parameters(job="j", round=3, demand=1, data=update(0.0, OTHER))
    assert tree.root("Put", other).code == Code.REFUSED
    assert tree.root("Get", messages.Round(job="nobody", round=1)).code == Code.MISS


def test_a_job_is_forgotten_and_its_name_free_some_time_after_its_last_round():
    now = [0.0]
    root = RootServer(lambda: now[0])
    leaf = LeafServer("leaf", Lossy(root, random.Random(), 0.0), 1.0, lambda: now[0])
    first = messages.Parameters(job="j", round=5, demand=1, data=update(0.5))
    assert root.put(first).code == Code.OK
    now[0] = 999.0  # as late as a leaf can get them
    assert leaf.get(messages.Round(job="j", round=5)).code == Code.OK
    other = messages.Parameters(job="j", round=1, demand=1, data=update(2.0, OTHER))
    now[0] = 2_999.0
    assert root.put(other).code == Code.REFUSED  # another model
    leaf.send()
    assert leaf.get(messages.Round(job="j", round=1)).code == Code.STALE
    now[0] = 3_000.0
    leaf.send()
    assert root.put(other).code == Code.OK
    found = leaf.get(messages.Round(job="j", round=1))
    assert (found.code, found.data) == (Code.OK, update(2.0, OTHER))
    asked = messages.Update(job="j", round=1, client="c", weight=1, data=update(3.0, OTHER))
    assert leaf.push(asked).code == Code.OK
    now[0] += 2_000.0  # what has not been sent is kept
    leaf.send()
    told = leaf.outcome(messages.ClientRound(job="j", round=1, client="c"))
    assert (told.code, told.reason) == (Code.REFUSED, "complete")


class Lossy:
    """Calls of a root, of which some are lost on the way there and some on the way back."""

    def __init__(self, root: RootServer, rng: random.Random, share: float = 0.3) -> None:
        self._acts = {"Get": root.get, "Add": root.add}
        self._rng, self._share = rng, share

    def __call__(self, method, request):
        lost = self._rng.random()
        if method == "Add" and lost < self._share:
            raise LabError("lost on the way there")
        found = self._acts[method](request)
        if method == "Add" and lost > 1 - self._share:
            raise LabError("lost on the way back")
        return found


def compare_sums(seed):
    """Push in a random order through leaves with lossy lines, and compare with the direct sum."""
    rng, now = random.Random(seed), [0.0]
    root = RootServer(lambda: now[0])
    leaves = [LeafServer(f"leaf {n}", Lossy(root, rng), 1.0, lambda: now[0]) for n in range(3)]
    root.put(messages.Parameters(job="j", round=1, demand=12, data=update(0.0)))
    pushes = [(f"c{number}", rng.randrange(3), rng.randint(1, 9)) for number in range(12)]
    again = pushes + rng.sample(pushes, 4)
    rng.shuffle(again)
    for client, leaf, value in again:
        now[0] += rng.random()
        asked = messages.Update(
            job="j", round=1, client=client, weight=value, data=update(float(value))
        )
        assert leaves[leaf].push(asked).code in (Code.OK, Code.REPEATED)
        if rng.random() < 0.2:  # to another leaf, too
            assert leaves[rng.randrange(3)].push(asked).code in (Code.OK, Code.REPEATED)
        leaves[rng.randrange(3)].send()
    now[0] += 2.0
    for _ in range(200):
        for leaf in leaves:
            leaf.send()
    found = root.result(messages.Round(job="j", round=1))
    assert len(found.clients) == 12
    wanted = sum(value * value for _, _, value in pushes)
    assert (np.frombuffer(found.values, "<f8") == wanted).all()


def test_the_sum_at_the_root_is_the_direct_sum_though_messages_are_lost_and_repeated():
    for seed in range(20):
        compare_sums(seed)


@pytest.mark.soak
def test_the_sum_at_the_root_is_the_direct_sum_in_3000_orders():
    for seed in range(3_000):
        compare_sums(seed)


def told(tree, leaf, client, round=1):
    """Return what a leaf says has become of an update, once it is not with the leaf any more."""
    deadline = Deadline.after(PATIENCE)
    asked = messages.ClientRound(job="j", round=round, client=client)
    while (found := tree.leaves[leaf]("Outcome", asked)).code == Code.PENDING:
        assert not deadline.passed
    return found.code, found.reason


def test_of_a_client_that_pushes_to_two_leaves_one_update_counts_and_all_of_others():
    with ExitStack() as stack:
        tree = Tree(stack, 2, flush_after=0.3)
        tree.put(1, 4, 0.5)
        for each in tree.leaves:  # so that neither learns later whom the root has counted
            assert each("Get", messages.Round(job="j", round=1)).code == Code.OK
        for leaf, client, value in ((0, "x", 1.0), (0, "y", 2.0), (1, "x", 4.0), (1, "z", 8.0)):
            assert tree.push(leaf, client, 1, value).code == Code.OK
        assert {told(tree, 0, client) for client in "xy"} == {(Code.OK, "")}
        assert {told(tree, 1, client) for client in "xz"} == {(Code.OK, "")}
        assert tree.push(1, "w", 1, 16.0).code == Code.OK
        found, values = tree.result(1)
        assert sorted(found.clients) == ["w", "x", "y", "z"]
        assert values[0] in (1.0 + 2.0 + 8.0 + 16.0, 2.0 + 4.0 + 8.0 + 16.0)
        counted = tree.root("Count", messages.Empty()).answers
        assert counted["refused: doubled"] == 1


def test_a_client_that_pushes_too_late_is_told(tree):
    tree.put(1, 1, 0.5)
    assert told(tree, 0, "first") == (Code.MISS, "")
    assert tree.push(0, "first", 1).code == Code.OK
    assert told(tree, 0, "first") == (Code.OK, "")
    assert tree.push(1, "late", 1).code == Code.OK  # this leaf does not know yet
    assert told(tree, 1, "late") == (Code.REFUSED, "complete")
    for client in ("late", "later"):
        answer = tree.push(1, client, 1)
        assert (answer.code, answer.reason) == (Code.REFUSED, "complete")
    assert tree.put(2, 1) == Code.OK
    assert tree.push(0, "first", 2).code == Code.OK
    assert tree.push(0, "late", 1).code == Code.STALE
    assert told(tree, 0, "first", 1) == (Code.OK, "")
    assert told(tree, 0, "late", 1) == (Code.STALE, "")


def test_a_leaf_that_keeps_too_many_updates_sends_them_at_once(monkeypatch):
    monkeypatch.setattr("testbed.tenancy.leaf.MOST_KEPT", 2 * size(MODEL))
    root, now = RootServer(lambda: 0.0), [0.0]
    acts = {"Get": root.get, "Add": root.add}
    leaf = LeafServer("l", lambda method, asked: acts[method](asked), 60.0, lambda: now[0])
    root.put(messages.Parameters(job="j", round=1, demand=9, data=update(0.0)))
    for number, counted in enumerate((0, 0, 3)):
        leaf.push(
            messages.Update(job="j", round=1, client=f"c{number}", weight=1, data=update(1.0))
        )
        leaf.send()
        assert len(root.get(messages.Round(job="j", round=1)).counted) == counted


def test_a_first_round_whose_header_is_longer_than_a_piece_is_refused_by_its_first_piece(tree):
    long = tuple(TensorSpec(f"{number:0>1000}", "float32", (1,)) for number in range(1_100))
    data = update(1.0, long)
    assert len(header(long)) > pieces.PIECE
    first = messages.Parameters(job="new", round=1, demand=1, data=data[: pieces.PIECE])
    answer = answer_to_first_piece_of(tree.root, "Root/Put", first)
    assert (answer.code, answer.reason) == (Code.REFUSED, "malformed")
    whole = messages.Parameters(job="new", round=1, demand=1, data=data)
    assert tree.root("Put", whole).code == Code.REFUSED
    assert RootServer().put(whole).reason == "malformed"


def test_parameters_that_are_no_tensors_begin_no_round(tree):
    for data in (b"", b"TSR1", header(MODEL), update(1.0)[:20], b"TSR1\x02\0\0\0[]"):
        asked = messages.Parameters(job="j", round=1, demand=1, data=data)
        assert tree.root("Put", asked).code == Code.REFUSED
