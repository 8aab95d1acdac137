"""The controller's side without sockets: the transcript, what is refused, and who is not kept."""

import pytest

from testbed.opus.communicators import Close, Send, SetWord
from testbed.opus.controller_side import ControllerSide
from testbed.opus.word_rails import WordRails
from testbed.opus.words import encode, parse

from .transcript import HOST_AT, RAILS, RANKS, address_of, transactions

A, B = "A" * 64, "B" * 64


def side(clients=4, rails=2):
    """Return a controller with clients on two nodes, two each."""
    found = ControllerSide(WordRails(rails), {"h0": 0, "h1": 1})
    for client in range(clients):
        found.connected(client, f"h{client // 2}")
    return found


def checked_in(*clients, name=A, rail=0):
    """Return a controller with clients in a communicator."""
    found = side()
    for client in clients:
        found.received(client, f"COMM;{name},{len(clients)},{rail}".encode(), 0.0)
    return found


def req(name, number, counter):
    return f"CONFIG_REQ;{name},{number},{counter}".encode()


def test_the_transcript_of_the_authors_controller_is_repeated_byte_for_byte():
    found = ControllerSide(WordRails(RAILS), HOST_AT)
    for rank in range(RANKS):
        found.connected(rank, address_of(rank))
    rows = list(transactions())
    assert [(e.rail, b"%d\n" % e.word) for e in found.start()] == [
        (int(row[0].who[0][4:]), row[0].line) for row in rows[:2]
    ]
    for row in rows[2:]:
        sent, words, due = [], [], []
        for exchange in row:
            is_rail = exchange.who[0].startswith("rail")
            for who in exchange.who:
                number = int(who.removeprefix("rail").removeprefix("r"))
                if not is_rail and exchange.to_controller:
                    due += found.received(number, exchange.line.removesuffix(b"\n"), 0.0)
                elif is_rail and exchange.to_controller:
                    due += found.worker_done(number, words[-1].word, 0.0)
                elif is_rail:
                    words.append(due.pop(0))
                    assert words[-1] == SetWord(number, int(exchange.line))
                else:
                    sent.append(Send(number, exchange.line))
        assert due == sent


def test_nobody_is_told_before_the_last_has_asked_and_the_word_is_applied():
    found = checked_in(0, 2)
    assert found.received(0, req(A, 2, 0), 0.0) == []
    assert found.received(2, req(A, 2, 0), 0.0) == [SetWord(0, 0)]
    line = encode(parse(f"CONFIG_ACK;{A}".encode()))
    assert found.worker_done(0, 0, 0.0) == [Send(0, line), Send(2, line)]


def test_two_suffice_for_a_pair_of_a_longer_pipeline():
    found = checked_in(0, 1, 2, 3)
    assert found.received(1, req(A, 21, 2_000_000), 0.0) == []
    assert found.received(2, req(A, 21, 2_000_000), 0.0) == [SetWord(0, 6)]


def test_words_of_one_rail_are_applied_one_after_the_other():
    found = side()
    for client, name in ((0, A), (2, A), (1, B), (3, B)):
        found.received(client, f"COMM;{name},2,0".encode(), 0.0)
    for client, name in ((0, A), (2, A), (1, B)):
        effects = found.received(client, req(name, 11, 1_000_000), 0.0)
    assert found.received(3, req(B, 11, 1_000_000), 0.0) == []
    effects = found.worker_done(0, 3, 0.0)
    assert effects[-1] == SetWord(0, 3)


@pytest.mark.parametrize(
    ("client", "line", "why"),
    [
        (0, b"HELLO", "'HELLO' is no message of the protocol"),
        (0, b"CONFIG_ACK;a", "a client does not send ConfigAck"),
        (0, f"COMM;{A},2,0".encode(), "client 0 (h0) has joined"),
        (1, f"COMM;{A},2,0".encode(), "all 2 ranks of"),
        (0, f"COMM;{B},0,0".encode(), "a communicator of 0 ranks"),
        (0, f"COMM;{B},2,2".encode(), "there is no rail 2"),
        (0, f"COMM;{B},2,-1".encode(), "there is no rail -1"),
        (1, req(A, 2, 0), "client 1 (h0) has not checked in to"),
        (0, req(B, 2, 0), "client 0 (h0) has not checked in to"),
        (0, req(A, 11, 2_000_000), "number 11 and counter 2000000 are of two pairs"),
        (0, req(A, 2, -1), "number 2 and counter -1 name no stage"),
        (0, req(A, 311, 31_000_000), "number 311 and counter 31000000 name no stage"),
        (0, req(A, 2, 5), "client 0 (h0) asks with counter 5 after 5"),
        (0, req(A, 2, 6), "client 0 (h0) asks for two stages at once"),
    ],
)
def test_what_is_wrong_ends_the_line_with_its_reason(client, line, why):
    found = checked_in(0, 2)
    found.received(0, req(A, 2, 5), 0.0)
    (first, *_) = found.received(client, line, 0.0)
    assert isinstance(first, Close)
    assert first.client == client
    assert why in first.why


def test_another_number_of_ranks_is_refused():
    found = side()
    found.received(0, f"COMM;{A},3,0".encode(), 0.0)
    (closed,) = found.received(1, f"COMM;{A},2,0".encode(), 0.0)
    assert closed.why == f"{A} has 3 ranks, not 2"


def test_a_client_that_vanishes_keeps_nobody_waiting():
    found = checked_in(0, 2)
    found.received(0, req(A, 2, 0), 0.0)
    first, second = found.left(2, 1.0)
    assert first == Close(2, "it ended its line")
    assert second == Close(0, "it waits with client 2 (h1), whose line ended: it ended its line")
    assert found.wake_at() is None


def test_a_client_that_asks_after_another_has_left_is_told_so():
    found = checked_in(0, 2)
    found.left(2, 1.0)
    (closed,) = found.received(0, req(A, 2, 0), 2.0)
    assert closed.why == f"client 2 of {A} has left, so it is never complete"


def test_a_client_that_vanishes_before_all_have_joined_frees_the_communicator():
    found = side()
    found.received(0, f"COMM;{A},2,0".encode(), 0.0)
    found.left(0, 0.5)
    for client in (1, 2):
        effects = found.received(client, f"COMM;{A},2,0".encode(), 1.0)
    assert [effect.client for effect in effects] == [1, 2]


def test_who_never_asks_is_named_after_the_limit():
    found = checked_in(0, 2)
    found.received(0, req(A, 2, 0), 5.0)
    assert found.wake_at() == 15.0
    assert found.expire(14.9) == []
    assert found.expire(15.0) == [Close(0, "client 2 (h1) did not ask with it")]
    assert found.wake_at() is None


def test_ranks_that_never_check_in_are_counted_after_the_limit():
    found = side()
    found.received(0, f"COMM;{A},3,0".encode(), 1.0)
    found.received(1, f"COMM;{A},3,0".encode(), 2.0)
    effects = found.expire(11.0)
    assert {effect.client for effect in effects} == {0, 1}
    assert effects[0].why == "1 of 3 ranks of its communicator have not checked in"


def test_a_worker_that_fails_ends_the_lines_of_those_who_asked_and_keeps_the_word():
    found = checked_in(0, 2)
    for client in (0, 2):
        found.received(client, req(A, 11, 1_000_000), 0.0)
    effects = found.worker_failed(0, "no reply", 1.0)
    assert {effect.client for effect in effects} == {0, 2}
    assert effects[0].why == "the worker of rail 0 failed: no reply"
    assert found.rails.words == [0, 0]


def test_what_comes_after_the_end_of_a_line_is_dropped():
    found = side()
    found.received(0, b"HELLO", 0.0)
    assert found.received(0, f"COMM;{A},2,0".encode(), 0.0) == []
    for client in (1, 2):
        effects = found.received(client, f"COMM;{A},2,0".encode(), 0.0)
    assert [effect.client for effect in effects] == [1, 2]


def test_only_those_who_asked_for_a_pair_are_told():
    found = checked_in(0, 1, 2, 3)
    for client in (2, 1):
        found.received(client, req(A, 21, 2_000_000), 0.0)
    line = encode(parse(f"CONFIG_ACK;{A}".encode()))
    assert found.worker_done(0, 6, 0.0) == [Send(1, line), Send(2, line)]


@pytest.mark.parametrize(
    ("asked", "late", "why"),
    [
        ((2, 5), (2, 6), "client 2 (h1) asks with number 2 and counter 6, client 0 (h0) with 2 "),
        ((11, 1_000_000), (2, 1_000_000), "client 2 (h1) asks with number 2 and counter 1000000"),
    ],
)
def test_who_asks_for_what_nobody_else_can_ask_for_is_named_at_once(asked, late, why):
    found = checked_in(0, 2)
    assert found.received(0, req(A, *asked), 0.0) == []
    first, second = found.received(2, req(A, *late), 0.0)
    assert why in first.why
    assert (first.client, second.client) == (2, 0)


def test_nobody_asks_for_a_stage_while_its_last_one_is_being_made():
    found = checked_in(0, 2)
    for client in (0, 2):
        found.received(client, req(A, 11, 1_000_000), 0.0)
    (closed,) = found.received(0, req(A, 2, 0), 0.0)
    assert "client 0 (h0) asks for two stages at once" in closed.why


def test_a_pair_that_is_left_of_a_longer_pipeline_goes_on():
    found = checked_in(0, 1, 2, 3)
    found.left(3, 0.0)
    assert found.received(0, req(A, 11, 1_000_000), 0.0) == []
    assert found.received(1, req(A, 11, 1_000_000), 0.0) == [SetWord(0, 3)]


def test_a_communicator_that_all_have_left_can_be_made_anew():
    found = checked_in(0, 2)
    found.left(0, 1.0)
    found.left(2, 1.0)
    for client in (1, 3):
        effects = found.received(client, f"COMM;{A},2,0".encode(), 2.0)
    assert [effect.client for effect in effects] == [1, 3]
