"""What a client sends: the bytes on its line, and the messages of gRPC in them."""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from contextlib import ExitStack, suppress

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA = 0


class Tap:
    """Passes bytes on to an address and keeps what comes from those that connect."""

    def __init__(self, stack: ExitStack, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard = bytearray()
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for source, sink, keep in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pass, args=(source, sink, keep), daemon=True).start()

    def _pass(self, source, sink, keep):
        try:
            while data := source.recv(65536):
                if keep:
                    self.heard += data
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


def messages_in(heard: bytes) -> list[bytes]:
    """Return the messages of gRPC that a client sent on one connection, call by call."""
    assert heard.startswith(_PREFACE)
    calls, at = defaultdict(bytes), len(_PREFACE)
    while at < len(heard):  # RFC 9113, 4.1: length, type, flags, stream, payload
        end = at + 9 + int.from_bytes(heard[at : at + 3])
        if heard[at + 3] == _DATA:
            calls[heard[at + 5 : at + 9]] += heard[at + 9 : end]
        at = end
    return [message for call in calls.values() for message in _split(call)]


def _split(call: bytes) -> list[bytes]:
    found = []
    while call:  # of each message whether it is compressed, and its length
        assert call[0] == 0
        end = 5 + int.from_bytes(call[1:5])
        found.append(call[5:end])
        call = call[end:]
    return found
