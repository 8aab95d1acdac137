"""Resource strings taken apart."""

import pytest

from testbed.resource import OtherVisa, Ssh, Tcp, Tty, is_visa, place, way


@pytest.mark.parametrize(
    ("resource", "where"),
    [
        ("TCPIP::192.0.2.10::5025::SOCKET", Tcp("192.0.2.10", 5025)),
        ("tcpip0::ocs.example::5025::socket", Tcp("ocs.example", 5025)),
        ("TCPIP::[2001:db8::1]::5025::SOCKET", Tcp("2001:db8::1", 5025)),
        ("ASRL/dev/ttyUSB0::INSTR", Tty("/dev/ttyUSB0")),
        ("ASRL/dev/ttyUSB0", Tty("/dev/ttyUSB0")),
        ("ASRLCOM3::INSTR", Tty("COM3")),
        ("/dev/serial/by-id/usb-FTDI", Tty("/dev/serial/by-id/usb-FTDI")),
        ("COM3", Tty("COM3")),
        ("GPIB0::5::INSTR", OtherVisa("GPIB0::5::INSTR")),
        ("TCPIP::192.0.2.10::inst0::INSTR", OtherVisa("TCPIP::192.0.2.10::inst0::INSTR")),
        ("https://192.0.2.11", Tcp("192.0.2.11", 443, tls=True)),
        ("http://pdu.example:8080/redfish", Tcp("pdu.example", 8080)),
        ("https://[2001:db8::1]:8443", Tcp("2001:db8::1", 8443, tls=True)),
        ("ssh://ocs.example", Ssh("ocs.example", 22)),
        ("ssh://admin@[2001:db8::1]:2222", Ssh("2001:db8::1", 2222, user="admin")),
    ],
)
def test_a_resource_names_the_address_of_an_instrument(resource, where):
    assert place(resource) == where


@pytest.mark.parametrize(
    "resource", ["", "192.0.2.10", "ocs:5025", "ftp://192.0.2.10", "https://", "ttyUSB0"]
)
def test_an_invalid_resource_is_refused_with_the_known_forms(resource):
    with pytest.raises(ValueError, match="write 'TCPIP::"):
        place(resource)


@pytest.mark.parametrize(
    "resource",
    ["TCPIP::h::0::SOCKET", "TCPIP::h::65536::SOCKET", "http://h:0", "http://h:65536"],
)
def test_an_invalid_tcp_port_is_refused(resource):
    with pytest.raises(ValueError, match=r"[Pp]ort"):
        place(resource)


def test_a_password_is_refused_without_being_repeated():
    with pytest.raises(ValueError, match="must not contain a password") as caught:
        place("ssh://admin:hunter2@ocs.example")
    assert "hunter2" not in str(caught.value)


def test_only_visa_names_need_a_visa_library():
    assert is_visa("TCPIP::192.0.2.10::5025::SOCKET")
    assert is_visa("ASRL/dev/ttyUSB0")
    assert not is_visa("/dev/ttyUSB0")
    assert not is_visa("https://192.0.2.11")
    assert not is_visa("https://[2001:db8::1]:8443")


@pytest.mark.parametrize(
    ("resource", "found"),
    [
        ("TCPIP::192.0.2.10::5025::SOCKET", "tcp"),
        ("tcp://192.0.2.10:3082", "tcp"),
        ("HTTP://192.0.2.10:8008", "http"),
        ("https://192.0.2.11", "http"),
        ("ssh://admin@192.0.2.10", "ssh"),
        ("ASRL/dev/ttyUSB0::INSTR", "serial"),
        ("/dev/ttyUSB0", "serial"),
        ("GPIB0::5::INSTR", "visa"),
    ],
)
def test_a_resource_states_its_transport(resource, found):
    assert way(resource) == found
