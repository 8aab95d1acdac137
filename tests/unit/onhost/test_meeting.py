from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.meeting import Seat, meet, meet_everybody
from testbed.onhost.communication.sockets import Port, listen
from testbed.onhost.errors import Left
from testbed.onhost.frames import Decoder, encode

PORT = Port(None, "127.0.0.1")
TOKEN = "a token of this run"


class Guest:
    """One rank's listener and the order that ends its wait."""

    def __init__(self) -> None:
        self.listener = listen(PORT)
        self.leave = LeaveOrder()

    def close(self) -> None:
        self.listener.close()
        self.leave.close()

    def meet(self, seat, peer):
        """Meet, close both connections and return whether that worked."""
        try:
            pair = meet(self.listener, PORT, peer, seat, self.leave)
        except Left:
            return False
        for connection in pair:
            connection.close()
        return True


@contextmanager
def guests(count):
    with ExitStack() as stack:
        found = [Guest() for _ in range(count)]
        for guest in found:
            stack.callback(guest.close)
        yield found


def gather(found, seats, patience=5.0):
    """Let all meet in a ring; those not done after `patience` are told to leave."""
    peers = [guest.listener.getsockname() for guest in found]
    with ThreadPoolExecutor(len(found)) as threads:
        results = [
            threads.submit(guest.meet, seat, peers[(index + 1) % len(found)])
            for index, (guest, seat) in enumerate(zip(found, seats, strict=True))
        ]
        timer = threading.Timer(patience, lambda: [guest.leave.give(99) for guest in found])
        timer.start()
        outcome = [result.result() for result in results]
        timer.cancel()
        return outcome


def seats(count, generation=1, token=TOKEN):
    return [Seat(token, generation, rank, count) for rank in range(count)]


def ask(address, frame):
    """Call at a listener with one frame; return what came back before the line was closed."""
    with socket.create_connection(address, timeout=5) as caller:
        caller.sendall(frame)
        try:
            return Decoder().feed(caller.recv(4096))
        except ConnectionResetError:
            return []


@pytest.mark.parametrize("count", [1, 2, 4])
def test_all_ranks_meet(count):
    with guests(count) as found:
        assert gather(found, seats(count)) == [True] * count


def test_a_listener_serves_one_generation_after_the_other():
    with guests(3) as found:
        for generation in (1, 2, 3):
            assert gather(found, seats(3, generation)) == [True] * 3


@pytest.mark.parametrize(
    "stranger",
    [
        Seat("another token", 1, 1, 2),
        Seat(TOKEN, 0, 1, 2),
        Seat(TOKEN, 1, 1, 3),
    ],
    ids=["token", "generation", "ranks"],
)
def test_whoever_cannot_prove_its_place_is_turned_away_and_the_meeting_goes_on(stranger):
    with guests(2) as (first, second):
        address = first.listener.getsockname()
        host = threading.Thread(
            target=first.meet, args=(seats(2)[0], second.listener.getsockname())
        )
        host.start()
        assert ask(address, encode(stranger.greeting("hello", 1, 0))) == []
        assert second.meet(seats(2)[1], address)
        host.join(5)
        assert not host.is_alive()


@pytest.mark.parametrize("greeting", [b"\x00\x00\x00\x02{}", b"GET / HTTP/1.1\r\n\r\n", b""])
def test_callers_without_a_greeting_hold_nobody_up(greeting):
    with guests(2) as found, socket.create_connection(found[0].listener.getsockname()) as caller:
        caller.sendall(greeting)
        assert gather(found, seats(2)) == [True, True]


def test_a_welcome_is_no_proof_of_a_hello():
    seat = Seat(TOKEN, 1, 0, 2)
    welcome = Seat(TOKEN, 1, 1, 2).greeting("welcome", 1, 0)
    assert seat.expects(welcome, "welcome", 1)
    assert not seat.expects({**welcome, "ring": "hello"}, "hello", 1)


def test_the_token_never_travels():
    assert TOKEN.encode() not in encode(seats(2)[0].greeting("hello", 0, 1))


def test_ranks_of_two_generations_do_not_meet():
    with guests(2) as found:
        mixed = [seats(2, 1)[0], seats(2, 2)[1]]
        assert gather(found, mixed, patience=0.1) == [False, False]


def test_a_rank_keeps_calling_until_the_next_one_listens():
    with guests(1) as (early,), ThreadPoolExecutor(1) as threads:
        with socket.socket() as placeholder:  # an address nobody listens at yet
            placeholder.bind(("127.0.0.1", 0))
            address = placeholder.getsockname()
            waiting = threads.submit(early.meet, seats(2)[0], address)
            time.sleep(0.05)
            placeholder.listen()
            caller, _ = placeholder.accept()
            with caller:
                assert Decoder().feed(caller.recv(4096))[0]["from"] == 0
        early.leave.give(1)
        assert waiting.result(5) is False


def test_an_unanswered_call_is_repeated_at_once_when_the_line_is_good_again():
    """A full backlog drops SYNs like a dark fibre does; TCP alone would try again after 1 s."""
    with socket.socket() as busy, guests(1) as (guest,), ThreadPoolExecutor(1) as threads:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        blocker = socket.create_connection(busy.getsockname())
        begin = time.monotonic()
        waiting = threads.submit(guest.meet, seats(2)[0], busy.getsockname())
        time.sleep(0.1)
        blocker.close()
        busy.accept()[0].close()
        caller, _ = busy.accept()
        took = time.monotonic() - begin
        caller.close()
        guest.leave.give(1)
        assert waiting.result(5) is False
    assert took < 0.5


def test_an_interface_that_is_not_there_is_an_error_of_the_listener():
    with pytest.raises(OSError, match="No such device"):
        listen(Port("no-such-port", "127.0.0.1"))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_everybody_meets_everybody(count):
    with guests(count) as found, ThreadPoolExecutor(count) as threads:
        addresses = dict(enumerate(guest.listener.getsockname() for guest in found))

        def gather_all(seat):
            guest = found[seat.rank]
            peers = {rank: at for rank, at in addresses.items() if rank != seat.rank}
            return meet_everybody(guest.listener, PORT, peers, seat, guest.leave)

        lines = list(threads.map(gather_all, seats(count)))
    for rank, mine in enumerate(lines):
        assert set(mine) == set(range(count)) - {rank}
        for other, line in mine.items():
            assert line.getsockname() == lines[other][rank].getpeername()
    for line in (line for mine in lines for line in mine.values()):
        line.close()


def test_what_follows_a_welcome_at_once_is_left_for_the_job():
    """The other rank may have met everybody already and begin: its bytes are no greeting."""
    first, second = seats(2)
    with guests(1) as (guest,), ThreadPoolExecutor(1) as threads, socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        peers = {1: door.getsockname()}
        waiting = threads.submit(meet_everybody, guest.listener, PORT, peers, first, guest.leave)
        caller, _ = door.accept()
        with caller:
            assert second.expects(Decoder().feed(caller.recv(4096))[0], "hello", 0)
            caller.sendall(encode(second.greeting("welcome", 1, 0)) + b"the first bytes")
            line = waiting.result(5)[1]
            line.setblocking(True)
            assert line.recv(100) == b"the first bytes"
            line.close()
