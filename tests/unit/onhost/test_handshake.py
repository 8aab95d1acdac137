from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.handshake import connect_neighbours, connect_peers
from testbed.onhost.communication.rank_identity import RankIdentity
from testbed.onhost.communication.sockets import Port, listen
from testbed.onhost.errors import Left
from testbed.onhost.frames import Decoder, encode

PORT = Port(None, "127.0.0.1")
TOKEN = "a token of this run"


class Rank:
    """One rank's listener and the order that ends its wait."""

    def __init__(self) -> None:
        self.listener = listen(PORT)
        self.leave = LeaveOrder()

    def close(self) -> None:
        self.listener.close()
        self.leave.close()

    def connect(self, identity, peer):
        """Connect, close both connections and return whether that worked."""
        try:
            pair = connect_neighbours((self.listener,), (PORT, peer), identity, self.leave)
        except Left:
            return False
        for connection in pair.values():
            connection.close()
        return True


@contextmanager
def listening(count):
    with ExitStack() as stack:
        found = [Rank() for _ in range(count)]
        for one in found:
            stack.callback(one.close)
        yield found


def connect_ring(found, given, patience=5.0):
    """Let all connect in a ring; those not done after `patience` are told to leave."""
    peers = [one.listener.getsockname() for one in found]
    with ThreadPoolExecutor(len(found)) as threads:
        results = [
            threads.submit(one.connect, identity, peers[(index + 1) % len(found)])
            for index, (one, identity) in enumerate(zip(found, given, strict=True))
        ]
        timer = threading.Timer(patience, lambda: [one.leave.give(99) for one in found])
        timer.start()
        outcome = [result.result() for result in results]
        timer.cancel()
        return outcome


def identities(count, generation=1, token=TOKEN):
    return [RankIdentity(token, generation, rank, count) for rank in range(count)]


def send_frame(address, frame):
    """Send one frame to a listener; return what came back before the connection was closed."""
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(frame)
        try:
            return Decoder().feed(connection.recv(4096))
        except ConnectionResetError:
            return []


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ring_of_ranks_connects(count):
    with listening(count) as found:
        assert connect_ring(found, identities(count)) == [True] * count


def test_a_listening_socket_accepts_connections_of_successive_generations():
    with listening(3) as found:
        for generation in (1, 2, 3):
            assert connect_ring(found, identities(3, generation)) == [True] * 3


@pytest.mark.parametrize(
    "other",
    [
        RankIdentity("another token", 1, 1, 2),
        RankIdentity(TOKEN, 0, 1, 2),
        RankIdentity(TOKEN, 1, 1, 3),
    ],
    ids=["token", "generation", "ranks"],
)
def test_a_connection_without_a_valid_proof_is_rejected_and_the_handshake_continues(other):
    with listening(2) as (first, second):
        address = first.listener.getsockname()
        host = threading.Thread(
            target=first.connect, args=(identities(2)[0], second.listener.getsockname())
        )
        host.start()
        assert send_frame(address, encode(other.greeting("hello", 1, 0))) == []
        assert second.connect(identities(2)[1], address)
        host.join(5)
        assert not host.is_alive()


@pytest.mark.parametrize("greeting", [b"\x00\x00\x00\x02{}", b"GET / HTTP/1.1\r\n\r\n", b""])
def test_connection_without_greeting_delays_no_handshake(greeting):
    with (
        listening(2) as found,
        socket.create_connection(found[0].listener.getsockname()) as connection,
    ):
        connection.sendall(greeting)
        assert connect_ring(found, identities(2)) == [True, True]


def test_proof_of_a_welcome_is_not_accepted_for_a_hello():
    identity = RankIdentity(TOKEN, 1, 0, 2)
    welcome = RankIdentity(TOKEN, 1, 1, 2).greeting("welcome", 1, 0)
    assert identity.accepts(welcome, "welcome", 1)
    assert not identity.accepts({**welcome, "ring": "hello"}, "hello", 1)


def test_greeting_does_not_contain_the_token():
    assert TOKEN.encode() not in encode(identities(2)[0].greeting("hello", 0, 1))


def test_ranks_of_two_generations_do_not_connect():
    with listening(2) as found:
        mixed = [identities(2, 1)[0], identities(2, 2)[1]]
        assert connect_ring(found, mixed, patience=0.1) == [False, False]


def test_rank_retries_until_the_next_rank_listens():
    with listening(1) as (early,), ThreadPoolExecutor(1) as threads:
        with socket.socket() as placeholder:  # an address nobody listens at yet
            placeholder.bind(("127.0.0.1", 0))
            address = placeholder.getsockname()
            waiting = threads.submit(early.connect, identities(2)[0], address)
            time.sleep(0.05)
            placeholder.listen()
            connection, _ = placeholder.accept()
            with connection:
                assert Decoder().feed(connection.recv(4096))[0]["from"] == 0
        early.leave.give(1)
        assert waiting.result(5) is False


def test_connect_without_answer_is_retried_before_tcp_would():
    """A full backlog drops SYNs like a dark fibre does; TCP alone would try again after 1 s."""
    with socket.socket() as busy, listening(1) as (one,), ThreadPoolExecutor(1) as threads:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        blocker = socket.create_connection(busy.getsockname())
        begin = time.monotonic()
        waiting = threads.submit(one.connect, identities(2)[0], busy.getsockname())
        time.sleep(0.1)
        blocker.close()
        busy.accept()[0].close()
        connection, _ = busy.accept()
        took = time.monotonic() - begin
        connection.close()
        one.leave.give(1)
        assert waiting.result(5) is False
    assert took < 0.5


def test_listening_on_a_missing_interface_raises_an_error():
    with pytest.raises(OSError, match="No such device"):
        listen(Port("no-such-port", "127.0.0.1"))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_rank_connects_to_every_other_once(count):
    with listening(count) as found, ThreadPoolExecutor(count) as threads:
        addresses = dict(enumerate(one.listener.getsockname() for one in found))

        def connect_mesh(identity):
            one = found[identity.rank]
            peers = {rank: (PORT, at) for rank, at in addresses.items() if rank != identity.rank}
            return connect_peers((one.listener,), peers, identity, one.leave)

        lines = list(threads.map(connect_mesh, identities(count)))
    for rank, mine in enumerate(lines):
        assert set(mine) == set(range(count)) - {rank}
        for other, line in mine.items():
            assert line.getsockname() == lines[other][rank].getpeername()
    for line in (line for mine in lines for line in mine.values()):
        line.close()


def test_bytes_after_a_greeting_are_left_for_the_job():
    """The other rank may be connected to all already and begin: its bytes are no greeting."""
    first, second = identities(2)
    with listening(1) as (one,), ThreadPoolExecutor(1) as threads, socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        peers = {1: (PORT, server.getsockname())}
        waiting = threads.submit(connect_peers, (one.listener,), peers, first, one.leave)
        connection, _ = server.accept()
        with connection:
            assert second.accepts(Decoder().feed(connection.recv(4096))[0], "hello", 0)
            connection.sendall(encode(second.greeting("welcome", 1, 0)) + b"the first bytes")
            line = waiting.result(5)[1]
            line.setblocking(True)
            assert line.recv(100) == b"the first bytes"
            line.close()
