"""The link to an agent, with this test as the agent at its other end."""

import math
import select
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from testbed.bench.link import AgentLink
from testbed.clock import Deadline
from testbed.errors import HostError, HostTimeout
from testbed.onhost.frames import Decoder, encode
from tests.unit.bench.agent_on_pipes import EventRecorder, soon


class SocketChannel:
    """The controller's end of a line."""

    def __init__(self, line):
        self._line = line
        self.complaints = ""

    def send(self, data):
        try:
            self._line.sendall(data)
        except OSError as error:
            raise HostError("h0", f"the line broke: {error}") from error

    def fileno(self):
        return self._line.fileno()

    def receive(self):
        try:
            return self._line.recv(1 << 16)
        except OSError:
            return b""

    def complaint(self):
        return self.complaints

    def close(self):
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def release(self):
        self._line.close()


class FarSide:
    """The agent's end of the line: reads questions and answers as the test says."""

    def __init__(self, line, channel):
        self._line = line
        self._channel = channel
        self._decoder = Decoder()
        self._questions = []

    def question(self):
        while not self._questions:
            self._questions += self._decoder.feed(self._line.recv(1 << 16))
        return self._questions.pop(0)

    def say(self, **message):
        self._line.sendall(encode(message))

    def write(self, data):
        self._line.sendall(data)

    def wait_for_data(self):
        assert select.select([self._line], [], [], 10)[0]

    def hang_up(self, complaints=""):
        self._channel.complaints = complaints
        self._line.shutdown(socket.SHUT_RDWR)

    def is_hung_up_on(self):
        return self._line.recv(1) == b""


def frame(body):
    return len(body).to_bytes(4, "big") + body


@pytest.fixture
def line():
    """A link, what it hears, and the far side of its line."""
    ours, theirs = socket.socketpair()
    events, channel = EventRecorder(), SocketChannel(ours)
    link = AgentLink("h0", channel, events)
    yield link, events, FarSide(theirs, channel)
    theirs.close()
    link.close()


def test_a_reply_has_the_interval_in_which_the_agent_answered(line):
    link, _, far = line
    future = link.post("clock", what="time")
    question = far.question()
    assert question["do"] == "clock"
    assert question["what"] == "time"
    far.say(re=question["id"], ok=[1, 2])
    answer = future.result(10)
    assert answer.value == [1, 2]
    assert answer.sent < answer.received


def test_a_notification_has_no_number_and_waits_for_nothing(line):
    link, _, far = line
    link.notify("tell", slot=3)
    assert far.question() == {"id": None, "do": "tell", "slot": 3}
    far.hang_up()
    assert link.is_over_within(10)
    link.notify("tell", slot=3)  # nobody is there to hear it


def test_replies_are_matched_to_requests_in_any_order(line):
    link, _, far = line
    futures = [link.post("echo", n=n) for n in range(20)]
    for question in sorted((far.question() for _ in futures), key=lambda q: -q["n"]):
        far.say(re=question["id"], ok=question["n"])
    assert [future.result(10).value for future in futures] == list(range(20))


def test_many_threads_can_send_requests_at_once(line):
    link, _, far = line

    def answer():
        for _ in range(100):
            question = far.question()
            far.say(re=question["id"], ok=question["n"])

    with ThreadPoolExecutor(9) as pool:
        answering = pool.submit(answer)
        found = list(pool.map(lambda n: link.ask("echo", soon(), n=n).value, range(100)))
        answering.result(10)
    assert found == list(range(100))


def test_answers_and_events_are_taken_while_a_request_is_sent_that_the_host_does_not_take(line):
    link, events, far = line
    asked = link.post("echo")
    number = far.question()["id"]
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(link.post, "tell", text="x" * (8 << 20))  # more than a line holds
        try:
            far.wait_for_data()
            far.say(re=number, ok="answered")
            far.say(event="exit", slot=0, code=1)
            assert asked.result(10).value == "answered"
            events.wait_for("exit")
            assert not sending.done()
            far.hang_up()
            with pytest.raises(HostError, match=r"link ended|line broke"):
                sending.result(10).result(10)
            events.wait_for("lost")
        finally:
            far.hang_up()


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("sh: 1: python3: not found", "sh: 1: python3: not found"),
        ("", "the line broke: [Errno 32] Broken pipe"),
    ],
)
def test_a_request_that_cannot_be_sent_fails_with_what_the_agent_complained_of(complaint, words):
    """A link may be found broken by who sends before its end is read."""
    ours, theirs = socket.socketpair()
    ours.shutdown(socket.SHUT_WR)
    channel = SocketChannel(ours)
    channel.complaints = complaint
    link = AgentLink("h0", channel, EventRecorder())
    with theirs, pytest.raises(HostError) as failed:
        link.ask("hello", soon())
    assert failed.value.args[0] == f"h0: its agent's link ended: {words}"


def test_a_refused_request_raises_an_error_with_the_message_of_the_agent(line):
    link, _, far = line
    future = link.post("start")
    far.say(re=far.question()["id"], error="OSError: no memory")
    with pytest.raises(HostError, match=r"^h0: OSError: no memory$"):
        future.result(10)


def test_a_missing_reply_is_a_timeout_and_a_late_one_is_discarded(line):
    link, _, far = line
    with pytest.raises(HostTimeout, match="no answer to 'alive' in time"):
        link.ask("alive", Deadline.after(0.01))
    late = far.question()
    future = link.post("echo")
    far.say(re=late["id"], ok="late")
    far.say(re=far.question()["id"], ok="mine")
    assert future.result(10).value == "mine"


def test_events_are_delivered_in_order_and_replies_are_no_events(line):
    link, events, far = line
    future = link.post("alive")
    far.say(event="carrier", port="p0", up=False)
    far.say(re=far.question()["id"], ok={})
    far.say(event="carrier", port="p0", up=True)
    future.result(10)
    events.wait_for("carrier", count=2)
    assert [message["up"] for message in events.received] == [False, True]


def test_a_closed_connection_fails_every_request_and_is_reported_once(line):
    link, events, far = line
    futures = [link.post("alive") for _ in range(3)]
    far.hang_up("Traceback\nMemoryError: out of memory")
    for future in futures:
        with pytest.raises(HostError, match="its agent's link ended: MemoryError: out of memory"):
            future.result(10)
    assert events.wait_for("lost")["reason"].endswith("MemoryError: out of memory")
    with pytest.raises(HostError):
        link.ask("alive", soon())
    assert len(events.of("lost")) == 1


def test_a_link_that_we_close_ourselves_is_not_reported_lost(line):
    link, events, far = line
    future = link.post("alive")
    far.question()
    link.close()
    far.hang_up()
    with pytest.raises(HostError):
        future.result(10)
    with pytest.raises(HostError, match="closed"):
        link.ask("alive", soon())
    link.close()
    assert not events.received


@pytest.mark.parametrize(
    ("noise", "reason"),
    [
        (b"Welcome to h0!\n", "its agent sent b'Welcome to h0!"),
        (b"\0\0\0\x02[]", "no JSON object"),
        (encode({"re": 99, "ok": {}}), "request 99, which is not pending"),
        (encode({"re": [], "ok": {}}), "unhashable"),
        (frame(b'{"event":"step","of":' + b"[" * 600 + b"]" * 600 + b"}"), "nested deeper than 64"),
    ],
)
def test_an_agent_that_sends_garbage_is_reported_lost_and_disconnected(line, noise, reason):
    link, events, far = line
    future = link.post("alive")
    number = far.question()["id"]
    assert number != 99
    far.write(noise)
    assert reason in events.wait_for("lost")["reason"]
    with pytest.raises(HostError):
        future.result(10)
    assert far.is_hung_up_on()


def test_an_agent_silent_for_too_long_is_reported_lost(line):
    link, events, far = line
    future = link.post("start")
    link.keep_alive(0.1)
    assert events.wait_for("lost")["reason"] == "it was silent for 0.1 s"
    with pytest.raises(HostError, match="it was silent"):
        future.result(10)
    said = {far.question()["do"] for _ in range(3)}
    assert said == {"start", "alive"}


def test_an_agent_that_replies_is_not_reported_lost(line):
    link, events, far = line
    answered = threading.Event()

    def answer():
        for count in range(12):
            far.say(re=far.question()["id"], ok={})
            if count == 11:
                answered.set()

    thread = threading.Thread(target=answer)
    thread.start()
    link.keep_alive(0.1)
    assert answered.wait(10)
    thread.join()
    assert not events.of("lost")


def test_a_loss_beyond_all_numbers_and_a_broken_character_are_heard_as_sent(line):
    _, events, far = line
    far.write(frame(b'{"event":"step","loss":NaN,"best":-Infinity}'))
    heard = events.wait_for("step")
    assert math.isnan(heard["loss"]) and heard["best"] == -math.inf
    far.write(frame(b'{"event":"why","text":"\\udc80"}'))
    assert events.wait_for("why")["text"] == "\udc80"
