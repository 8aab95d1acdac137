"""Scripted lines: a driver test is a list of (sent, reply) pairs, and leftovers fail it."""

from testbed.errors import NoReply
from testbed.plugins import kind

IDENTITY = (b"*IDN?\n", b"Polatis,I-OST-16x16-LU1-DMHNS,S1,6.5.2.18\n")
NO_ERROR = b'0, "No error"\n'
DRAINED = (b":SYST:ERR?\n", NO_ERROR)
GREETING = [IDENTITY, DRAINED]
OPENING = [*GREETING, IDENTITY, (b":OXC:SWIT:SIZE?\n", b"16,16\n")]


class Conversation:
    """An in-memory transport that knows what it will hear and what it answers.

    A reply of None is silence; an exception is raised instead of a reply.
    """

    def __init__(self, pairs):
        self._pairs = list(pairs)
        self._answer = None
        self.closed = False
        self.is_quiet = True

    def send(self, data, deadline):
        assert self._pairs, f"nothing more was expected, but {data!r} was sent"
        expected, self._answer = self._pairs.pop(0)
        assert data == expected

    def receive(self, end, deadline):
        if self._answer is None:
            raise NoReply("ocs", "did not answer in time")
        if isinstance(self._answer, Exception):
            raise self._answer
        count = _first_message(self._answer, end)
        message, self._answer = self._answer[:count], self._answer[count:] or None
        return message

    def quiet(self):
        return self.is_quiet and self._answer is None

    def say(self, data):
        """Let unsolicited bytes arrive."""
        self._answer = data

    def close(self):
        self.closed = True

    def then(self, *pairs):
        """Expect more on this line."""
        self._pairs.extend(pairs)

    @property
    def leftovers(self):
        return self._pairs


def _first_message(data, end):
    """Return how many bytes of an answer a driver takes, 0 for none."""
    if not isinstance(end, bytes):
        return end(data)
    return data.find(end) + len(end) if end in data else 0


class Script:
    """The lines that a driver will open one after the other, and what it told its tracer."""

    def __init__(self):
        self.lines = []
        self.opened = []
        self.trace = []

    def line(self, *pairs):
        conversation = Conversation(pairs)
        self.lines.append(conversation)
        return conversation

    def dial(self, instrument, resource, *, baud, deadline):
        assert self.lines, "no further line was expected to be opened"
        self.opened.append(self.lines.pop(0))
        return self.opened[-1]

    def driver(
        self, name, *, serial=False, resource="", identity="S1", ports=range(1, 33), **options
    ):
        """Return a driver by its registered name; on a serial line, or on TCP."""
        described = kind("drivers", name)
        return described.load()(
            "ocs",
            resource or ("/dev/ttyUSB0" if serial else "TCPIP::192.0.2.10::5025::SOCKET"),
            frozenset(ports),
            identity,
            described.options(**options),
            lambda way, data: self.trace.append((way, data)),
            dial=self.dial,
        )

    def polatis(self, **options):
        return self.driver("polatis", **options)
