"""A separate process that reports when a rank's process reaches a given state.

The receipt of a fault must not come from the process that injects it. This process sends no signals
and is not the rank's parent: it reads the process state from /proc.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable

from ..frames import Message
from .processes import send, start_time, state_of
from .rank_process import die_with

LIMIT = 15.0
"""Seconds that it observes at the longest."""

_PERIOD = 0.0005


class ProcessObserver:
    """The observing process, as its agent controls it; it reports one state once.

    It is a fork of the agent, which has one thread: no fault is delayed by the start of a Python
    interpreter.
    """

    def __init__(self, pid: int, states: str) -> None:
        """Start it; `states` are letters of the kernel's, X for a process that is gone."""
        start = start_time(pid)
        if start is None:
            raise ValueError(f"process {pid} has ended already")
        self.requests: list[int] = []
        """The requests that its next reports answer."""
        self.reports: list[Message] = []
        """What it has reported that no request has asked for yet."""
        self.pipe, theirs = os.pipe()
        agent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            try:
                _leave_the_agent(agent, theirs)
                observe(pid, start, states)
            finally:
                os._exit(0)
        os.close(theirs)

    def end(self) -> None:
        """Kill the observing process."""
        send(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self.pipe)


def _leave_the_agent(agent: int, pipe: int) -> None:
    """Keep of all that the agent has open only `pipe`, as standard output; and die with it."""
    die_with(agent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(pipe, 1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 2)
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) > 2:
            with suppress(OSError):  # the list itself
                os.close(int(entry.name))


class ProcessObservers:
    """At most one observer for each slot; each of them answers one request."""

    def __init__(self, selector: selectors.BaseSelector, send: Callable[[Message], None]) -> None:
        self._selector = selector
        self._send = send
        self._by_slot: dict[int, ProcessObserver] = {}

    def start(self, slot: int, pid: int, states: str) -> None:
        """Start an observer of the process in a slot, replacing any other."""
        self._end(slot)
        observer = self._by_slot[slot] = ProcessObserver(pid, states)
        self._selector.register(observer.pipe, selectors.EVENT_READ, lambda: self._read(slot))

    def ask(self, slot: int, number: int) -> None:
        """Answer request `number` with the next report of a slot's observer."""
        if slot not in self._by_slot:
            raise ValueError(f"no process observes slot {slot}, or it has reported no state")
        self._by_slot[slot].requests.append(number)
        self._answer(self._by_slot[slot])

    def _answer(self, observer: ProcessObserver) -> None:
        while observer.requests and observer.reports:
            self._send({"re": observer.requests.pop(0), "ok": observer.reports.pop(0)})

    def _read(self, slot: int) -> None:
        observer = self._by_slot[slot]
        data = os.read(observer.pipe, 4096)
        observer.reports += map(json.loads, data.splitlines())
        self._answer(observer)
        if not data:
            self._selector.unregister(observer.pipe)
            if not observer.reports:
                self._end(slot)

    def _end(self, slot: int) -> None:
        observer = self._by_slot.pop(slot, None)
        if observer is None:
            return
        with suppress(KeyError):  # its pipe may have ended before
            self._selector.unregister(observer.pipe)
        for number in observer.requests:
            self._send(
                {"re": number, "error": f"the observer of slot {slot} has reported no state"}
            )
        observer.end()

    def end_all(self) -> None:
        """End all observers."""
        for slot in list(self._by_slot):
            self._end(slot)


def observe(pid: int, start: str, states: str) -> None:
    """Print the state of a process to standard output once it is one of `states`."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        state = state_of(pid, start)
        if state in states:
            report = {"mono": time.monotonic(), "state": state}
            os.write(1, json.dumps(report).encode() + b"\n")
            return
        time.sleep(_PERIOD)
