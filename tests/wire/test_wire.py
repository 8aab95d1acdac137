"""Far ends on TCP ports and pseudo-terminals, and the wall clock they live by."""

import os
import select
import socket
import ssl
import threading
import tty
from contextlib import suppress

import pytest

from testbed.clock import now
from testbed.twin.far_end_tcp_pty import serve_pty, serve_tcp
from testbed.twin.scheduler import WallScheduler


class Echo:
    """A far end that answers every client with its number and what it heard."""

    def __init__(self):
        self.clients = []

    def session(self, send, *, serial=False, hang_up=None):
        self.clients.append((send, serial))
        return EchoSession(f"{len(self.clients)}:".encode(), send)


class EchoSession:
    """One client's line."""

    def __init__(self, greeting, send):
        self._greeting = greeting
        self._send = send

    def receive(self, data):
        self._send(self._greeting + data)


@pytest.fixture
def echo():
    return Echo()


@pytest.fixture
def tcp(echo):
    wire = serve_tcp(echo)
    yield wire
    wire.close()


def connected(wire):
    return socket.create_connection((wire.host, wire.port), timeout=5)


def said(client, words):
    client.sendall(words)
    return client.recv(100)


def test_every_client_of_a_far_end_has_its_own_session(tcp, echo):
    with connected(tcp) as one:
        assert said(one, b"a") == b"1:a"
        with connected(tcp) as two:
            assert said(two, b"b") == b"2:b"
            assert said(one, b"c") == b"1:c"
    assert [serial for _, serial in echo.clients] == [False, False]


def test_cutting_a_far_end_closes_all_connections_and_new_ones_are_accepted(tcp):
    with connected(tcp) as one, connected(tcp) as two:
        assert (said(one, b"a")[1:], said(two, b"b")[1:]) == (b":a", b":b")
        tcp.cut()
        assert (one.recv(1), two.recv(1)) == (b"", b"")
    with connected(tcp) as three:
        assert said(three, b"c") == b"3:c"


def test_a_closed_server_refuses_connections_and_frees_its_port(tcp, echo):
    with connected(tcp) as client:
        said(client, b"a")
        tcp.close()
        tcp.close()
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connected(tcp)
    again = serve_tcp(echo, port=tcp.port)
    again.close()


def test_a_reply_to_a_closed_connection_is_dropped(tcp, echo):
    with connected(tcp) as client:
        said(client, b"a")
    send, _ = echo.clients[0]
    for _ in range(3):
        send(b"late")
    with connected(tcp) as client:
        assert said(client, b"b") == b"2:b"


def test_a_client_without_tls_does_not_disturb_others(echo):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wire = serve_tcp(echo, tls=context)
    try:
        for _ in range(2):
            with connected(wire) as client, suppress(ConnectionResetError):
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while client.recv(100):
                    pass
        assert echo.clients == []
    finally:
        wire.close()


@pytest.fixture
def opened():
    """Open a device raw, as a driver would; everything is closed in the end."""
    descriptors = []

    def open_device(path):
        descriptors.append(os.open(path, os.O_RDWR | os.O_NOCTTY))
        tty.setraw(descriptors[-1])
        return descriptors[-1]

    yield open_device
    for descriptor in descriptors:
        os.close(descriptor)


def asked(descriptor, words):
    os.write(descriptor, words)
    ready, _, _ = select.select([descriptor], [], [], 5)
    assert ready
    return os.read(descriptor, 100)


def test_a_pseudo_terminal_serves_one_client_after_the_other_under_its_name(echo, tmp_path, opened):
    link = tmp_path / "ttyUSB7"
    link.symlink_to("/nowhere")
    wire = serve_pty(echo, link)
    try:
        assert wire.path == link
        descriptor = os.open(link, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(descriptor)
        assert asked(descriptor, b"a\r\n") == b"1:a\r\n"
        os.close(descriptor)
        assert asked(opened(link), b"b") == b"1:b"
        assert [serial for _, serial in echo.clients] == [True]
    finally:
        wire.close()
        wire.close()
    assert not link.is_symlink()


def test_a_pseudo_terminal_without_a_given_name_gets_a_device_name(echo, opened):
    wire = serve_pty(echo)
    try:
        assert asked(opened(wire.path), b"a") == b"1:a"
    finally:
        wire.close()


def test_closing_a_pseudo_terminal_disconnects_its_client(echo, opened):
    wire = serve_pty(echo)
    descriptor = opened(wire.path)
    wire.close()
    assert os.read(descriptor, 1) == b""


def test_bytes_are_delayed_according_to_the_baud_rate(echo, opened):
    wire = serve_pty(echo, baud=1200)
    try:
        descriptor = opened(wire.path)
        begun = now()
        assert asked(descriptor, b"abcd") == b"1:abcd"
        assert now() - begun >= (4 + 6) * 10 / 1200
    finally:
        wire.close()


@pytest.fixture
def scheduler():
    scheduler = WallScheduler()
    yield scheduler
    scheduler.close()


def test_scheduled_actions_run_in_the_order_of_their_times_and_never_early(scheduler):
    ran, done = [], threading.Event()
    start = scheduler.now()

    def act(name):
        ran.append((name, scheduler.now() - start))

    scheduler.call_at(start + 0.02, lambda: act("last"))
    scheduler.call_at(start + 0.02, done.set)
    scheduler.call_at(start + 0.01, lambda: act("first of two"))
    scheduler.call_at(start + 0.01, lambda: act("second of two"))
    scheduler.call_at(start - 1, lambda: act("at once"))
    assert done.wait(5)
    assert [name for name, _ in ran] == ["at once", "first of two", "second of two", "last"]
    assert ran[1][1] >= 0.01
    assert ran[3][1] >= 0.02


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_scheduled_action_that_fails_stops_no_other(scheduler):
    done = threading.Event()
    scheduler.call_at(0, lambda: 1 / 0)
    scheduler.call_at(0, done.set)
    assert done.wait(5)


def test_scheduled_actions_not_due_at_closing_never_run():
    ran = []
    scheduler = WallScheduler()
    scheduler.call_at(scheduler.now() + 60, lambda: ran.append(1))
    scheduler.close()
    scheduler.close()
    assert ran == []
