"""A process of its own that watches a rank's process, and says when its state is a certain one.

Whoever injects a fault is no witness of it. This one sends no signals and is not the rank's
parent: it looks at what the kernel says of the process.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

from ..frames import Message
from .children import die_with
from .processes import born, send

LIMIT = 15.0
"""Seconds that it watches at the longest."""

_PERIOD = 0.0005


class Witness:
    """Such a process, seen from its agent. It says once what it saw.

    It is a fork of the agent, which has one thread: no fault waits for another Python to start.
    """

    def __init__(self, pid: int, states: str) -> None:
        """Start it; `states` are letters of the kernel's, X for a process that is gone."""
        start = born(pid)
        if start is None:
            raise ValueError(f"process {pid} has ended already")
        self.asked: list[int] = []
        """The requests that its next words answer."""
        self.words: list[Message] = []
        """What it has said that nobody has asked for yet."""
        self.line, theirs = os.pipe()
        agent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            try:
                _leave_the_agent(agent, theirs)
                watch(pid, start, states)
            finally:
                os._exit(0)
        os.close(theirs)

    def hear(self) -> bool:
        """Take what it says next, with its line ready to be read; tell if it goes on."""
        said = os.read(self.line, 4096)
        self.words += map(json.loads, said.splitlines())
        return bool(said)

    def end(self) -> None:
        """End it, whatever it does."""
        send(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self.line)


def _leave_the_agent(agent: int, line: int) -> None:
    """Keep of all that the agent has open only `line`, as standard output; and die with it."""
    die_with(agent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(line, 1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 2)
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) > 2:
            with suppress(OSError):  # the list itself
                os.close(int(entry.name))


class Witnesses:
    """At most one witness for each slot; each answers a request."""

    def __init__(self, selector: selectors.BaseSelector, say: Callable[[Message], None]) -> None:
        self._selector = selector
        self._say = say
        self._by_slot: dict[int, Witness] = {}

    def watch(self, slot: int, pid: int, states: str) -> None:
        """Start a witness of the process in a slot."""
        self._end(slot)
        witness = self._by_slot[slot] = Witness(pid, states)
        self._selector.register(witness.line, selectors.EVENT_READ, lambda: self._hear(slot))

    def ask(self, slot: int, number: int) -> None:
        """Answer request `number` with the next word of a slot's witness, when it says it."""
        if slot not in self._by_slot:
            raise ValueError(f"nobody watches slot {slot}, or it has seen nothing")
        self._by_slot[slot].asked.append(number)
        self._answer(self._by_slot[slot])

    def _answer(self, witness: Witness) -> None:
        while witness.asked and witness.words:
            self._say({"re": witness.asked.pop(0), "ok": witness.words.pop(0)})

    def _hear(self, slot: int) -> None:
        witness = self._by_slot[slot]
        goes_on = witness.hear()
        self._answer(witness)
        if not goes_on:
            self._selector.unregister(witness.line)
            if not witness.words:
                self._end(slot)

    def _end(self, slot: int) -> None:
        witness = self._by_slot.pop(slot, None)
        if witness is None:
            return
        with suppress(KeyError):  # its line may have ended before
            self._selector.unregister(witness.line)
        for number in witness.asked:
            self._say({"re": number, "error": f"the witness of slot {slot} has seen nothing"})
        witness.end()

    def end_all(self) -> None:
        """End all witnesses."""
        for slot in list(self._by_slot):
            self._end(slot)


def watch(pid: int, start: str, states: str) -> None:
    """Say when a process has one of the states."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        state = _state(pid, start)
        if state in states:
            return _say({"mono": time.monotonic(), "state": state})
        time.sleep(_PERIOD)
    return None


def _state(pid: int, start: str) -> str:
    """Return the kernel's letter for the process that started then; X when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X"
    return fields[0] if fields[19] == start else "X"


def _say(what: dict[str, Any]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")
