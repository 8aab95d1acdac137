"""Proof of who is at the other end of a circuit, as someone on the fibre between sees it."""

import contextlib
import json
import select
import socket

import pytest

from testbed.onhost.agent.identity import IdentityPort
from testbed.onhost.agent.identity_query import IdentityQuery

TOKEN = "the token of this run"


@pytest.fixture
def ends():
    """Two ports of two hosts, on the loopback interface."""
    with contextlib.ExitStack() as stack:
        made = [IdentityPort(host, "p0", "lo", TOKEN) for host in ("h0", "h1")]
        for each in made:
            stack.callback(each.close)
        yield made


@pytest.fixture
def tap():
    """A fibre that somebody else holds: what is sent to it can be read and sent on."""
    with socket.socket(type=socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", 0))
        line.settimeout(5)
        yield line


def handed_on(tap, port):
    """Send what came to the tap on to a port; return the datagram and its sender."""
    data, sender = tap.recvfrom(2048)
    tap.sendto(data, ("127.0.0.1", port.number))
    return data, sender


def heard(port):
    assert select.select([port], [], [], 5)[0]
    port.read_datagrams()
    return port.answers


def asked_through(tap, ends, question):
    """Ask over the tap; return the question and the answer that passed it."""
    here, there = ends
    here.ask(tap.getsockname()[1], question, "127.0.0.1")
    asked, _ = handed_on(tap, there)
    heard(there)
    answer, _ = handed_on(tap, here)
    return asked, answer


def test_a_question_is_repeated_as_it_was_until_it_is_forgotten(ends, tap):
    here, _ = ends

    def asked():
        here.ask(tap.getsockname()[1], 1, "127.0.0.1")
        return tap.recv(2048)

    first = asked()
    assert asked() == first
    here.forget(1)
    assert asked() != first


def test_an_identity_query_is_answered_without_sending_the_token(ends, tap):
    asked, answer = asked_through(tap, ends, question=1)
    assert heard(ends[0])[1]["host"] == "h1"
    assert TOKEN.encode() not in asked + answer


def test_identity_answer_must_repeat_the_nonce_of_its_question(ends, tap):
    _, old = asked_through(tap, ends, question=1)
    heard(ends[0])
    ends[0].forget(1)
    ends[0].ask(tap.getsockname()[1], 1, "127.0.0.1")
    tap.sendto(old, ("127.0.0.1", ends[0].number))
    assert heard(ends[0]) == {}


def test_identity_answer_that_was_modified_is_rejected(ends, tap):
    here, there = ends
    here.ask(tap.getsockname()[1], 1, "127.0.0.1")
    handed_on(tap, there)
    heard(there)
    said = json.loads(tap.recv(2048))
    said["text"] = said["text"].replace("h1", "h7")
    tap.sendto(json.dumps(said).encode(), ("127.0.0.1", here.number))
    assert heard(here) == {}


class Fibre:
    """What a query sends, and what comes back."""

    port = "p0"

    def __init__(self):
        self.asked, self.answers, self.questions = 0, {}, set()

    def ask(self, number, question, address):
        self.asked += 1
        self.latest = question
        self.questions.add(question)

    def forget(self, question):
        self.answers.pop(question, None)


def queried(fibre, **fields):
    request = {"expect": ["h1", "p0"], "peer": 1, "limit": 9, "interval": 0.001, **fields}
    return IdentityQuery(request, fibre, 0.0)


def send_for(query, begin, milliseconds, has_carrier):
    results = [
        query.work(begin + number / 1000, has_carrier=has_carrier) for number in range(milliseconds)
    ]
    return [result for result in results if result]


def test_a_query_is_sent_rarely_without_a_carrier_and_at_once_with_one():
    fibre = Fibre()
    query = queried(fibre, first=True, count=1000)
    assert send_for(query, 0.0, 100, has_carrier=False) == []
    assert 4 <= fibre.asked <= 6, "a port that reports no carrier may have light all the same"
    before = fibre.asked
    assert send_for(query, 0.1, 1, has_carrier=True) == []
    assert fibre.asked == before + 1
    fibre.answers[fibre.latest] = {"host": "h1", "port": "p0"}
    (result,) = send_for(query, 0.101, 1, has_carrier=True)
    assert result["good"]


def test_a_query_for_the_first_answer_repeats_one_question_and_counts_how_often():
    fibre = Fibre()
    query = queried(fibre, first=True, count=1000)
    send_for(query, 0.0, 50, has_carrier=True)
    assert len(fibre.questions) == 1
    (result,) = send_for(query, 9.0, 1, has_carrier=True)
    assert (result["asked"], result["answered"], result["good"]) == (fibre.asked, 0, False)
    assert fibre.asked > 25


def test_a_query_that_counts_losses_is_sent_each_time_whatever_the_carrier():
    fibre = Fibre()
    send_for(queried(fibre, first=False, count=50), 0.0, 100, has_carrier=False)
    assert fibre.asked == len(fibre.questions) == 50


@pytest.mark.parametrize(
    ("has_carrier", "count", "due"), [(True, 9, 0.001), (False, 9, 0.02), (True, 1, 9.0)]
)
def test_a_query_is_due_when_it_is_repeated_or_its_time_is_up(has_carrier, count, due):
    query = queried(Fibre(), first=True, count=count)
    assert query.due_within(0.0, has_carrier=has_carrier) == 0.0
    query.work(0.0, has_carrier=has_carrier)
    assert query.due_within(0.0, has_carrier=has_carrier) == pytest.approx(due)
    assert query.due_within(due + 1, has_carrier=has_carrier) == 0.0


def test_a_beacon_names_its_port_to_its_receiver_and_gets_no_answer(ends):
    here, there = ends
    here.send_beacon(there.number, 1)
    heard(there)
    assert there.beacons(1) == [("h0", "p0")]
    assert not select.select([here], [], [], 0.05)[0]


def test_beacons_with_a_lower_mark_do_not_count_and_are_forgotten(ends):
    here, there = ends
    for mark in (1, 2):
        here.send_beacon(there.number, mark)
        heard(there)
    assert there.beacons(2) == [("h0", "p0")]
    assert there.beacons(1) == []


def test_a_beacon_without_the_token_of_the_run_is_ignored(ends):
    stranger = IdentityPort("h9", "p0", "lo", "another token")
    stranger.send_beacon(ends[1].number, 1)
    heard(ends[1])
    stranger.close()
    assert ends[1].beacons(1) == []
