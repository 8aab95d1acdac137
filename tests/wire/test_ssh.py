"""Command lines over SSH: the drivers' transport against far ends, and what must never hang."""

import re
import shlex
import shutil
import socket
import subprocess
import threading

import pytest

from testbed.bench.contracts import EXIT_MARK
from testbed.clock import Deadline, now
from testbed.errors import InstrumentError, LinkLost, NoReply, Rejected, UsageError
from testbed.secret import Secret
from testbed.twin.far_end_ssh import SshServer
from testbed.twin.keys import write_ssh_key
from testbed_drivers.transports import ssh

ANSWERS = {
    "hello": b"hello\n\0000\n",
    "fail": b"Error: no such port\n\0002\n",
    "nothing": b"\0000\n",
    "twice": b"once\n\0000\nonce\n\0000\n",
    "bad status": b"odd\n\0?\n",
    "half": b"begun",
    "silence": b"",
}


class Clerk:
    """A far end that answers from a table; who logs in is written down."""

    def __init__(self):
        self.logins = []
        self.heard = []
        self.password = "sesame"
        self.send = None
        self.hang_up = None

    def admits(self, user, password):
        self.logins.append((user, password))
        return password in (None, self.password)

    def session(self, send, *, serial=False, hang_up=None):
        self.send, self.hang_up = send, hang_up
        return self

    def receive(self, data):
        line = data.decode().rstrip("\n")
        self.heard.append(line)
        if line == "cut":
            self.send(b"beg")
            self.hang_up()
        else:
            self.send(ANSWERS[line])


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a home directory whose key the server knows, and whose owner knows the server."""
    directory = tmp_path / ".ssh"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return directory


@pytest.fixture
def clerk():
    return Clerk()


@pytest.fixture
def wire(home, clerk):
    client_key = write_ssh_key(home / "id_ed25519")
    server_key = write_ssh_key(home / "server")
    wire = SshServer(clerk, host_key=home / "server", client_key=client_key)
    (home / "known_hosts").write_text(f"[127.0.0.1]:{wire.port} {server_key}\n")
    yield wire
    wire.close()


@pytest.fixture
def line(wire):
    line = dial(wire)
    yield line
    line.close()


def soon():
    return Deadline.after(5)


def dial(wire, user="lab@", password=None, deadline=None):
    resource = f"ssh://{user}127.0.0.1:{wire.port}"
    return ssh.dial("ocs", resource, baud=0, deadline=deadline or soon(), password=password)


def answer(data):
    """Cut off an answer with its exit status."""
    mark = data.find(EXIT_MARK)
    return 0 if mark < 0 else data.find(b"\n", mark) + 1


def said(line, command, deadline=None):
    line.send(f"{command}\n".encode(), deadline or soon())
    return line.receive(answer, deadline or soon())


def test_a_reply_ends_with_the_exit_status(line):
    assert said(line, "hello") == b"hello\n\0000\n"
    assert said(line, "fail") == b"Error: no such port\n\0002\n"
    assert said(line, "nothing") == b"\0000\n"


def test_one_connection_carries_all_commands(clerk, line):
    for _ in range(3):
        said(line, "hello")
    assert line.quiet()
    assert clerk.logins == [("lab", None)]


def test_the_user_of_the_resource_logs_in_with_a_password(clerk, wire, tmp_path):
    (tmp_path / "word").write_text("sesame\n")
    line = dial(wire, "root@", Secret(file=str(tmp_path / "word")))
    assert said(line, "hello") == b"hello\n\0000\n"
    line.close()
    assert clerk.logins == [("root", "sesame")]


def test_a_wrong_password_is_a_refusal_that_does_not_repeat_it(wire, tmp_path):
    (tmp_path / "word").write_text("hunter2")
    with pytest.raises(Rejected, match=r"refused the login at root@127\.0\.0\.1") as caught:
        dial(wire, "root@", Secret(file=str(tmp_path / "word")))
    assert "hunter2" not in str(caught.value)


def test_a_key_that_the_server_does_not_know_is_refused(home, wire):
    (home / "id_ed25519").unlink()
    write_ssh_key(home / "id_ed25519")
    with pytest.raises(Rejected, match="check the user, and 'password' or your keys"):
        dial(wire)


def test_an_unknown_host_key_is_refused_before_any_login(home, clerk, wire):
    (home / "known_hosts").write_text("")
    with pytest.raises(InstrumentError, match=r"unknown; .*`ssh -p \d+ lab@127\.0\.0\.1`"):
        dial(wire)
    assert not clerk.logins


def test_a_changed_host_key_is_refused_before_any_login(home, clerk, wire):
    other = write_ssh_key(home / "other")
    (home / "known_hosts").write_text(f"[127.0.0.1]:{wire.port} {other}\n")
    with pytest.raises(InstrumentError, match="CHANGED") as caught:
        dial(wire)
    assert not clerk.logins
    forget = re.search(r"`(ssh-keygen -R [^`]+)`", caught.value.hint)
    command = [*shlex.split(forget[1]), "-f", str(home / "known_hosts")]
    subprocess.run(command, check=True, capture_output=True)
    assert not (home / "known_hosts").read_text()


def test_a_closed_port_raises_link_lost(wire):
    wire.close()
    with pytest.raises(LinkLost, match="nothing listens there"):
        dial(wire)


def test_a_resource_without_an_ssh_url_is_refused():
    with pytest.raises(UsageError, match="not the URL of an SSH server"):
        ssh.dial("ocs", "tcp://127.0.0.1:22", baud=0, deadline=soon())


def test_connecting_to_a_silent_server_ends_at_the_deadline(home):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        deadline = Deadline.after(0.1)
        with pytest.raises(NoReply, match="in time"):
            ssh.dial("ocs", f"ssh://127.0.0.1:{silent.getsockname()[1]}", baud=0, deadline=deadline)
    assert now() < deadline.at + 10, "it hung"


@pytest.mark.parametrize("command", ["silence", "half"])
def test_a_missing_reply_ends_at_the_deadline(line, command):
    deadline = Deadline.after(0.1)
    with pytest.raises(NoReply):
        said(line, command, deadline)
    assert now() < deadline.at + 10, "it hung"
    assert not line.quiet()


def test_a_connection_that_hangs_while_a_command_starts_ends_at_the_deadline(wire, line):
    """The server's thread stands still, so not even the channel is opened."""
    going_on = threading.Event()
    wire._loop.call_soon_threadsafe(going_on.wait, 10)
    deadline = Deadline.after(0.2)
    try:
        with pytest.raises(NoReply):
            line.send(b"hello\n", deadline)
    finally:
        going_on.set()
    assert now() < deadline.at + 10, "it hung"


def test_a_connection_cut_during_a_reply_raises_link_lost(line):
    with pytest.raises(LinkLost):
        said(line, "cut")


def test_a_command_without_an_exit_status_raises_link_lost(line):
    with pytest.raises(LinkLost, match="without an exit status"):
        said(line, "bad status")


def test_an_idle_connection_that_was_cut_is_detected_before_use(wire, line):
    assert line.quiet()
    wire.cut()
    assert not line.quiet()


def test_the_second_copy_of_a_reply_is_discarded(line):
    assert said(line, "twice") == b"once\n\0000\n"
    assert said(line, "hello") == b"hello\n\0000\n"


def test_a_late_reply_is_not_given_to_a_later_command(clerk, line):
    with pytest.raises(NoReply):
        said(line, "silence", Deadline.after(0.05))
    line.send(b"silence\n", soon())
    clerk.send(b"late\n\0000\nright\n\0000\n")
    assert line.receive(answer, soon()) == b"right\n\0000\n"


def test_nothing_is_received_without_a_command(line):
    with pytest.raises(LinkLost, match="runs no command"):
        line.receive(answer, soon())


def test_closing_twice_is_harmless(wire, line):
    line.close()
    line.close()
    wire.close()
    wire.close()


def test_a_port_that_is_taken_is_an_error(home, clerk, wire):
    with pytest.raises(OSError, match="in use"):
        SshServer(
            clerk,
            port=wire.port,
            host_key=home / "server",
            client_key=(home / "known_hosts").read_text().partition(" ")[2],
        )


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client here")
def test_the_openssh_client_is_served(home, wire):
    options = [
        f"-oUserKnownHostsFile={home / 'known_hosts'}",
        f"-oIdentityFile={home / 'id_ed25519'}",
        "-oBatchMode=yes",
        "-F/dev/null",
    ]
    done = subprocess.run(
        ["ssh", *options, "-p", str(wire.port), "lab@127.0.0.1", "fail"],
        capture_output=True,
        timeout=20,
    )
    assert (done.stdout, done.returncode) == (b"Error: no such port\n", 2)
