"""How boxes are reached, spelt in one way."""

import socket

import pytest

from testbed.bench import addresses
from testbed.bench.addresses import of_port, of_resource

HERE = f" of {socket.gethostname()}"


@pytest.fixture(autouse=True)
def names(monkeypatch):
    known = {"ocs.lab": ("192.0.2.10",), "both.lab": ("192.0.2.11", "2001:db8::11")}
    monkeypatch.setattr(addresses, "_known", known)
    of_resource.cache_clear()
    yield
    of_resource.cache_clear()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TCPIP::192.0.2.10::5025::SOCKET", "tcp://OCS.lab:5025"),
        ("http://ocs.lab", "TCPIP0::192.0.2.10::80::SOCKET"),
        ("tcp://[2001:DB8:0::11]:7", "tcp://[2001:db8::11]:7"),
        ("TCPIP::ocs.lab::inst0::INSTR", "tcpip::192.0.2.10::INST0"),
        ("GPIB0::5::INSTR", "gpib0::5"),
        ("/dev/null", "ASRL/proc/self/root/dev/null::INSTR"),
        ("tcp://localhost:9", "tcp://127.0.0.1:9"),
    ],
)
def test_two_spellings_of_one_address_are_equal(one, other):
    assert {*of_resource(one)} & {*of_resource(other)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tcp://192.0.2.10:5025", "tcp://192.0.2.10:5026"),
        ("tcp://192.0.2.10:5025", "tcp://192.0.2.11:5025"),
        ("GPIB0::5::INSTR", "GPIB1::5::INSTR"),
        ("/dev/null", "/dev/zero"),
    ],
)
def test_different_addresses_are_not_taken_for_one_device(one, other):
    assert not {*of_resource(one)} & {*of_resource(other)}


def test_a_name_with_two_addresses_is_identified_by_both():
    assert of_port("both.lab", 22) == ("192.0.2.11:22", "[2001:db8::11]:22")


def test_an_address_of_this_machine_only_is_qualified_by_its_name():
    assert of_resource("/dev/null") == (f"tty 1:3{HERE}",)
    assert of_resource("GPIB0::5::INSTR") == (f"GPIB0::5{HERE}",)
    assert of_resource("tcp://127.0.0.1:5025") == (f"127.0.0.1:5025{HERE}",)


def test_an_unresolved_name_is_kept_after_one_lookup():
    assert of_port("no-such.invalid", 22) == ("no-such.invalid:22",)
    assert addresses._known["no-such.invalid"] == ("no-such.invalid",)


def test_names_are_resolved_once_in_a_process(monkeypatch):
    asked = []
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: asked.append(a[0]) or real(*a, **k))
    addresses.look_up(["localhost", "LOCALHOST", "ocs.lab"])
    addresses.look_up(["localhost"])
    assert asked == ["localhost"]
