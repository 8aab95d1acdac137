"""The agent as a real process, from the real bundle, on pipes instead of SSH."""

import itertools
import os
import select
import shlex
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

from testbed.bench.bundle import agent_command, bundle
from testbed.bench.link import AgentLink
from testbed.clock import Deadline
from testbed.errors import HostError

_numbers = itertools.count()
LOOPBACK = {"interface": None, "address": "127.0.0.1"}


class PipeChannel:
    """A command's standard streams, as `bench.ssh.Channel` has them."""

    def __init__(self, host, command):
        self._host = host
        self._link_is_done = threading.Event()
        self.process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def send(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except (OSError, ValueError) as error:
            raise HostError(self._host, f"the pipe broke: {error}") from error

    def fileno(self):
        return self.process.stdout.fileno()

    def receive(self):
        return os.read(self.process.stdout.fileno(), 1 << 16)

    def complaint(self):
        text = b""
        while select.select([self.process.stderr], [], [], 0.2)[0]:
            piece = os.read(self.process.stderr.fileno(), 1 << 16)
            if not piece:
                break
            text += piece
        return text.decode().strip()

    def close(self):
        with suppress(BrokenPipeError):  # what was not sent yet will never be
            self.process.stdin.close()

    def release(self):
        self._link_is_done.set()

    def end(self):
        """See the process end, as it does once its line is closed."""
        self.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        assert self._link_is_done.wait(10)
        self.process.stdout.close()
        self.process.stderr.close()


class EventRecorder:
    """Records the events of a link, and waits for them."""

    def __init__(self):
        self.received = []
        self._changed = threading.Condition()

    def __call__(self, host, message, received):
        with self._changed:
            self.received.append(message)
            self._changed.notify_all()

    def wait_for(self, event, count=1, **fields):
        """Return the `count`-th such event; what a rank said is looked into."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.of(event, **fields)) >= count, 10), (
                f"no {event} {fields} in {self.received[-5:]}"
            )
            return self.of(event, **fields)[count - 1]

    def of(self, event, **fields):
        flat = [message.get("said", message) for message in self.received]
        return [m for m in flat if m["event"] == event and m.items() >= fields.items()]


class Agent:
    """An agent and the link to it."""

    def __init__(self, wrapper=""):
        command = agent_command(sys.executable)
        self.channel = PipeChannel(
            "h0", f"{wrapper} {shlex.quote(command)}" if wrapper else command
        )
        self.channel.send(bundle())
        self.events = EventRecorder()
        self.link = AgentLink("h0", self.channel, self.events)
        self.process = self.channel.process

    def ask(self, do, **fields):
        return self.link.ask(do, soon(), **fields).value

    def hello(self, patience=60.0, run=None, host="h0", **interfaces):
        run = f"test-{os.getpid()}-{next(_numbers)}" if run is None else run
        return self.ask("hello", run=run, host=host, patience=patience, interfaces=interfaces)

    def start_rank(self, slot=0, *, configure=True, heartbeat=30.0, grace=0.0, **environment):
        """Start a rank's process, waiting to be configured or to join; return its id."""
        pid = self.ask("start", slot=slot, env=environment)["pid"]
        if configure:
            self.tell(slot, "configure", grace=grace, **configuration(slot, heartbeat))
            self.events.wait_for("ready")
        return pid

    def tell(self, slot, do, grace=0.0, **fields):
        return self.ask("tell", slot=slot, message={"do": do, **fields}, grace=grace)

    def wait(self):
        """Wait until the agent has ended; return its exit code."""
        return self.process.wait(10)


def configuration(rank=0, heartbeat=30.0, ranks=1):
    job = {"kind": "allreduce", "options": {"sizes": [4096], "iterations": 2, "warmup": 0}}
    return {
        "job": job,
        "rank": rank,
        "ranks": ranks,
        "token": "a token",
        "seed": 7,
        "heartbeat": heartbeat,
        "to_next": LOOPBACK,
        "from_previous": LOOPBACK,
    }


@contextmanager
def watched(pid):
    """Give a way to wait for the end of a process that is not our child."""
    life = os.pidfd_open(pid)
    try:
        yield lambda limit=10: bool(select.select([life], [], [], limit)[0])
    finally:
        os.close(life)


def soon():
    return Deadline.after(10)
