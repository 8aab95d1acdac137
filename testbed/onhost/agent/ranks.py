"""The rank processes of one agent: started, watched and ended, each in a slot of its host."""

from __future__ import annotations

import selectors
import signal
import time
from contextlib import suppress
from typing import Any, Callable

from ..frames import Message
from .cpu_limits import CpuQuota, CpuThrottle, cgroup_of, remove_cgroup
from .journal import HostJournal
from .observer import ProcessObservers
from .processes import MARK, end_marked, end_strays, start_time
from .rank_process import RankProcess

_END_LIMIT = 5.0

_CHECK_PERIOD = 0.05
"""Seconds between two checks of the heartbeats, at most, while the agent runs as it should."""

Send = Callable[[Message], None]
"""Sends one message to the orchestrator."""


class Ranks:
    """At most one rank in each slot; what happens to them is sent as events."""

    def __init__(
        self, bundle: int, selector: selectors.BaseSelector, journal: HostJournal, send: Send
    ) -> None:
        """Record in the journal first that whatever is started here must end."""
        self._bundle = bundle
        self._selector = selector
        self._journal = journal
        self._send = send
        self._entry = journal.record("processes", mark=journal.mark)
        self._processes: dict[int, RankProcess] = {}
        self._stops: dict[int, int] = {}
        """By slot, the journal's entry of a process that is stopped."""
        self._throttles: dict[int, CpuThrottle] = {}
        self._quotas: dict[int, tuple[int, CpuQuota]] = {}
        """By slot, the journal's entry of a quota, and the quota."""
        self._cgroups: dict[int, str] = {}
        """By the journal's entry, the cgroups that are not removed yet."""
        self._delays: dict[int, tuple[int, float]] = {}
        """By slot, the number and the instant of a request that its rank must answer itself."""
        self._last_heard: dict[int, float] = {}
        self._last_check = time.monotonic()
        self._silence_limit = 0.0
        self._missed: set[int] = set()
        self.observers = ProcessObservers(selector, send)

    def start(self, slot: int, environment: dict[str, str]) -> dict[str, Any]:
        """Start a rank's process; it then waits to be configured."""
        if slot in self._processes:
            raise ValueError(f"slot {slot} has a rank already")
        rank = RankProcess(slot, self._bundle, {**environment, MARK: self._journal.mark})
        self._processes[slot] = rank
        for source, react in (
            (rank.line, self._read_messages),
            (rank.errors, self._read_errors),
            (rank.life, self._report_exit),
        ):
            self._selector.register(source, selectors.EVENT_READ, lambda react=react: react(rank))
        return rank.facts()

    def send(self, slot: int, message: Message, grace: float) -> None:
        """Pass a message on; one that configures says how long a silence counts."""
        rank = self._rank(slot)
        if message["do"] == "configure":
            self._silence_limit = message["heartbeat"]
            self._last_heard[slot] = time.monotonic() + grace
        rank.send(message)

    def signal(self, slot: int, name: str, watched: str = "") -> dict[str, Any]:
        """Send a signal; return between which instants it took effect, and the state after it.

        A stop is recorded in the journal first, with SIGCONT as its undo.
        """
        rank = self._rank(slot)
        number = signal.Signals["SIG" + name]
        if number == signal.SIGSTOP and slot not in self._stops:
            entry = self._journal.record("stop", pid=rank.pid, born=start_time(rank.pid))
            self._stops[slot] = entry
        if watched:
            self.observers.start(slot, rank.pid, watched)
        before = time.monotonic()
        rank.signal(number)
        state = rank.state_after(number)
        after = time.monotonic()
        if number == signal.SIGCONT:
            self._end_stop(slot)
        return {"mono": [before, after], "state": state, "pid": rank.pid}

    def delay(self, slot: int, seconds: float, number: int) -> None:
        """Have a rank enter collectives late from now on; it answers request `number` itself.

        The answer says between which instants the delay took effect.
        """
        rank = self._rank(slot)
        self._delays[slot] = (number, time.monotonic())
        rank.send({"do": "straggle", "seconds": seconds})

    def slow(self, slot: int, share: float, period: float, *, quota: bool) -> None:
        """Let a rank run `share` of the time from now on, in turns of `period` seconds.

        By a CPU quota, or else by stopping and continuing it. A share of 1 ends both.
        """
        rank = self._rank(slot)
        if self._throttles.pop(slot, None):
            self.signal(slot, "CONT")
        self._end_quota(slot)
        if share < 1 and quota:
            self._set_quota(slot, rank.pid, share, period)
        elif share < 1:
            self.signal(slot, "STOP")
            self._throttles[slot] = CpuThrottle(rank.signal, share, period, time.monotonic())

    def work(self, now: float) -> None:
        """Stop and continue the throttled ranks for which it is time."""
        for throttle in self._throttles.values():
            throttle.work(now)

    def _set_quota(self, slot: int, pid: int, share: float, period: float) -> None:
        entry = self._journal.record("group", name=cgroup_of(pid))
        try:
            self._quotas[slot] = entry, CpuQuota(pid, share, period)
        except OSError:
            self._journal.mark_undone(entry)
            raise
        self._cgroups[entry] = cgroup_of(pid)

    def _end_quota(self, slot: int) -> None:
        """End a quota; `end_all` removes a cgroup in which something still runs."""
        if slot in self._quotas:
            entry, quota = self._quotas.pop(slot)
            with suppress(OSError):
                quota.end()
                self._journal.mark_undone(entry)
                del self._cgroups[entry]

    def end(self, slot: int) -> bool:
        """Kill a rank and tell whether it is provably gone; one that never ran here is."""
        rank = self._processes.pop(slot, None)
        return rank is None or self._release(rank)

    def end_all(self) -> list[str]:
        """Kill every rank and all that they started; return what is left."""
        self.observers.end_all()
        left = [
            f"the rank in slot {slot} survived"
            for slot, rank in self._processes.items()
            if not self._release(rank)
        ]
        self._processes.clear()
        mark = self._journal.mark
        survived = end_marked(mark, _END_LIMIT) + end_strays(mark.partition("/")[0], _END_LIMIT)
        left += [f"process {pid} survived" for pid in survived]
        for entry, name in list(self._cgroups.items()):
            try:
                remove_cgroup(name)
            except OSError as error:
                left.append(str(error))
            else:
                self._journal.mark_undone(entry)
                del self._cgroups[entry]
        if not left:
            self._journal.mark_undone(self._entry)
        return left

    def check_heartbeats(self) -> None:
        """Report once of each rank that it has been silent for too long.

        While the agent itself does not run (it waits for a processor, is stopped, or is busy with
        a request), beats may wait to be read: that time counts as no rank's silence.
        """
        now = time.monotonic()
        missing = max(0.0, now - self._last_check - _CHECK_PERIOD)
        self._last_check = now
        for slot, heard in self._last_heard.items():
            if heard < now:
                self._last_heard[slot] = heard = min(now, heard + missing)
            silence = now - heard
            if silence <= self._silence_limit:
                self._missed.discard(slot)
            elif slot in self._processes and slot not in self._missed:
                self._missed.add(slot)
                self._send_event("heartbeat-missed", slot=slot, silence=silence)

    def _rank(self, slot: int) -> RankProcess:
        if slot not in self._processes:
            raise ValueError(f"no rank runs in slot {slot}")
        return self._processes[slot]

    def _read_messages(self, rank: RankProcess) -> None:
        for message in rank.messages():
            if message["event"] == "ready":
                self._last_heard.pop(rank.slot, None)  # its start is over, and so is its grace
            heard = self._last_heard.get(rank.slot, 0.0)
            self._last_heard[rank.slot] = max(time.monotonic(), heard)
            if message["event"] != "alive":
                self._send({"event": "rank", "slot": rank.slot, "said": message})
            if message["event"] == "straggling" and rank.slot in self._delays:
                # Only now: the orchestrator has the rank's event before the answer.
                number, since = self._delays.pop(rank.slot)
                self._send({"re": number, "ok": {"mono": [since, message["mono"]]}})

    def _read_errors(self, rank: RankProcess) -> None:
        for line in rank.error_lines():
            self._send_event("log", slot=rank.slot, line=line)

    def _report_exit(self, rank: RankProcess) -> None:
        ended = time.monotonic()
        self._read_messages(rank)
        self._read_errors(rank)
        self._processes.pop(rank.slot, None)
        code = rank.exit_code()
        self._release(rank)
        self._send({"event": "exit", "mono": ended, "slot": rank.slot, "code": code})

    def _release(self, rank: RankProcess) -> bool:
        """End a rank and all that is kept about it; tell whether it is provably gone."""
        slot = rank.slot
        for descriptor in (rank.line, rank.errors, rank.life):
            self._selector.unregister(descriptor)
        self._last_heard.pop(slot, None)
        self._missed.discard(slot)
        self._throttles.pop(slot, None)
        if delayed := self._delays.pop(slot, None):
            self._send({"re": delayed[0], "error": f"no rank runs in slot {slot}"})
        gone = rank.end()
        self._end_quota(slot)
        if gone:
            self._end_stop(slot)
        return gone

    def _end_stop(self, slot: int) -> None:
        if slot in self._stops:
            self._journal.mark_undone(self._stops.pop(slot))

    def _send_event(self, event: str, **fields: Any) -> None:
        self._send({"event": event, "mono": time.monotonic(), **fields})
