"""Lines on which messages have an end, as on GPIB, USB and HiSLIP; here HiSLIP on real sockets."""

import threading
import time

import pytest

from testbed.clock import Deadline, now
from testbed.errors import Garbled, NoReply
from testbed_drivers.transports import visa
from tests.wire.hislip_box import DATA, DATA_END, HislipBox


def soon():
    return Deadline.after(5)


@pytest.fixture
def opened():
    """Return what opens a box that gives a certain answer."""
    made = []

    def open_box(answer):
        box = HislipBox(answer)
        made.append(box)
        made.append(visa.dial("ocs", box.resource, baud=0, deadline=soon()))
        return box, made[-1]

    yield open_box
    for one in reversed(made):
        one.close()


def test_a_command_of_any_length_is_one_message(opened):
    box, line = opened(lambda say: say(DATA_END, b"done\n"))
    order = b"x" * 20_000 + b"\n"
    line.send(order, soon())
    assert line.receive(b"\n", soon()) == b"done\n"
    assert box.heard == [(DATA_END, order)]


def test_a_reply_in_pieces_is_one_message(opened):
    def answer(say):
        say(DATA, b"one")
        say(DATA_END, b"two\n")

    _, line = opened(answer)
    line.send(b"?\n", soon())
    assert line.receive(b"\n", soon()) == b"onetwo\n"


def test_a_device_without_a_timely_reply_is_cleared(opened):
    box, line = opened(lambda say: None)
    line.send(b"?\n", soon())
    with pytest.raises(NoReply, match="did not answer in time"):
        line.receive(b"\n", Deadline.after(0.05))
    assert box.heard == [(DATA_END, b"?\n"), "clear"]


def test_an_endless_message_is_abandoned(opened):
    going_on = threading.Event()

    def answer(say):
        while not going_on.is_set():
            say(DATA, b"x" * 30_000)

    _, line = opened(answer)
    line.send(b"?\n", soon())
    with pytest.raises(Garbled, match="MiB without ending its reply"):
        line.receive(b"\n", Deadline.after(10))
    going_on.set()


def test_packets_that_come_slowly_do_not_extend_the_deadline(opened):
    def answer(say):
        for _ in range(100):
            say(DATA, b"x")
            time.sleep(0.1)

    _, line = opened(answer)
    line.send(b"?\n", soon())
    deadline = Deadline.after(0.3)
    with pytest.raises(NoReply):
        line.receive(b"\n", deadline)
    assert now() < deadline.at + 3
