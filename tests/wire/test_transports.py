"""Transports against real sockets and terminals: every pitfall of the libraries below them."""

import errno
import os
import socket
import sys
import termios
import threading
import time
import tty
import types

import pytest
from pyvisa.highlevel import VisaLibraryBase
from pyvisa_py.highlevel import PyVisaLibrary

from testbed.clock import Deadline, now
from testbed.errors import BusyError, LinkLost, NoReply, UsageError
from testbed_drivers.switches.descriptors.selectors import DiconOptions
from testbed_drivers.transports import serial_port, tcp
from testbed_drivers.transports import visa as transport_visa
from testbed_drivers.transports.base import dial_for, is_serial, open_error


class Peer:
    """The other side of a TCP connection, by hand."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.resource = f"TCPIP::127.0.0.1::{self._listener.getsockname()[1]}::SOCKET"
        self.line = None

    def accept(self):
        self.line, _ = self._listener.accept()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for line in (self.line, self._listener):
            if line is not None:
                line.close()


class Terminal:
    """The other side of a serial line, by hand."""

    def __init__(self):
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.path = os.ttyname(self.slave)

    def close(self):
        os.close(self.master)
        os.close(self.slave)


def soon():
    return Deadline.after(5)


def _descriptor(line):
    return line._descriptor if hasattr(line, "_descriptor") else line._line.fileno()


@pytest.fixture
def peer():
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture
def visa(peer):
    transport = transport_visa.dial("ocs", peer.resource, baud=0, deadline=soon())
    peer.accept()
    yield transport
    transport.close()


@pytest.fixture
def terminal():
    terminal = Terminal()
    yield terminal
    terminal.close()


SERIAL = {"visa": transport_visa.dial, "serial": serial_port.dial}


@pytest.fixture(params=SERIAL)
def serial(request, terminal):
    resource = f"ASRL{terminal.path}::INSTR"
    transport = SERIAL[request.param]("ocs", resource, baud=38400, deadline=soon())
    yield transport
    transport.close()


class TestVisaSocket:
    def test_lines_are_assembled_from_any_pieces(self, visa, peer):
        peer.line.sendall(b"one\r\ntw")
        assert visa.receive(b"\r\n", soon()) == b"one\r\n"
        peer.line.sendall(b"o\r")
        with pytest.raises(NoReply, match=r"stopped answering after 'two\\r'"):
            visa.receive(b"\r\n", Deadline.after(0.02))
        peer.line.sendall(b"\n")
        assert visa.receive(b"\r\n", soon()) == b"two\r\n"

    def test_a_long_line_is_received_completely(self, visa, peer):
        line = b"x" * 20_000 + b"\n"
        visa.send(line, soon())
        received = b""
        while len(received) < len(line):
            received += peer.line.recv(65536)
        assert received == line

    def test_nagles_algorithm_is_disabled(self, visa, peer):
        below = visa._resource.visalib.sessions[visa._resource.session].interface
        assert below.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1

    @pytest.mark.parametrize("dial", [transport_visa.dial, tcp.dial])
    def test_a_vanished_peer_is_detected_by_keepalive_within_a_minute(self, dial):
        with Peer() as peer:
            line = dial("ocs", peer.resource, baud=0, deadline=soon())
            with socket.socket(fileno=os.dup(_descriptor(line))) as below:
                idle, between, count = (
                    below.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                )
                assert below.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert 0 < idle + between * count <= 60
                unanswered = below.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert 0 < unanswered <= 30_000
            line.close()

    def test_a_missing_reply_ends_at_the_deadline(self, visa):
        deadline = Deadline.after(0.03)
        with pytest.raises(NoReply, match="did not answer in time"):
            visa.receive(b"\n", deadline)
        assert deadline.at <= now() < deadline.at + 0.5

    def test_a_closed_connection_is_detected_at_once_without_busy_waiting(self, visa, peer):
        def hang_up():
            peer.line.sendall(b"half a li")
            peer.line.close()

        threading.Timer(0.05, hang_up).start()
        deadline, cpu = Deadline.after(20), time.thread_time()
        with pytest.raises(LinkLost, match="the other side closed the connection"):
            visa.receive(b"\n", deadline)
        assert deadline.left > 10
        assert time.thread_time() - cpu < 0.04

    def test_a_connection_closed_by_the_peer_counts_as_not_idle(self, visa, peer):
        assert visa.quiet()
        peer.line.close()
        assert not visa.quiet()

    def test_unrequested_bytes_make_the_connection_count_as_not_idle(self, visa, peer):
        peer.line.sendall(b"late\nlater\n")
        assert not visa.quiet()
        visa.receive(b"\n", soon())
        assert not visa.quiet()
        visa.receive(b"\n", soon())
        assert visa.quiet()

    def test_sending_to_a_peer_that_does_not_read_ends_at_the_deadline(self, visa):
        with pytest.raises(NoReply):
            visa.send(bytes(16_000_000), Deadline.after(0.05))

    def test_a_closed_port_raises_link_lost_at_once(self, peer):
        peer.close()
        deadline = Deadline.after(20)
        with pytest.raises(LinkLost, match=r"Connection refused.*nothing listens there"):
            transport_visa.dial("ocs", peer.resource, baud=0, deadline=deadline)
        assert deadline.left > 10

    def test_an_unreachable_host_raises_link_lost_within_the_deadline(self):
        with socket.socket() as listener:
            # no server accepts and the backlog is full, so the next handshake gets no answer
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            address = listener.getsockname()
            with socket.create_connection(address):
                deadline = Deadline.after(0.4)
                resource = f"TCPIP::127.0.0.1::{address[1]}::SOCKET"
                with pytest.raises(LinkLost, match="Connection timed out; check that it is on"):
                    transport_visa.dial("ocs", resource, baud=0, deadline=deadline)
                assert now() < deadline.at + 0.05

    def test_a_resource_that_the_visa_library_lacks_is_reported_in_one_sentence(self):
        with pytest.raises(LinkLost, match=r"^ocs: opening GPIB::5::INSTR failed: [^\n]*$"):
            transport_visa.dial("ocs", "GPIB::5::INSTR", baud=0, deadline=soon())

    def test_closing_twice_is_harmless(self, visa):
        visa.close()
        visa.close()


class TestSerialLine:
    def test_lines_are_sent_and_received(self, serial, terminal):
        serial.send(b"*IDN?\r\n", soon())
        assert os.read(terminal.master, 100) == b"*IDN?\r\n"
        os.write(terminal.master, b"a\rb\r")
        assert [serial.receive(b"\r", soon()) for _ in range(2)] == [b"a\r", b"b\r"]

    def test_a_missing_reply_ends_at_the_deadline(self, serial):
        deadline = Deadline.after(0.03)
        with pytest.raises(NoReply, match="did not answer in time"):
            serial.receive(b"\r", deadline)
        assert now() < deadline.at + 0.5

    def test_unrequested_bytes_make_the_connection_count_as_not_idle(self, serial, terminal):
        assert serial.quiet()
        os.write(terminal.master, b"late\rlater\r")
        serial.receive(b"\r", soon())
        assert not serial.quiet()

    def test_a_removed_serial_device_raises_link_lost(self, serial, terminal):
        os.close(terminal.master)
        terminal.master = os.open(os.devnull, os.O_RDONLY)
        assert not serial.quiet()
        with pytest.raises(LinkLost):
            serial.receive(b"\r", soon())
        with pytest.raises(LinkLost):
            serial.send(b"x\r", soon())

    @pytest.mark.parametrize("name", SERIAL)
    def test_parity_and_flow_control_are_set_as_the_lab_file_says(self, terminal, name):
        setting = DiconOptions(transport=name, parity="odd", rtscts=True)
        dial = dial_for("ocs", terminal.path, name, setting)
        line = dial("ocs", terminal.path, baud=9600, deadline=soon())
        mode = termios.tcgetattr(terminal.slave)[2]
        line.close()
        # a pseudo-terminal takes no parity, and says so
        assert mode & termios.CRTSCTS
        assert mode & termios.PARODD

    @pytest.mark.parametrize("second", SERIAL)
    def test_a_serial_device_is_locked_by_one_program(self, serial, terminal, second):
        with pytest.raises(BusyError, match="is open in another program"):
            SERIAL[second]("ocs", f"ASRL{terminal.path}::INSTR", baud=38400, deadline=soon())

    @pytest.mark.parametrize("name", SERIAL)
    def test_a_missing_serial_device_is_reported_in_one_sentence(self, name):
        with pytest.raises(LinkLost, match="No such file or directory; plug it in"):
            SERIAL[name]("ocs", "/dev/ttyNOPE7", baud=38400, deadline=soon())

    def test_a_device_without_permission_names_the_group_to_join(self):
        error = PermissionError(errno.EACCES, "could not open port")
        told = open_error("ocs", "/dev/ttyUSB0", error)
        assert isinstance(told, LinkLost)
        assert str(told).startswith("ocs: opening /dev/ttyUSB0 failed: Permission denied; join")
        assert "dialout" in told.hint


class TestOtherVisaLibrary:
    """A library that hides its sockets, as NI-VISA does, is left to wait by itself."""

    @pytest.fixture
    def visa(self, peer, monkeypatch):
        module = types.ModuleType("pyvisa_hidden")
        module.WRAPPER_CLASS = _hidden()
        monkeypatch.setitem(sys.modules, "pyvisa_hidden", module)
        monkeypatch.setenv("PYVISA_LIBRARY", "@hidden")
        transport = transport_visa.dial("ocs", peer.resource, baud=0, deadline=soon())
        peer.accept()
        yield transport
        transport.close()

    def test_messages_are_sent_and_received_and_a_missing_reply_ends_at_the_deadline(
        self, visa, peer
    ):
        assert type(visa) is transport_visa.VisaTransport
        visa.send(b"*IDN?\n", soon())
        assert peer.line.recv(100) == b"*IDN?\n"
        peer.line.sendall(b"one\ntwo\n")
        assert [visa.receive(b"\n", soon()) for _ in range(2)] == [b"one\n", b"two\n"]
        assert visa.quiet()
        with pytest.raises(NoReply):
            visa.receive(b"\n", Deadline.after(0.03))


def _hidden():
    """Return a VISA library that forwards to pyvisa-py and shows nothing of it."""
    inner = PyVisaLibrary()

    def forward(name):
        return lambda self, *arguments, **named: getattr(inner, name)(*arguments, **named)

    names = [name for name in vars(PyVisaLibrary) if not name.startswith("_")]
    names.append("ignore_warning")
    methods = {name: forward(name) for name in names if callable(getattr(inner, name))}
    paths = {"get_library_paths": staticmethod(PyVisaLibrary.get_library_paths)}
    return type("HiddenLibrary", (VisaLibraryBase,), methods | paths)


class TestChoice:
    @pytest.mark.parametrize(
        ("resource", "transport", "dial"),
        [
            ("TCPIP::192.0.2.10::5025::SOCKET", "", transport_visa.dial),
            ("ASRL/dev/ttyUSB0::INSTR", "", transport_visa.dial),
            ("/dev/ttyUSB0", "", serial_port.dial),
            ("/dev/ttyUSB0", "visa", transport_visa.dial),
            ("ASRL/dev/ttyUSB0::INSTR", "serial", serial_port.dial),
        ],
    )
    def test_a_resource_selects_its_transport(self, resource, transport, dial):
        assert dial_for("ocs", resource, transport) is dial

    def test_a_network_address_is_not_taken_for_a_serial_line(self):
        with pytest.raises(UsageError, match="not a serial line"):
            dial_for("ocs", "TCPIP::192.0.2.10::5025::SOCKET", "serial")

    def test_an_unknown_transport_is_reported_with_the_nearest_name(self):
        with pytest.raises(UsageError, match="did you mean 'serial'"):
            dial_for("ocs", "/dev/ttyUSB0", "cereal")

    def test_serial_lines_are_recognised_in_any_spelling(self):
        assert is_serial("/dev/ttyUSB0")
        assert is_serial("ASRL/dev/ttyUSB0::INSTR")
        assert not is_serial("TCPIP::192.0.2.10::5025::SOCKET")
