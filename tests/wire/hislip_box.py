"""An instrument behind HiSLIP (IVI-6.1), by hand: messages with an end, and a device clear."""

import struct
from contextlib import suppress
from functools import partial

from tests.wire.listener import Listener

_HEADER = struct.Struct("!2sBBIQ")
INITIALIZE, DATA, DATA_END, CLEARED, CLEAR_KNOWN = 0, 6, 7, 8, 9
MOST_SIZE, MOST_SIZE_KNOWN = 15, 16
ASYNC_INITIALIZE, ASYNC_CLEAR, ASYNC_CLEAR_KNOWN = 17, 19, 23


class HislipBox:
    """A box that writes down what it hears, and answers each message with `answer`."""

    def __init__(self, answer):
        self.heard = []
        """Messages as `(type, bytes)`, and `"clear"`."""
        self._answer = answer
        self._listener = Listener(self._serve)
        self.resource = f"TCPIP::127.0.0.1::hislip0,{self._listener.port}::INSTR"
        self.close = self._listener.close

    def _serve(self, line):
        with suppress(OSError, struct.error), line:
            while True:
                _, kind, _, parameter, length = _HEADER.unpack(_exactly(line, _HEADER.size))
                payload = _exactly(line, length)
                if kind == INITIALIZE:
                    _say(line, 1, 0x0100_0001)
                elif kind == ASYNC_INITIALIZE:
                    _say(line, 18, 0)
                elif kind == ASYNC_CLEAR:
                    self.heard.append("clear")
                    _say(line, ASYNC_CLEAR_KNOWN, 0)
                elif kind == MOST_SIZE:
                    _say(line, MOST_SIZE_KNOWN, 0, payload)
                elif kind == CLEARED:
                    _say(line, CLEAR_KNOWN, 0)
                else:
                    self.heard.append((kind, payload))
                    if kind == DATA_END:
                        self._answer(partial(_reply, line, parameter))


def _say(line, kind, parameter, payload=b""):
    line.sendall(_HEADER.pack(b"HS", kind, 0, parameter, len(payload)) + payload)


def _reply(line, parameter, kind, payload):
    _say(line, kind, parameter, payload)


def _exactly(line, count):
    data = b""
    while len(data) < count:
        data += line.recv(count - len(data)) or _gone()
    return data


def _gone():
    raise ConnectionResetError
