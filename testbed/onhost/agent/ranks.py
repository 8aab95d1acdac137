"""The ranks of one agent: started, watched, told, and ended, each in a slot of its host."""

from __future__ import annotations

import selectors
import signal
import time
from contextlib import suppress
from typing import Any, Callable

from ..frames import Message
from .children import Child
from .duty import FreezeCycle, Quota, group_of, remove_group
from .journal import HostJournal
from .processes import MARK, born, end_marked, end_strays
from .witness import Witnesses

_END_LIMIT = 5.0

_LOOK = 0.05
"""Seconds between two looks at the heartbeats, at most, while the agent runs as it should."""

Say = Callable[[Message], None]
"""Sends one message to the orchestrator."""


class Ranks:
    """At most one rank in each slot; what happens to them is said on its own account."""

    def __init__(
        self, bundle: int, selector: selectors.BaseSelector, journal: HostJournal, say: Say
    ) -> None:
        """Promise first that nothing started here stays."""
        self._bundle = bundle
        self._selector = selector
        self._journal = journal
        self._say = say
        self._promise = journal.promise("processes", mark=journal.mark)
        self._children: dict[int, Child] = {}
        self._stops: dict[int, int] = {}
        self._cycles: dict[int, FreezeCycle] = {}
        self._quotas: dict[int, tuple[int, Quota]] = {}
        self._groups: dict[int, str] = {}
        self._asked: dict[int, tuple[int, float]] = {}
        """By slot, the number and the instant of a request that its rank must answer itself."""
        self._heard: dict[int, float] = {}
        self._looked = time.monotonic()
        self._limit = 0.0
        self._missed: set[int] = set()
        self.witnesses = Witnesses(selector, say)

    def start(self, slot: int, environment: dict[str, str]) -> dict[str, Any]:
        """Start a rank's process; it then waits to be configured."""
        if slot in self._children:
            raise ValueError(f"slot {slot} has a rank already")
        child = Child(slot, self._bundle, {**environment, MARK: self._journal.mark})
        self._children[slot] = child
        self._selector.register(child.line, selectors.EVENT_READ, lambda: self._hear(child))
        self._selector.register(child.errors, selectors.EVENT_READ, lambda: self._log(child))
        self._selector.register(child.life, selectors.EVENT_READ, lambda: self._bury(child))
        return child.facts()

    def tell(self, slot: int, message: Message, grace: float) -> None:
        """Pass a message on; one that configures says how long a silence counts."""
        child = self._child(slot)
        if message["do"] == "configure":
            self._limit = message["heartbeat"]
            self._heard[slot] = time.monotonic() + grace
        child.send(message)

    def signal(self, slot: int, name: str, watched: str = "") -> dict[str, Any]:
        """Send a signal; return between which instants it took effect, and the state after it.

        That a stopped process goes on again is promised first.
        """
        child = self._child(slot)
        number = signal.Signals["SIG" + name]
        if number == signal.SIGSTOP and slot not in self._stops:
            promise = self._journal.promise("stop", pid=child.pid, born=born(child.pid))
            self._stops[slot] = promise
        if watched:
            self.witnesses.watch(slot, child.pid, watched)
        before = time.monotonic()
        child.signal(number)
        state = child.state_after(number)
        after = time.monotonic()
        if number == signal.SIGCONT:
            self._settle_stop(slot)
        return {"mono": [before, after], "state": state, "pid": child.pid}

    def straggle(self, slot: int, seconds: float, number: int) -> None:
        """Have a rank come late from now on; request `number` is answered when it has heard that.

        The answer says between which instants.
        """
        child = self._child(slot)
        self._asked[slot] = (number, time.monotonic())
        child.send({"do": "straggle", "seconds": seconds})

    def slow(self, slot: int, share: float, period: float, *, quota: bool) -> None:
        """Let a rank run `share` of the time from now on, in turns of `period` seconds.

        By a CPU quota, or else by stopping it and letting it go. A share of 1 ends both.
        """
        child = self._child(slot)
        self._let_run(slot)
        if share < 1 and quota:
            self._limit_cpu(slot, child.pid, share, period)
        elif share < 1:
            self.signal(slot, "STOP")
            self._cycles[slot] = FreezeCycle(child.signal, share, period, time.monotonic())

    def work(self, now: float) -> None:
        """Stop or let go whom it is time for."""
        for cycle in self._cycles.values():
            cycle.work(now)

    def _let_run(self, slot: int) -> None:
        if self._cycles.pop(slot, None):
            self.signal(slot, "CONT")
        self._end_quota(slot)

    def _limit_cpu(self, slot: int, pid: int, share: float, period: float) -> None:
        promise = self._journal.promise("group", name=group_of(pid))
        try:
            self._quotas[slot] = promise, Quota(pid, share, period)
        except OSError:
            self._journal.settle(promise)
            raise
        self._groups[promise] = group_of(pid)

    def _end_quota(self, slot: int) -> None:
        """End a quota; a group in which something still runs is removed in the end."""
        if slot in self._quotas:
            promise, quota = self._quotas.pop(slot)
            with suppress(OSError):
                quota.end()
                self._journal.settle(promise)
                del self._groups[promise]

    def end(self, slot: int) -> bool:
        """Kill a rank and tell whether it is provably gone; one that never ran here is."""
        child = self._children.pop(slot, None)
        return child is None or self._let_go(child)

    def end_all(self) -> list[str]:
        """Kill every rank and all that they started; return what is left."""
        self.witnesses.end_all()
        left = [
            f"the rank in slot {slot} survived"
            for slot, child in self._children.items()
            if not self._let_go(child)
        ]
        self._children.clear()
        mark = self._journal.mark
        survived = end_marked(mark, _END_LIMIT) + end_strays(mark.partition("/")[0], _END_LIMIT)
        left += [f"process {pid} survived" for pid in survived]
        for promise, name in list(self._groups.items()):
            try:
                remove_group(name)
            except OSError as error:
                left.append(str(error))
            else:
                self._journal.settle(promise)
                del self._groups[promise]
        if not left:
            self._journal.settle(self._promise)
        return left

    def check_heartbeats(self) -> None:
        """Say once of each rank that it has been silent for too long.

        While the agent itself does not run (it waits for a processor, is stopped, or is busy with
        a request), beats may wait to be read: that time counts as no rank's silence.
        """
        now = time.monotonic()
        missing = max(0.0, now - self._looked - _LOOK)
        self._looked = now
        for slot, heard in self._heard.items():
            if heard < now:
                self._heard[slot] = heard = min(now, heard + missing)
            silence = now - heard
            if silence <= self._limit:
                self._missed.discard(slot)
            elif slot in self._children and slot not in self._missed:
                self._missed.add(slot)
                self._event("heartbeat-missed", slot=slot, silence=silence)

    def _child(self, slot: int) -> Child:
        if slot not in self._children:
            raise ValueError(f"no rank runs in slot {slot}")
        return self._children[slot]

    def _hear(self, child: Child) -> None:
        for message in child.messages():
            if message["event"] == "ready":
                self._heard.pop(child.slot, None)  # its start is over, and so is its grace
            self._heard[child.slot] = max(time.monotonic(), self._heard.get(child.slot, 0.0))
            if message["event"] != "alive":
                self._say({"event": "rank", "slot": child.slot, "said": message})
            if message["event"] == "straggling" and child.slot in self._asked:
                # Only now: whoever has the answer has then heard what the rank said.
                number, since = self._asked.pop(child.slot)
                self._say({"re": number, "ok": {"mono": [since, message["mono"]]}})

    def _log(self, child: Child) -> None:
        for line in child.complaints():
            self._event("log", slot=child.slot, line=line)

    def _bury(self, child: Child) -> None:
        ended = time.monotonic()
        self._hear(child)
        self._log(child)
        self._children.pop(child.slot, None)
        code = child.ended()
        self._let_go(child)
        self._say({"event": "exit", "mono": ended, "slot": child.slot, "code": code})

    def _let_go(self, child: Child) -> bool:
        for descriptor in (child.line, child.errors, child.life):
            self._selector.unregister(descriptor)
        self._heard.pop(child.slot, None)
        self._missed.discard(child.slot)
        self._cycles.pop(child.slot, None)
        if asked := self._asked.pop(child.slot, None):
            self._say({"re": asked[0], "error": f"no rank runs in slot {child.slot}"})
        gone = child.end()
        self._end_quota(child.slot)
        if gone:
            self._settle_stop(child.slot)
        return gone

    def _settle_stop(self, slot: int) -> None:
        if slot in self._stops:
            self._journal.settle(self._stops.pop(slot))

    def _event(self, event: str, **fields: Any) -> None:
        self._say({"event": event, "mono": time.monotonic(), **fields})
