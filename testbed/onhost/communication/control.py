"""The control channel of a rank to its agent: commands in, events and heartbeats out.

A thread of its own reads the channel, so that an order to leave the generation reaches a rank that
computes or waits for a neighbour, and so that the heartbeat stops exactly when the process is
stopped or hangs.
"""

from __future__ import annotations

import os
import queue
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Optional

from ..errors import Left, ProtocolError, Refused
from ..frames import Decoder, Message, encode

AGENT_GONE = 3
"""Exit code of a rank whose agent closed the channel."""

_EVERY_GENERATION = sys.maxsize


class TimeSlot(NamedTuple):
    """Circuits that are lit and identified, and until when; slots are numbered from 1 on."""

    number: int
    circuits: int
    begin: float
    """When the message came, on this host's monotonic clock, as `until`."""
    until: float
    dark: float
    """Seconds of the slot that were over by then."""
    finished: int
    """The last step that every rank is known to have finished; -1 before the first."""


class LeaveOrder:
    """The newest generation that the rank must leave: set in one thread, checked in another.

    `fileno` is readable once an order was given. A thread that polls it calls `clear` before
    `check`, so that an order which arrives in between is found by `check`.
    """

    def __init__(self) -> None:
        self._generation = -1
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)

    def give(self, generation: int) -> None:
        """Order that `generation` and all earlier ones are left."""
        self._generation = max(self._generation, generation)
        self.wake()

    def wake(self) -> None:
        """Wake the waiting thread for another reason than an order."""
        os.write(self._writer, b"!")

    def check(self, generation: int) -> None:
        """Raise Left when `generation` must be left."""
        if self._generation >= generation:
            raise Left

    def clear(self) -> None:
        """Make `fileno` unreadable until the next order."""
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)

    def fileno(self) -> int:
        """Return the descriptor to poll beside the sockets."""
        return self._reader

    def close(self) -> None:
        """Release the descriptors; no order can be given or waited for any more."""
        os.close(self._reader)
        os.close(self._writer)


class Control:
    """Exchanges framed JSON with the agent over one stream socket.

    When the agent closes the socket the process exits at once, since nothing else could control the
    rank.
    """

    def __init__(self, channel: socket.socket) -> None:
        self.leave = LeaveOrder()
        self.finish_after: int | None = None
        self.checkpoint_before: int | None = None
        """The step before which the state was ordered to be written, besides those that are."""
        self.begun = 0
        """The newest generation that was ordered to begin its steps."""
        self.delay = 0.0
        """Seconds by which this rank must enter every collective late."""
        self.choice: Message | None = None
        """The newest choice of a schedule: its `number`, from 1 on, and the `schedule`."""
        self.lit = (0, 0)
        """The newest circuits that are said to be lit: their generation and number."""
        self.stages: dict[tuple[str, tuple[int, ...]], Message] = {}
        """On rails, by group and ranks, the newest stage whose circuits are said to be lit."""
        self.on_stage: Optional[Callable[[Message], None]] = None
        """What is given each such message, too, in the thread that reads the channel."""
        self.whole: dict[str, Message] = {}
        """On rails, by group, the newest message that all of it have joined, with a generation."""
        self.preferred: Message = {"generation": 0}
        """The newest answer to `prefer_routes`: its generation, and `why` they are not set."""
        self.slot: Optional[TimeSlot] = None
        """The newest time slot whose circuits are said to be lit."""
        self._channel = channel
        self._sending = threading.Lock()
        self._commands: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._beat = 1.0
        threading.Thread(target=self._listen, name="control", daemon=True).start()

    def next(self) -> Message:
        """Wait for the next command and return it."""
        return self._commands.get()

    @property
    def has_command(self) -> bool:
        """Tell whether a command has come that was not taken yet."""
        return not self._commands.empty()

    def emit(self, event: str, mono: float | None = None, **fields: Any) -> None:
        """Send one event with the time stamp `mono`, by default the present instant."""
        stamp = time.monotonic() if mono is None else mono
        frame = encode({"event": event, "mono": stamp, **fields})
        try:
            with self._sending:
                self._channel.sendall(frame)
        except OSError:
            os._exit(AGENT_GONE)

    def delay_collective(self, generation: int) -> float:
        """Sleep before a collective as long as the agent ordered; return the time. Raise Left."""
        if not self.delay:
            return 0.0
        begin = time.monotonic()
        end = begin + self.delay
        self.wait_until(lambda: time.monotonic() >= end, generation, end)
        return time.monotonic() - begin

    def await_begin(self, generation: int) -> None:
        """Wait until the generation is ordered to begin its steps. Raise Left."""
        self.wait_until(lambda: self.begun >= generation, generation)

    def ask_for_circuits(self, generation: int, number: int, **which: Any) -> None:
        """Request other circuits and wait until they are lit. Raise Left."""
        self.emit("circuits", generation=generation, number=number, **which)
        self.wait_until(lambda: self.lit >= (generation, number), generation)

    def prefer_routes(self, generation: int, routes: list[tuple[str, str]]) -> None:
        """Have addresses reached over interfaces by sockets that are bound to none.

        `routes` are pairs of both, in place of all before. Raise Left; Refused where the agent may
        not set them.
        """
        self.emit("prefer-routes", generation=generation, routes=routes)
        self.wait_until(lambda: self.preferred["generation"] >= generation, generation)
        if why := self.preferred["why"]:
            raise Refused(f"routes over the ports of its circuits cannot be set: {why}")

    def wait_until(
        self, is_over: Callable[[], bool], generation: int, instant: float | None = None
    ) -> None:
        """Wait until `is_over` returns true after a command, or until an instant.

        Raise Left when the generation must be left.
        """
        poll = select.poll()
        poll.register(self.leave, select.POLLIN)
        while not is_over():
            poll.poll(None if instant is None else max(0.0, instant - time.monotonic()) * 1e3)
            self.leave.clear()
            self.leave.check(generation)

    def ends_before(self, step: int) -> bool:
        """Return whether the agent has ordered the job to end before `step`.

        All ranks must end alike; one that is already past the last step refuses and goes on.
        """
        last = self.finish_after
        if last is None or step <= last:
            return False
        if step > last + 1:
            self.finish_after = None
            self.emit("refused", do="finish", why=f"step {last} is over, the next is {step}")
            return False
        return True

    def _listen(self) -> None:
        decoder = Decoder()
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        due = time.monotonic()
        while True:
            if poll.poll(max(0.0, due - time.monotonic()) * 1e3):
                self._read(decoder)
            if time.monotonic() >= due:
                self.emit("alive")
                due = time.monotonic() + self._beat

    def _read(self, decoder: Decoder) -> None:
        try:
            data = self._channel.recv(65536)
            for command in decoder.feed(data):
                self._take(command)
        except (OSError, ProtocolError, KeyError, TypeError) as error:
            print(f"rank: the channel to the agent broke: {error!r}", file=sys.stderr, flush=True)
            os._exit(AGENT_GONE)
        if not data:
            os._exit(AGENT_GONE)

    def _take(self, command: Message) -> None:
        """Act on what cannot wait for the main thread, then queue the command for it."""
        verb = command.get("do")
        if verb == "finish":
            self.finish_after = command["after_step"]
            return
        if verb == "checkpoint":
            self.checkpoint_before = command["before_step"]
            return
        if verb in _AWAITED:
            self._note(verb, command)
            self.leave.wake()
            return
        if verb == "straggle":
            self.delay = command["seconds"]
            self.emit("straggling", seconds=self.delay)
            return
        if verb == "configure":
            self._beat = command["heartbeat"] / 4
        self._commands.put(command)
        if verb == "leave":
            self.leave.give(command["generation"])
        elif verb == "exit":
            self.leave.give(_EVERY_GENERATION)

    def _note(self, verb: str, command: Message) -> None:
        """Note what the main thread may wait for."""
        if verb == "begin":
            self.begun = command["generation"]
        elif verb == "choose":
            self.choice = command
        elif verb == "lit":
            self.lit = (command["generation"], command["number"])
        elif verb == "stage-lit":
            self.stages[command["group"], tuple(command["ranks"])] = command
            if self.on_stage is not None:
                self.on_stage(command)
        elif verb == "group-whole":
            self.whole[command["group"]] = command
        elif verb == "preferred":
            self.preferred = command
        else:
            self.slot = _slot(command)


_AWAITED = ("begin", "choose", "lit", "stage-lit", "group-whole", "preferred", "slot")
"""Commands that the main thread may wait for."""


def _slot(command: Message) -> TimeSlot:
    now, left = time.monotonic(), command["left"]
    number, circuits = command["number"], command["circuits"]
    return TimeSlot(number, circuits, now, now + left, command["hold"] - left, command["finished"])
