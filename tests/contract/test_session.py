"""A session keeps exchanges apart, closes what is in doubt and repeats only reads."""

import threading

import pytest

from testbed.clock import Deadline
from testbed.errors import Garbled, LinkLost, NoReply, Rejected
from testbed_drivers.dialects.session import Session


class Line:
    """A line that only knows whether it is open."""

    def __init__(self):
        self.closed = False

    def quiet(self):
        return True

    def close(self):
        self.closed = True


@pytest.fixture
def opened():
    return []


@pytest.fixture
def session(opened):
    def dial(deadline):
        opened.append(Line())
        return opened[-1]

    return Session("ocs", dial, lambda line, deadline: None, lambda way, data: None)


def soon():
    return Deadline.after(5)


def test_one_connection_serves_successive_exchanges(session, opened):
    for _ in range(3):
        with session.exchange(soon()) as line:
            assert line is opened[0]
    assert len(opened) == 1


@pytest.mark.parametrize("doubt", [NoReply("ocs", "?"), LinkLost("ocs", "?"), KeyboardInterrupt()])
def test_any_error_but_a_refusal_closes_the_connection(session, opened, doubt):
    with pytest.raises(type(doubt)), session.exchange(soon()):
        raise doubt
    assert opened[0].closed
    with session.exchange(soon()) as line:
        assert line is opened[1]


def test_a_refusal_leaves_the_connection_open(session, opened):
    with pytest.raises(Rejected), session.exchange(soon()):
        raise Rejected("ocs", "no")
    assert not opened[0].closed


def test_a_failed_greeting_closes_the_connection_and_starts_no_exchange(opened):
    line = Line()

    def greet(line, deadline):
        raise NoReply("ocs", "nobody there")

    session = Session("ocs", lambda deadline: line, greet, lambda way, data: None)
    with pytest.raises(NoReply), session.exchange(soon()):
        pytest.fail("the exchange began on a line that was not greeted")
    assert line.closed


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NoReply("ocs", "was silent"), "asked for its identity, it was silent;"),
        (Garbled("ocs", "answered '?'", reply="?"), "asked for its identity, it answered '?';"),
        (Garbled("ocs", "does not report its identity"), "ocs: does not report its identity;"),
        (NoReply("ocs", "left", hint="ask"), "asked for its identity, it left; ask"),
    ],
)
def test_a_failed_greeting_hints_at_a_wrong_driver_or_resource(error, words):
    def greet(line, deadline):
        raise error

    session = Session("ocs", lambda deadline: Line(), greet, lambda way, data: None)
    with pytest.raises(type(error)) as caught, session.exchange(soon()):
        pytest.fail("the exchange began on a line that was not greeted")
    assert words in str(caught.value)
    assert error.hint or "'driver' and 'resource'" in str(caught.value)
    assert caught.value.reply == error.reply


def test_another_thread_waits_until_a_held_session_is_released(session):
    order = []
    begun = threading.Event()

    def other():
        begun.set()
        with session.exchange(soon()):
            order.append("other")

    thread = threading.Thread(target=other)
    with session.held(soon()):
        thread.start()
        begun.wait()
        for _ in range(2):
            with session.exchange(soon()):
                order.append("ours")
    thread.join()
    assert order == ["ours", "ours", "other"]


def test_waiting_for_another_thread_ends_at_the_deadline(session):
    failed = []

    def other():
        try:
            with session.held(Deadline.after(0.02)):
                pass
        except NoReply as error:
            failed.append(str(error))

    thread = threading.Thread(target=other)
    with session.held(soon()):
        thread.start()
        thread.join()
    assert failed == ["ocs: was busy with other exchanges until the deadline"]


def test_a_read_is_not_repeated_after_the_deadline(session):
    asked = []

    def ask():
        asked.append(1)
        raise NoReply("ocs", "?")

    with pytest.raises(NoReply):
        session.read(ask, Deadline.after(0))
    assert len(asked) == 1


def test_a_repeated_read_is_noted_in_the_transcript():
    heard = []
    session = Session(
        "ocs",
        lambda deadline: Line(),
        lambda line, deadline: None,
        lambda way, data: heard.append((way, data)),
    )
    answers = iter([NoReply("ocs", "did not answer"), "circuits"])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert session.read(ask, soon()) == "circuits"
    assert heard == [("retry", b"did not answer")]


def test_a_connection_closed_during_an_exchange_is_closed_when_the_exchange_ends(session, opened):
    begun, over = threading.Event(), threading.Event()

    def exchange():
        with session.exchange(soon()):
            begun.set()
            over.wait(30)

    thread = threading.Thread(target=exchange)
    thread.start()
    begun.wait(30)
    session.close()
    assert thread.is_alive() and not opened[0].closed
    over.set()
    thread.join()
    assert opened[0].closed
    with session.exchange(soon()) as line:
        assert line is opened[1]
    assert not line.closed
