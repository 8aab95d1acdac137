"""A host that cannot take part says so before the run touches anything."""

import os
import select
import socket
import sys
import threading
from contextlib import suppress

import paramiko
import pytest

from testbed.bench import ssh
from testbed.bench.host import BenchHost
from testbed.bench.ssh import _hops
from testbed.clock import Deadline, now
from testbed.errors import HostError, HostTimeout
from testbed.schema import load_lab
from tests.contract.private_spaces import can_be_private
from tests.unit.bench.agent_on_pipes import soon

SOME = 1_000_000
"""Bytes of output, several times what paramiko permits before it must say more."""
PRIVATE = ["unshare", "--user", "--map-root-user", "--mount"]
PLANT = """
import json, os, subprocess, sys
from testbed.onhost.agent import journal
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
os.mkdir("/run/testbed-agents-0", 0o700)
header = {"run": "run-1", "host": "h0", "pid": 1, "born": "1", "kernel": journal._kernel()}
with open("/run/testbed-agents-0/1-1.jsonl", "w") as file:
    for entry in (header, {"id": 0, "undo": "from the future"}):
        print(json.dumps(entry), file=file)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def spec(ssh_host, tmp_path):
    """This machine as a host, whose `python` a test replaces."""
    host = f"{{ssh: '127.0.0.1:{ssh_host.port}', network: existing}}"
    (tmp_path / "lab.yaml").write_text(f"lab: small\nhosts:\n  h0: {host}\n")
    with ssh_host.at_home():
        yield load_lab(tmp_path / "lab.yaml").hosts["h0"]


def instead_of_python(spec, tmp_path, script):
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o700)
    return spec.model_copy(update={"python": str(python)})


def test_opening_a_host_whose_shell_hangs_ends_at_the_deadline(spec, tmp_path):
    deaf = instead_of_python(spec, tmp_path, "exec sed d")
    with pytest.raises(HostTimeout, match="no answer to 'hello' in time"):
        BenchHost("h0", deaf, lambda *_: None, Deadline.after(1.0))


def test_a_host_without_the_configured_python_is_reported(spec, tmp_path):
    none = spec.model_copy(update={"python": str(tmp_path / "no-python")})
    with pytest.raises(HostError, match="its agent"):
        BenchHost("h0", none, lambda *_: None, soon())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_a_host_says_at_which_address_it_is_reached(spec, address):
    there = spec.model_copy(update={"ssh": spec.ssh.replace("127.0.0.1", address)})
    host = BenchHost("h0", there, lambda *_: None, soon())
    assert host.facts["address"] == address
    host.clean_up(soon())


def test_opening_a_host_read_only_starts_no_program(spec):
    host = BenchHost("h0", spec, lambda *_: None, soon())
    with pytest.raises(HostError, match="started read-only"):
        host.start_rank(0, soon())
    host.clean_up(soon())


@pytest.mark.parametrize("server_lacks_gcm", [False, True])
def test_aes_gcm_is_used_where_the_server_has_it(ssh_host, monkeypatch, server_lacks_gcm):
    all_ciphers = paramiko.Transport._preferred_ciphers
    if server_lacks_gcm:  # what a client does not offer is as good as absent from the server
        older = tuple(name for name in all_ciphers if "gcm" not in name)
        monkeypatch.setattr(paramiko.Transport, "_preferred_ciphers", older)
    with ssh_host.at_home():
        channel = ssh.run("h0", f"127.0.0.1:{ssh_host.port}", "exec cat", soon())
    transport = channel._connection.transport
    expected = "aes128-ctr" if server_lacks_gcm else "aes128-gcm@openssh.com"
    assert {transport.local_cipher, transport.remote_cipher} == {expected}
    for message in (b"before", b"after"):
        channel.send(message)
        assert _received(channel, len(message)) == message
        _exchange_keys(transport)
    channel.close()


def _received(channel, length):
    came, limit = b"", soon()
    while len(came) < length and not limit.passed:
        came += channel.receive() or b""
    return came


def test_the_connection_to_a_host_that_reads_no_input_is_closed(ssh_host, monkeypatch):
    """Whoever sends would wait for ever else, with the lock that everybody who sends needs."""
    monkeypatch.setattr(ssh, "_SEND_LIMIT", 0.3)
    with ssh_host.at_home():
        channel = ssh.run("h0", f"127.0.0.1:{ssh_host.port}", "cat > /dev/null", soon())
    with ssh_host.stopped(), pytest.raises(HostError, match="the SSH channel broke"):
        channel.send(bytes(32 << 20))
    channel.close()


def test_sending_to_a_host_that_stops_amid_an_exchange_of_keys_fails_in_time(ssh_host, monkeypatch):
    monkeypatch.setattr(ssh, "_SEND_LIMIT", 0.3)
    with ssh_host.at_home():
        channel = ssh.run("h0", f"127.0.0.1:{ssh_host.port}", "cat > /dev/null", soon())
    transport = channel._connection.transport
    with ssh_host.stopped():
        exchange = threading.Thread(target=_exchange_keys, args=[transport])
        exchange.start()
        while transport.clear_to_send.is_set():
            assert exchange.is_alive()
        began = now()
        with pytest.raises(HostError, match="the SSH channel broke: Key-exchange timed out"):
            channel.send(b"hello")
        assert now() - began < 10  # paramiko's own limit is 30 s
    channel.close()
    exchange.join()


def test_output_is_read_at_once_while_a_stopped_host_owes_an_exchange_of_keys(
    ssh_host, monkeypatch
):
    """Who reads would wait to permit more output, and with it whoever else is to be read."""
    monkeypatch.setattr(ssh, "_SEND_LIMIT", 0.3)
    with ssh_host.at_home():
        command = f"head -c {SOME} /dev/zero; exec cat"
        channel = ssh.run("h0", f"127.0.0.1:{ssh_host.port}", command, soon())
    transport = channel._connection.transport
    limit = soon()
    while len(channel._channel.in_buffer) < SOME:
        assert not limit.passed
    with ssh_host.stopped():
        exchange = threading.Thread(target=_exchange_keys, args=[transport])
        exchange.start()
        while transport.clear_to_send.is_set():
            assert exchange.is_alive()
        came = b""
        while piece := channel.receive():
            came += piece
        assert len(came) == SOME
        assert piece is None
    channel.close()
    exchange.join()


def test_the_file_of_a_channel_can_be_read_while_output_or_the_end_has_come(ssh_host):
    with ssh_host.at_home():
        command = "echo trouble >&2; read line; echo $line; read line"
        channel = ssh.run("h0", f"127.0.0.1:{ssh_host.port}", command, soon())
    assert not select.select([channel], [], [], 0.2)[0]  # what it complains of is not output
    assert channel.receive() is None
    for word in (b"one\n", b""):
        channel.send(b"one\n")
        assert select.select([channel], [], [], 10)[0]
        assert channel.receive() == word
    assert select.select([channel], [], [], 0)[0]  # the end stays
    assert channel.receive() == b""
    assert channel.complaint() == "trouble"
    channel.close()
    file = channel.fileno()
    channel.release()
    channel.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def _exchange_keys(transport):
    with suppress(EOFError, paramiko.SSHException):  # the connection is closed meanwhile
        transport.renegotiate_keys()


@pytest.fixture
def behind(ssh_host):
    """Return a way to have a host that is reached through another, by the user's configuration."""
    config = ssh_host.keys / "config"

    def reached_through(jump):
        config.write_text(
            f"Host behind\n  HostName 127.0.0.2\n  Port {ssh_host.port}\n"
            f"  ProxyJump {jump}:{ssh_host.port}\n"
        )
        return "behind"

    with ssh_host.at_home():
        yield reached_through
    config.unlink()


def test_data_through_a_jump_host_is_sent_at_once_and_both_connections_close_together(behind):
    channel = ssh.run("h0", behind("127.0.0.1"), "exec cat", soon())
    channel.send(b"hello")
    assert select.select([channel], [], [], 10)[0]
    assert channel.receive() == b"hello"
    (line,) = [s for s in map(_line_of, _hops(channel._connection)) if s]
    assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    channel.close()
    assert line.fileno() == -1 or not line.recv(1)


def _line_of(hop):
    return hop.transport.sock if isinstance(hop.transport.sock, socket.socket) else None


def test_a_jump_host_whose_key_is_unknown_is_refused(behind):
    with pytest.raises(HostError, match="its key is unknown"):
        ssh.run("h0", behind("localhost"), "exec cat", soon())


@pytest.mark.skipif(
    not can_be_private([*PRIVATE, "true"]), reason="this machine gives no user namespaces"
)
def test_a_host_with_leftovers_of_a_dead_agent_is_not_used(spec, tmp_path):
    plant = tmp_path / "plant.py"
    plant.write_text(PLANT)
    command = " ".join(["exec", *PRIVATE, sys.executable, str(plant), '"$@"'])
    haunted = instead_of_python(spec, tmp_path, command)
    looking = BenchHost("h0", haunted, lambda *_: None, soon())
    assert [found["recorded"] for found in looking.facts["leftovers"]] == [["from the future"]]
    looking.clean_up(soon())
    with pytest.raises(HostError, match=r"could not be undone: .*'from the future'"):
        BenchHost("h0", haunted, lambda *_: None, soon(), "run-2")
