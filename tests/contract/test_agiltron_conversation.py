"""What the Agiltron driver says, byte by byte, and what it makes of the answers."""

import pytest

from testbed.clock import Deadline
from testbed.errors import Garbled, NoReply, UsageError
from testbed.fabric.change import Change

ASK = bytes([1, 0x11, 0, 0])


def soon():
    return Deadline.after(5)


def at(channel):
    return ASK, bytes([1, 0x11, 0, channel])


def go(channel):
    return bytes([1, 0x12, 0, channel])


@pytest.fixture
def switch(script):
    script.line(at(1), at(1))
    switch = script.driver("agiltron", serial=True, identity=None, channels=4)
    switch.open(soon())
    return switch


def test_capabilities_have_the_channels_of_the_lab_file_and_one_is_always_connected(switch):
    assert switch.capabilities.positions == ({1: 2}, {1: 3}, {1: 4}, {1: 5})


def test_a_move_is_echoed_and_read_back(script, switch):
    script.opened[0].then(at(1), (go(3), go(3)), at(3))
    assert switch.apply(Change({1: 2}, {1: 4}), soon()).state == {1: 4}


@pytest.mark.parametrize("echo", [go(2), bytes([1, 0x11, 0, 3]), b"\x81\x12\0\3"])
def test_a_frame_that_differs_from_the_echo_is_an_error_and_nothing_is_resent(script, switch, echo):
    script.opened[0].then(at(1), (go(3), echo))
    script.line(at(3), at(3))
    with pytest.raises(
        Garbled, match=r"answered 01 12 00 03 with: .* which is not the echo of the command"
    ):
        switch.apply(Change({1: 2}, {1: 4}), soon())
    assert switch.state(soon()) == {1: 4}


def test_a_move_without_an_echo_is_not_resent(script, switch):
    script.opened[0].then(at(1), (go(3), None))
    with pytest.raises(NoReply, match="did not answer 01 12 00 03 in time"):
        switch.apply(Change({1: 2}, {1: 4}), soon())


@pytest.mark.parametrize("trouble", [None, b"\1\x11\0", go(1), at(0)[1], at(5)[1], b"oops"])
def test_a_failed_read_is_repeated_once_on_a_new_connection(script, switch, trouble):
    script.opened[0].then((ASK, trouble))
    script.line(at(2), at(2))
    assert switch.state(soon()) == {1: 3}


def test_a_lab_file_with_a_serial_number_is_refused(script):
    with pytest.raises(UsageError, match="does not report its serial number; leave out"):
        script.driver("agiltron", serial=True)
