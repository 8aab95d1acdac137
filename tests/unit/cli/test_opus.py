"""The command `opus`: shims written as bytes get the answers of the authors' controller."""

import json
import re
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from testbed.cli import run as command_line

A = "A" * 64


@contextmanager
def started(*words):
    """Run the command with its rails emulated; yield its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed.cli", "opus", *words, "--for", "60 s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


@pytest.fixture(params=[(), ("--json",)], ids=["text", "json"])
def served(tmp_path, request):
    """Start the command on a free port; return its process and the port."""
    words = ["--nodes", "127.0.0.1,127.0.0.2", "--rails", "2", "--delay", "1 ms"]
    words += ["--listen", "127.0.0.1:0", "--sockets", str(tmp_path), *request.param]
    with started(*words) as process:
        first = process.stdout.readline()
        assert "emulated" in first
        yield process, int(re.search(r"127\.0\.0\.1:(\d+)", first)[1])


def test_shims_check_in_and_are_told_when_a_stage_is_there(served):
    process, port = served
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
    line = process.stdout.readline()
    if "--json" in process.args:
        row = json.loads(line)
        assert row.pop("at") and 0.001 <= row.pop("seconds") < 60
        about = {"rail": 0, "id": A, "number": 11, "counter": 1000000, "asked": 2, "ranks": 2}
        assert row == {"event": "answer", **about, "changed": True}
    else:
        told = (
            r"rail 0  AAAAAAAA  number 11, counter 1000000, 2 of 2 asked: changed, answered after"
        )
        assert re.match(told + r" \d+\.\d ms\n", line), line


def test_the_words_of_their_controller_are_answered_and_printed(tmp_path):
    with started("worker", "--rails", "1", "--sockets", str(tmp_path), "--json") as process:
        first = json.loads(process.stdout.readline())
        (path,) = first["sockets"]
        assert first["label"] == "emulated"
        for word, reply in ((b"0\n", b"CONFIG-ACK"), (b"3\n", b"CONFIG-ACK"), (b"3\n", b"NACK")):
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(path)
                line.sendall(word)
                assert reply in line.recv(100)
        rows = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert [(row["before"], row["word"], row["changed"]) for row in rows] == [
        (None, 0, True),
        (0, 3, True),
        (3, 3, False),
    ]


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
        (["--nodes", "127.0.0.1", "--listen", "here"], "--listen: 'here' is no HOST:PORT"),
        (["--nodes", "127.0.0.1", "--listen", "127.0.0.1:70000"], "is no HOST:PORT"),
        (["--nodes", "127.0.0.1", "--delay", "5"], "--delay: '5'"),
        (["--nodes", "no.such.host.invalid"], "knows no address of no.such.host.invalid"),
        (["--lab", "rack"], "lab rack does not permit programs that speak opus"),
        (["--lab", "rails", "--nodes", "192.0.2.1"], "--nodes names 1 address for 5 hosts: h0, h1"),
        (["--lab", "rails", "--hosts", "h1"], "--nodes: the name service knows no address of h1"),
        (["--lab", "rails", "--hosts", "h7"], "'h7' is not a host of lab rails"),
        (["worker", "--lab", "rails"], "without --stages, the words of a rail do not say which"),
        (
            ["worker", "--lab", "rails", "--stages", "2"],
            "--stages 2: the words of a rail do not say its circuits: 5 hosts do not make 2",
        ),
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
