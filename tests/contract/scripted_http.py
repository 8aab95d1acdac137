"""Scripted web services: a driver test is a list of requests and answers, and leftovers fail it."""

from testbed.errors import NoReply
from testbed_drivers.dialects.http_far_end import RequestReader, encoded
from testbed_drivers.transports.base import BufferedTransport


class Web:
    """The lines that a driver will open one after the other, and what it told its tracer.

    A line is a list of `("GET /path", answer)` or `("PUT /path", body, answer)`; an answer of None
    is silence, bytes are sent as they are.
    """

    def __init__(self):
        self.lines = []
        self.opened = []
        self.trace = []
        self.requests = []

    def line(self, *script):
        self.lines.append(list(script))

    def dial(self, instrument, resource, *, baud, deadline):
        assert self.lines, "no further line was expected to be opened"
        self.opened.append(WebLine(instrument, self.lines.pop(0), self.requests))
        return self.opened[-1]

    def tracer(self, way, data):
        self.trace.append((way, data))

    def done(self):
        assert not self.lines, "a line was never opened"
        assert not any(line.script for line in self.opened), "something was never asked"


class WebLine(BufferedTransport):
    """One line of a script."""

    def __init__(self, instrument, script, requests):
        super().__init__(instrument)
        self.script = script
        self.closed = False
        self._requests = requests
        self._reader = RequestReader()
        self._answers = b""

    def _send(self, data, deadline):
        for request in self._reader.feed(data):
            assert self.script, f"nothing more was expected, but {request} was asked"
            expected, *body, answer = self.script.pop(0)
            assert str(request) == expected
            assert [request.content] == body if request.body else not body
            self._requests.append(request)
            if answer is not None:
                whole = isinstance(answer, bytes)
                self._answers += answer if whole else encoded(answer, "application/json")

    def _receive_some(self, deadline):
        if not self._answers:
            raise NoReply(self._instrument, "did not answer in time")
        data, self._answers = self._answers, b""
        return data

    def quiet(self):
        return not (self._unread or self._answers)

    def close(self):
        self.closed = True
