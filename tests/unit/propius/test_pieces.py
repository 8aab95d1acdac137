"""Messages in pieces: whole again at the other side, or refused; a call that stalls ends."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from testbed.errors import LabError
from testbed.propius import data_pb2 as messages
from testbed.propius import pieces, rpc
from testbed.propius.data_pb2 import DESCRIPTOR
from testbed.propius.pieces import StallWatch, in_pieces, joined
from testbed.propius.root_server import RootServer
from testbed.propius.rpc import Caller, Server, calling
from testbed.tenancy.tensors import TensorSpec, encode

LEAF = DESCRIPTOR.services_by_name["Leaf"]
ROOT = DESCRIPTOR.services_by_name["Root"]
PATIENCE = 20.0


def update(count, **fields):
    data = bytes(n * 7 % 256 for n in range(256)) * (count // 256 + 1)
    return messages.Update(job="j", round=3, client="c", weight=5, data=data[:count], **fields)


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 1_000])
def test_a_message_is_whole_again_and_no_piece_is_larger_than_allowed(size, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 100)
    sent = list(in_pieces(update(size)))
    assert len(sent) == max(1, -(-size // 100))
    assert all(len(piece.data) <= 100 for piece in sent)
    lines = [piece.SerializeToString() for piece in sent]
    found = joined(map(messages.Update.FromString, lines))
    assert found == update(size, size=size)


def test_lists_are_in_the_first_piece(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 8)
    total = messages.LeafSum(job="j", leaf="l", clients=["a", "b"], values=bytes(24))
    first, *others = in_pieces(total)
    assert list(first.clients) == ["a", "b"]
    assert [len(one.values) for one in (first, *others)] == [8, 8, 8]
    assert joined([first, *others]).clients == ["a", "b"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (lambda sent: sent[:-1], "200 bytes of a message came, whose first piece says 250"),
        (
            lambda sent: [messages.Update(size=150, data=bytes(99)), *sent],
            "99 bytes of a message came, whose first piece says 150",
        ),
        (lambda sent: [], "a message has no piece"),
        (
            lambda sent: [messages.Update(size=5), *[messages.Update()] * 9],
            "0 bytes of a message came, whose first piece says 5",
        ),
        (
            lambda sent: [sent[0], messages.Update(data=b"."), *sent[1:]],
            "101 bytes of a message came, whose first piece says 250",
        ),
        (
            lambda sent: [messages.Update(size=2**40), *sent],
            f"a message has {2**40} bytes, and {2**31 - 1} at most can be",
        ),
    ],
)
def test_a_message_with_other_bytes_than_its_size_says_is_refused(changed, why, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 100)
    with pytest.raises(LabError, match=why):
        joined(changed(list(in_pieces(update(250)))))


class Leaf:
    """Returns what it was sent last; `get` may be held up."""

    def __init__(self):
        self.seen = messages.Update()
        self.go_on = threading.Event()
        self.go_on.set()

    def get(self, asked):
        assert self.go_on.wait(PATIENCE)
        return messages.Parameters(code=1, job=asked.job, round=asked.round, data=self.seen.data)

    def push(self, asked):
        self.seen = asked
        return messages.Code(code=1)

    def outcome(self, asked):
        return messages.Code(code=3)

    def count(self, asked):
        return messages.Counts(sent=len(self.seen.data))


@pytest.fixture
def leaf():
    return Leaf()


@pytest.fixture
def address(leaf):
    server = Server("127.0.0.1:0", [(LEAF, leaf)])
    yield server.address
    server.close()


@pytest.mark.parametrize("size", [0, 10, 2**20, 2**20 + 1, 40 * 2**20])
def test_a_server_gets_and_returns_a_message_of_any_size(leaf, address, size):
    """The last one is larger than gRPC's largest message."""
    with calling(address, LEAF) as call:
        assert call("Push", update(size)).code == 1
        assert leaf.seen == update(size, size=size)
        assert call("Get", messages.Round(job="j", round=3)).data == leaf.seen.data
        assert call("Count", messages.Empty()).sent == size


def test_calls_are_kept_until_their_end_and_no_longer(leaf, address):
    with calling(address, LEAF) as call:
        for _ in range(20):
            assert call("Get", messages.Round(job="j")).code == 1
        end = time.monotonic() + PATIENCE
        while call._ending and time.monotonic() < end:
            time.sleep(0.01)
        assert not call._ending


def test_a_server_that_does_not_answer_ends_the_call(leaf, address):
    leaf.go_on.clear()
    with calling(address, LEAF, 0.3) as call:
        with pytest.raises(LabError, match=r"Get at .* failed: nothing more came or went for 0\.3"):
            call("Get", messages.Round(job="j"))
        leaf.go_on.set()
        assert call("Get", messages.Round(job="j")).code == 1


def test_a_transfer_may_take_longer_than_an_answer_while_pieces_pass(leaf, address, monkeypatch):
    """Twenty pieces of 0.05 s each, where 0.4 s without any would be too long."""
    monkeypatch.setattr(pieces, "PIECE", 1_000)
    monkeypatch.setattr(rpc, "ANSWER_S", 0.4)

    def slowly(message):
        for piece in in_pieces(message):
            time.sleep(0.05)
            yield piece

    monkeypatch.setattr(rpc, "in_pieces", slowly)
    with calling(address, LEAF, 0.4) as call:
        for method, request in (("Push", update(20_000)), ("Get", messages.Round(job="j"))):
            begun = time.monotonic()
            assert call(method, request).code == 1
            assert time.monotonic() - begun > 1.0
    assert leaf.seen == update(20_000, size=20_000)


def test_a_caller_that_stalls_in_the_middle_of_a_message_holds_no_thread(leaf, monkeypatch):
    monkeypatch.setattr(rpc, "ANSWER_S", 0.2)
    server, stuck = Server("127.0.0.1:0", [(LEAF, leaf)], threads=1), threading.Event()
    waited = []

    def stall(message):
        first, *others = in_pieces(message)
        yield first
        waited.append(stuck.wait(PATIENCE))
        yield from others

    caller = Caller(server.address, LEAF, 3 * PATIENCE)
    with monkeypatch.context() as patched:
        patched.setattr(pieces, "PIECE", 10)
        patched.setattr(rpc, "in_pieces", stall)
        with pytest.raises(LabError, match=r"Push at .* failed"):
            caller("Push", update(30))
    assert waited == []
    assert leaf.seen == messages.Update()
    assert caller("Push", update(30)).code == 1
    stuck.set()
    caller.close()
    server.close()


def test_a_reader_that_stalls_in_the_middle_of_a_message_holds_no_thread(leaf, monkeypatch):
    """Until the first piece is read, a busy machine may take a second, which is no stall."""
    monkeypatch.setattr(rpc, "ANSWER_S", 2.0)
    server = Server("127.0.0.1:0", [(LEAF, leaf)], threads=1)
    leaf.seen = update(40 * 2**20)
    with grpc.insecure_channel(server.address) as channel, calling(server.address, LEAF) as call:
        answers = channel.unary_stream(
            "/testbed.propius.Leaf/Get",
            request_serializer=messages.Round.SerializeToString,
            response_deserializer=messages.Parameters.FromString,
        )(messages.Round(job="j"))
        assert next(answers).size == len(leaf.seen.data)
        assert call("Count", messages.Empty()).sent == len(leaf.seen.data)
        with pytest.raises(grpc.RpcError):
            list(answers)
    server.close()


def test_calls_without_an_end_are_cancelled():
    over, stay = threading.Event(), threading.Event()

    def endless(request, context):
        context.add_callback(over.set)
        yield messages.Parameters(code=1)
        stay.wait(3 * PATIENCE)

    server = grpc.server(ThreadPoolExecutor(2))
    method = grpc.unary_stream_rpc_method_handler(
        endless, messages.Round.FromString, messages.Parameters.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(LEAF.full_name, {"Get": method}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with calling(f"127.0.0.1:{port}", LEAF, 0.5) as call:
        assert call("Get", messages.Round(job="j")).code == 1
        assert not over.wait(0.6)
        assert call("Get", messages.Round(job="j")).code == 1
        assert over.wait(PATIENCE)
    stay.set()
    server.stop(0).wait()


def test_a_closed_caller_says_so(address):
    with calling(address, LEAF) as call:
        assert call("Count", messages.Empty()).sent == 0
    for method, request in (("Count", messages.Empty()), ("Get", messages.Round(job="j"))):
        with pytest.raises(LabError, match=f"{method} at .* failed: Cannot invoke RPC"):
            call(method, request)


def test_a_model_whose_sums_would_be_too_large_is_refused(monkeypatch):
    model = (TensorSpec("w", "float32", (100,)),)
    data = encode([np.zeros(100, np.float32)], model)
    asked = messages.Parameters(job="j", round=1, demand=1, data=data)
    monkeypatch.setattr("testbed.propius.root_server.LARGEST", 799)
    assert RootServer().put(asked).reason == "too large"
    monkeypatch.setattr("testbed.propius.root_server.LARGEST", 800)
    assert RootServer().put(asked).code == 1


def test_a_service_that_is_not_there_is_unreachable():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with calling(f"127.0.0.1:{port}", ROOT) as call, pytest.raises(rpc.Unreachable):
        call("Get", messages.Round(job="j"))


def test_a_watch_lets_other_errors_pass():
    with pytest.raises(ValueError, match="other"), StallWatch(PATIENCE).calling(print):
        raise ValueError("other")
