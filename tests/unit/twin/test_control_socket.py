"""The twin's control socket, with clients that hang up or say nothing."""

import json
import socket

import pytest

from testbed.twin import control_socket
from testbed.twin.control_socket import ControlSocket, ask


@pytest.fixture
def path(tmp_path, monkeypatch):
    path = tmp_path / "control"
    monkeypatch.setattr(control_socket, "SOCKET", path)
    monkeypatch.setattr(control_socket, "_SILENCE", 0.1)
    with ControlSocket(path, lambda request: request["do"]):
        yield path


@pytest.mark.parametrize(
    "said",
    [b"", b"{", b'{"do": "x"}\n' * 10_000, json.dumps({"do": "y" * 300_000}).encode() + b"\n"],
    ids=["nothing", "half a request", "many requests", "a request whose answer is not read"],
)
def test_a_client_that_hangs_up_ends_only_its_own_request(path, said):
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(path))
            client.sendall(said)
    assert ask({"do": "it"}) == "it"


def test_a_silent_client_does_not_block_others(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert ask({"do": "it"}) == "it"


def test_a_request_that_is_nested_too_deeply_is_refused(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(b"[" * 100_000 + b"\n")
        assert "error" in json.loads(client.makefile().readline())
    assert ask({"do": "it"}) == "it"
