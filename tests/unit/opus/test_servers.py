"""Both sides on real sockets: the transcript, lines that are wrong or late, workers that fail."""

import asyncio
import gc
import random
import signal
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from testbed.opus.controller_side import ControllerSide
from testbed.opus.rail_actions import WorkerSockets
from testbed.opus.server import ControllerServer, WorkerServer, _Loop
from testbed.opus.word_rails import WordRails
from testbed.opus.worker_side import WorkerSide

from .stranger import COMM, Job, answer_to, mutated
from .transcript import HOST_AT, NODES, RAILS, RANKS, address_of, transactions

PATIENCE = 20.0
"""Seconds after which a test that waits for a line is wrong."""

A = "A" * 64


class Client:
    """A shim written as bytes: it connects from the address of a node."""

    def __init__(self, server, source="127.0.0.1"):
        self.socket = socket.create_connection(server.address, PATIENCE, (source, 0))
        self._file = self.socket.makefile("rb")

    def send(self, line):
        self.socket.sendall(line)

    def line(self):
        """Return the next line; empty when the server has ended it."""
        return self._file.readline()

    def close(self):
        self._file.close()
        self.socket.close()


def ask_worker(path, data):
    """Return what the worker replies until it ends the line."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE)
        line.connect(str(path))
        line.sendall(data)
        reply = b""
        while got := line.recv(1024):
            reply += got
        return reply


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


class Desk:
    """Workers for all rails and a controller, with what was applied and logged."""

    def __init__(self, stack, folder, *, limit=10.0, apply=None, workers=True):
        self.applied, self.log = [], []
        self.paths = [folder / f"rail{rail}" for rail in range(RAILS)]
        for rail, path in enumerate(self.paths if workers else ()):
            worker = WorkerServer(path, self._apply(rail, apply), self.log.append)
            stack.callback(worker.close)
        side = ControllerSide(WordRails(RAILS), HOST_AT, limit)
        self.server = ControllerServer(
            ("127.0.0.1", 0), side, WorkerSockets(self.paths), self.log.append
        )
        stack.callback(self.server.close)
        self.stack = stack

    def _apply(self, rail, apply):
        def applied(before, word):
            if apply is not None:
                apply(before, word)
            self.applied.append((rail, before, word))

        return applied

    def client(self, source="127.0.0.1"):
        client = Client(self.server, source)
        self.stack.callback(client.close)
        return client

    def pair(self):
        """Return two clients on two nodes that have checked in."""
        both = [self.client(NODES[0]), self.client(NODES[1])]
        for client in both:
            client.send(f"COMM;{A},2,0\n".encode())
        assert [client.line() for client in both] == [f"CHECKIN_ACK;{A},0\n".encode()] * 2
        return both

    def said(self, text):
        """Wait until a line of the log has a text."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if any(text in line for line in self.log):
                return True
            time.sleep(0.005)
        return False


@pytest.fixture
def desk(stack, tmp_path):
    return Desk(stack, tmp_path)


def test_the_transcript_is_repeated_between_both_servers(desk):
    clients = [desk.client(address_of(rank)) for rank in range(RANKS)]
    for row in list(transactions())[2:]:
        for exchange in row:
            if exchange.who[0].startswith("rail"):
                continue
            for who in exchange.who:
                client = clients[int(who[1:])]
                if exchange.to_controller:
                    client.send(exchange.line)
                else:
                    assert client.line() == exchange.line
    changes = [(0, 0), (0, 3), (3, 2), (2, 0), (0, 3), (3, 2), (2, 0)]
    for rail in (0, 1):
        assert [(b, word) for n, b, word in desk.applied if n == rail] == changes
    assert desk.log == []


@pytest.mark.parametrize("rail", range(RAILS))
def test_the_worker_replies_to_the_words_of_the_transcript_as_the_authors_does(
    stack, tmp_path, rail
):
    stack.callback(WorkerServer(tmp_path / "rail", lambda before, word: None, print).close)
    words = 0
    for row in transactions():
        own = [exchange for exchange in row if exchange.who == (f"rail{rail}",)]
        if own:
            to_worker, reply = own
            assert ask_worker(tmp_path / "rail", to_worker.line) == reply.line
            words += 1
    assert words == 17


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b"x\n", b"Error processing configuration\n"),
        (b"1\n2\n", b"Error processing configuration\n"),
        (b"-1\n", b"Invalid configuration ID\n"),
        (b" \n", b""),
        (b"5", b"SUCCESS, CONFIG-ACK\n"),
    ],
)
def test_the_worker_replies_to_other_words_as_the_authors_does(stack, tmp_path, data, reply):
    stack.callback(WorkerServer(tmp_path / "rail", lambda before, word: None, print).close)
    assert ask_worker(tmp_path / "rail", data) == reply


def test_a_word_that_cannot_be_applied_has_no_reply_and_is_not_the_present_one():
    def refuse(before, word):
        raise OSError("the switch is busy")

    worker = WorkerSide(refuse)
    with pytest.raises(OSError, match="the switch is busy"):
        worker.received(b"3\n")
    assert worker.word is None


def test_a_controller_that_sends_no_word_loses_its_line(stack, tmp_path):
    log = []
    stack.callback(WorkerServer(tmp_path / "rail", print, log.append, limit=0.05).close)
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE)
        line.connect(str(tmp_path / "rail"))
        assert line.recv(10) == b""
    assert log == ["rail: no word came in 0.05 s"]


def test_a_malformed_line_is_logged_and_the_line_closed_while_others_go_on(desk):
    wrong = desk.client()
    wrong.send(b"COMM;x,two,0\n")
    assert wrong.line() == b""
    assert desk.said("'two' is no number of 32 bits")
    both = desk.pair()
    for client in both:
        client.send(f"CONFIG_REQ;{A},2,0\n".encode())
    assert [client.line() for client in both] == [f"CONFIG_ACK;{A}\n".encode()] * 2


def test_a_line_that_never_ends_is_closed(desk):
    endless = desk.client()
    endless.send(b"COMM;" + b"a" * 5000)
    assert endless.line() == b""
    assert desk.said("a line has more than 4096 bytes")


def test_a_client_that_vanishes_ends_the_wait_of_the_other(desk):
    one, other = desk.pair()
    one.send(f"CONFIG_REQ;{A},2,0\n".encode())
    other.close()
    assert one.line() == b""
    assert desk.said("it waits with client 2 (127.0.1.2), whose line ended: it ended its line")


def test_who_never_asks_is_named_and_the_wait_ends(stack, tmp_path):
    desk = Desk(stack, tmp_path, limit=0.2)
    one, _ = desk.pair()
    one.send(f"CONFIG_REQ;{A},2,0\n".encode())
    assert one.line() == b""
    assert desk.said("client 2 (127.0.1.2) did not ask with it")


def test_a_worker_that_fails_ends_the_lines_of_those_who_asked(stack, tmp_path):
    def refuse(before, word):
        if word:
            raise OSError("the switch is busy")

    desk = Desk(stack, tmp_path, apply=refuse)
    both = desk.pair()
    for client in both:
        client.send(f"CONFIG_REQ;{A},11,1000000\n".encode())
    assert [client.line() for client in both] == [b"", b""]
    assert desk.said("word 3 at the worker of rail 0 failed: it replied ''")
    assert desk.said("rail0: the word could not be applied: the switch is busy")


def test_without_a_worker_clients_that_ask_are_told(stack, tmp_path):
    desk = Desk(stack, tmp_path, workers=False)
    assert desk.said("word 0 at the worker of rail 1 failed")
    both = desk.pair()
    for client in both:
        client.send(f"CONFIG_REQ;{A},2,0\n".encode())
    assert [client.line() for client in both] == [b"", b""]


def test_servers_that_are_closed_leave_no_socket_and_no_thread(tmp_path):
    before = threading.active_count()
    with ExitStack() as stack:
        desk = Desk(stack, tmp_path)
        desk.pair()
    assert not list(Path(tmp_path).iterdir())
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("opus")]
    assert threading.active_count() <= before


def test_servers_closed_while_clients_connect_leave_no_connection_open(tmp_path, caplog):
    for round_ in range(20):
        with ExitStack() as stack:
            desk = Desk(stack, tmp_path)
            clients = [desk.client() for _ in range(1 + round_ % 5)]
            desk.server.close()
            assert [client.line() for client in clients] == [b""] * len(clients)
            stack.callback(gc.collect)  # an open socket of the server's is a warning, an error here
    assert caplog.text == ""


def test_a_server_that_is_closed_keeps_no_connection_for_what_its_client_has_not_read(desk):
    client, size = desk.client(), 40 * 2**20
    end = time.monotonic() + PATIENCE
    while not desk.server._lines and time.monotonic() < end:
        time.sleep(0.005)
    (line,) = desk.server._lines.values()
    desk.server._loop._loop.call_soon_threadsafe(line.write, bytes(size))
    desk.server.close()
    got = 0
    with suppress(ConnectionResetError):
        while part := client.socket.recv(2**20):
            got += len(part)
    assert got < size


def test_a_second_close_waits_for_the_end_that_the_first_began(tmp_path, monkeypatch):
    monkeypatch.setattr("testbed.opus.server.LIMIT", 0.2)
    begun, go_on = threading.Event(), threading.Event()

    def apply(before, word):
        begun.set()
        assert go_on.wait(PATIENCE)

    server = WorkerServer(tmp_path / "rail", apply, print)
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(tmp_path / "rail"))
        line.sendall(b"3\n")
        assert begun.wait(PATIENCE)
        waiting = []
        for _ in range(2):
            with pytest.raises(TimeoutError):
                server.close()
            waiting.append(len(asyncio.all_tasks(server._loop._loop)))
        assert waiting[0] == waiting[1]
        monkeypatch.setattr("testbed.opus.server.LIMIT", PATIENCE)
        threading.Timer(0.1, go_on.set).start()
        server.close()
    assert not (tmp_path / "rail").exists()


def test_what_a_signal_ends_waits_no_longer_in_the_loop(caplog):
    class Ended(Exception):
        pass

    def end(*_):
        raise Ended

    loop, before = _Loop("opus test"), signal.signal(signal.SIGALRM, end)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Ended):
            loop.run(asyncio.sleep(PATIENCE), PATIENCE)
    finally:
        signal.signal(signal.SIGALRM, before)
        loop.end(None)
    gc.collect()
    assert caplog.text == ""


def run_rank(client, script, failures):
    """Send the lines of a rank, and wait for the answer to each."""
    for line in script:
        client.send(line)
        answer = client.line()
        if not answer.startswith(answer_to(line)):
            failures.append((line, answer))
            return


def send_mutations(desk, job, count, seed):
    """Run a job while strangers send mutated lines of it, a line each."""
    scripts = [job.script(rank, 3 + count // 50) for rank in range(job.ranks)]
    clients, failures = [desk.client(job.address_of(rank)) for rank in range(job.ranks)], []
    joins = [[line for line in script if line.startswith(b"COMM")] for script in scripts]
    ask = [[line for line in script if line not in joins[n]] for n, script in enumerate(scripts)]
    for lines in (joins, ask):  # once it has checked in, nobody can take a rank's place
        ranks = [
            threading.Thread(target=run_rank, args=(client, script, failures))
            for client, script in zip(clients, lines, strict=True)
        ]
        for rank in ranks:
            rank.start()
        if lines is ask:
            send_as_strangers(desk, scripts, count, random.Random(seed))
        for rank in ranks:
            rank.join(PATIENCE)
    assert failures == []


def send_as_strangers(desk, scripts, count, rng):
    for _ in range(count):
        stranger = Client(desk.server)
        line = mutated(rng.choice(rng.choice(scripts)), rng)
        stranger.send(line)
        *whole, _ = line.replace(b"\r\n", b"\n").split(b"\n")
        if not all(COMM.fullmatch(one) for one in whole if one):
            while stranger.line():  # a communicator of one rank is answered before
                pass
        stranger.close()


@pytest.mark.parametrize("job", [Job(2, 2, 2), Job(4, 2, 1)])
def test_a_job_goes_on_while_strangers_send_mutated_lines(desk, job):
    send_mutations(desk, job, 100, seed=11)


@pytest.mark.soak
def test_a_job_goes_on_while_strangers_send_ten_thousand_mutated_lines(desk):
    send_mutations(desk, Job(4, 2, 1), 10_000, seed=11)


@pytest.mark.parametrize("data", [b"\n", b"x" * 2000, b"7\n8\n"])
def test_words_that_are_none_are_logged(stack, tmp_path, data):
    log = []
    stack.callback(WorkerServer(tmp_path / "rail", print, log.append).close)
    reply = ask_worker(tmp_path / "rail", data)
    assert log == [f"rail: {data[:40]!r} is no word, replied {reply!r}"]
