"""The line between a script's process and the rank that runs it: stages out, lit circuits in.

The rank listens on a Unix socket of its own, in the abstract namespace, so that no file is left.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional

from ..errors import PeerLost, ProtocolError
from ..frames import Decoder, Message, encode
from .control import Control

RAILS = "TESTBED_RAILS"
"""The environment variable that has the name of the rank's socket."""

SAID = ("stage-reached", "stage-left")
"""What a script says of its stages."""

_GREETING = 10.0
"""Seconds in which a rank greets a script that has connected."""

_READ = 65536


class RailLine:
    """A script's end of the line; it has of a rank's `Control` what `RailStages` needs."""

    def __init__(self, name: str) -> None:
        """Connect to the rank; raise OSError and PeerLost where it is not there."""
        self.stages: dict[tuple[str, tuple[int, ...]], Message] = {}
        self.whole: dict[str, Message] = {}
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.settimeout(_GREETING)
        self._line.connect(f"\0{name}")
        self._decoder = Decoder()
        self._changed, self._sending = threading.Condition(), threading.Lock()
        self._is_gone = False
        found: list[Message] = []
        while not found:
            if not (data := self._line.recv(_READ)):
                raise PeerLost("rank", "it closed the line of the script before it said anything")
            found = self._decoder.feed(data)
        self.greeting = found[0]
        """The rank and its generation, all groups, the hosts of all ranks, and its own ports."""
        self._line.settimeout(None)
        self._listening = threading.Thread(target=self._listen, name="rails", daemon=True)
        self._listening.start()

    def emit(self, event: str, **fields: Any) -> None:
        """Say something with the present instant as its time stamp; raise PeerLost."""
        frame = encode({"event": event, "mono": time.monotonic(), **fields})
        try:
            with self._sending:
                self._line.sendall(frame)
        except OSError as error:
            raise PeerLost("rank", error.strerror or str(error)) from error

    def wait_until(
        self, is_over: Callable[[], bool], generation: int, instant: Optional[float] = None
    ) -> None:
        """Wait until `is_over` returns true after a message, or until an instant.

        Raise PeerLost where the rank is gone.
        """
        with self._changed:
            while not is_over():
                if self._is_gone:
                    raise PeerLost("rank", "it closed the line of the script")
                left = None if instant is None else max(0.0, instant - time.monotonic())
                self._changed.wait(left)

    def close(self) -> None:
        """End the line; safe to call twice."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._listening.join()

    def _listen(self) -> None:
        with self._line, contextlib.suppress(OSError, ProtocolError):
            while data := self._line.recv(_READ):
                for message in self._decoder.feed(data):
                    self._take(message)
        with self._changed:
            self._is_gone = True
            self._changed.notify_all()

    def _take(self, message: Message) -> None:
        with self._changed:
            if message.get("do") == "stage-lit":
                self.stages[message["group"], tuple(message["ranks"])] = message
            self._changed.notify_all()


class RailRelay:
    """A rank's end of the line: it passes on what the script says, and what it is told.

    One process of the script connects, and no other after it.
    """

    def __init__(self, control: Control, greeting: Mapping[str, Any]) -> None:
        self.name = f"testbed-{secrets.token_hex(16)}"
        """Of the socket; a script finds it in the environment variable `RAILS`."""
        self._control, self._greeting = control, greeting
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"\0{self.name}")
        self._listener.listen(1)
        self._line: Optional[socket.socket] = None
        self._thread = threading.Thread(target=self._serve, name="rails of a script", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the line; whoever waits for it in the script is told."""
        for end in (self._listener, self._line):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._control.on_stage = None
        self._listener.close()

    def _serve(self) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError:
            return  # it was closed before the script came
        with line, contextlib.suppress(OSError, ProtocolError):
            self._line = line
            line.sendall(encode(dict(self._greeting)))
            self._control.on_stage = self._tell
            decoder = Decoder()
            while data := line.recv(_READ):
                for said in decoder.feed(data):
                    self._pass_on(said)

    def _pass_on(self, said: Message) -> None:
        event = said.get("event")
        if event not in SAID:
            raise ProtocolError(f"a script said {event!r}")
        named = {key: said[key] for key in ("stage", "following") if key in said}
        generation = self._greeting["generation"]
        self._control.emit(event, said.get("mono"), generation=generation, **named)

    def _tell(self, message: Message) -> None:
        if self._line is not None:
            with contextlib.suppress(OSError):  # the script has ended
                self._line.sendall(encode(message))
