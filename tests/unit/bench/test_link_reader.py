"""The one thread that reads the lines of all agents."""

import socket
import threading
import time
from contextlib import ExitStack

import pytest

from testbed.bench.link_reader import LinkReader


class Line:
    """A line that notes what comes on it, and the thread in which its end was handled."""

    def __init__(self, stack, reader):
        self._near, self.far = socket.socketpair()
        stack.callback(self._close)
        self.came = []
        self.threads = set()
        self.has_ended = threading.Event()
        self._can_end = threading.Event()
        stack.callback(self._can_end.set)
        reader.add(self._near.fileno(), self._read)

    def _read(self):
        self.threads.add(threading.current_thread())
        data = self._near.recv(1024)
        self.came.append(data)
        return None if data else self._end

    def _close(self):
        self.far.close()
        assert self.has_ended.wait(10)  # nothing reads it any more
        self._near.close()

    def _end(self):
        self.has_ended.set()
        self._can_end.wait(10)

    def wait_for(self, *came):
        deadline = time.monotonic() + 10
        while tuple(self.came) != came:
            assert time.monotonic() < deadline, self.came
            time.sleep(0.001)


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


def test_many_lines_are_read_in_one_thread(stack):
    reader = LinkReader()
    lines = [Line(stack, reader) for _ in range(50)]
    for number, line in enumerate(lines):
        line.far.sendall(str(number).encode())
    for number, line in enumerate(lines):
        line.wait_for(str(number).encode())
    assert len(set().union(*(line.threads for line in lines))) == 1


def test_lines_are_read_while_the_end_of_another_is_handled(stack):
    reader = LinkReader()
    ended, other = Line(stack, reader), Line(stack, reader)
    ended.far.close()
    assert ended.has_ended.wait(10)  # and it goes on until this test is over
    other.far.sendall(b"one")
    other.wait_for(b"one")


def test_the_thread_ends_with_its_last_line_and_another_begins_with_the_next(stack):
    reader = LinkReader()
    for _ in range(3):
        lines = [Line(stack, reader), Line(stack, reader)]
        lines[0].far.close()
        assert lines[0].has_ended.wait(10)
        lines[1].far.sendall(b"one")
        lines[1].wait_for(b"one")
        (thread,) = lines[1].threads
        assert thread.is_alive()
        lines[1].far.close()
        assert lines[1].has_ended.wait(10)
        thread.join(10)
        assert not thread.is_alive()
