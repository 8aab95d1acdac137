"""The command `opus`: shims written as bytes get the answers of the authors' controller."""

import re
import socket
import subprocess
import sys

import pytest

from testbed.cli import run as command_line

A = "A" * 64


@pytest.fixture
def served(tmp_path):
    """Start the command on a free port; return its process and the port."""
    words = ["opus", "--nodes", "127.0.0.1,127.0.0.2", "--rails", "2", "--delay", "1 ms"]
    words += ["--listen", "127.0.0.1:0", "--sockets", str(tmp_path), "--for", "60 s"]
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        first = process.stdout.readline()
        yield process, int(re.search(r"127\.0\.0\.1:(\d+)", first)[1])
        process.kill()


def test_shims_check_in_and_are_told_when_a_stage_is_there(served):
    _, port = served
    shims = [
        socket.create_connection(("127.0.0.1", port), 20, (f"127.0.0.{node}", 0)) for node in (1, 2)
    ]
    try:
        for line, answer in (
            (f"COMM;{A},2,0\n", f"CHECKIN_ACK;{A},0\n"),
            (f"CONFIG_REQ;{A},11,1000000\n", f"CONFIG_ACK;{A}\n"),
        ):
            for shim in shims:
                shim.sendall(line.encode())
            assert [shim.recv(200) for shim in shims] == [answer.encode()] * 2
    finally:
        for shim in shims:
            shim.close()


def test_why_a_line_ended_is_printed(served):
    process, port = served
    with socket.create_connection(("127.0.0.1", port), 20) as shim:
        shim.sendall(b"HELLO\n")
        assert shim.recv(10) == b""
    assert "'HELLO' is no message of the protocol" in process.stderr.readline()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nodes", ","], "--nodes names nothing"),
        ([], "--nodes names no address"),
        (["--nodes", "127.0.0.1,127.0.0.1"], "127.0.0.1 and 127.0.0.1 are both at 127.0.0.1"),
        (["--nodes", "127.0.0.1", "--listen", "here"], "--listen: 'here' is no IP:PORT"),
        (["--nodes", "127.0.0.1", "--listen", "127.0.0.1:70000"], "is no IP:PORT"),
        (["--nodes", "127.0.0.1", "--delay", "5"], "--delay: '5'"),
    ],
)
def test_impossible_options_are_refused(words, text, capsys):
    assert command_line(["opus", *words]) == 2
    assert text in capsys.readouterr().err


def test_a_port_that_is_taken_is_named_with_what_to_do(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert command_line(["opus", "--nodes", "127.0.0.1", "--listen", f"127.0.0.1:{port}"]) == 4
    assert "listening failed" in capsys.readouterr().err
