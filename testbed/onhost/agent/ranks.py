"""The rank processes of one agent: started, monitored and ended, each in a slot of its host."""

from __future__ import annotations

import selectors
import signal
import time
from contextlib import suppress
from typing import Any, Callable

from ..frames import Message
from .checkpoints import Checkpoints
from .cpu_limits import CpuQuota, CpuThrottle, cgroup_of
from .journal import HostJournal
from .observer import ProcessObservers
from .preferred_routes import PreferredRoutes
from .processes import MARK, seconds_computed, start_time
from .rank_process import RankProcess

_CHECK_PERIOD = 0.05
"""Seconds between two checks of the heartbeats, at most, while the agent runs as it should."""

_THROTTLE_PERIOD = 0.005
"""Seconds between two looks whether a throttled rank is to be stopped or continued."""

_LATER = 0.0005
"""Seconds after the limit of a rank at which it is looked whether it was too silent."""

Send = Callable[[Message], None]
"""Sends one message to the orchestrator."""


class Ranks:
    """At most one rank process per slot; their events are sent to the orchestrator."""

    def __init__(
        self, bundle: int, selector: selectors.BaseSelector, journal: HostJournal, send: Send
    ) -> None:
        """Record in the journal first that whatever is started here must end."""
        self._bundle = bundle
        self._selector = selector
        self.journal = journal
        self._send = send
        journal.record("processes", mark=journal.mark)
        self._checkpoints = Checkpoints(journal)
        self.routes = PreferredRoutes(journal)
        self._processes: dict[int, RankProcess] = {}
        self._last_check = time.monotonic()
        self._silence_limit = 0.0
        self.observers = ProcessObservers(selector, send)

    def start(self, slot: int, environment: dict[str, str]) -> dict[str, Any]:
        """Start a rank's process, which then waits for its configuration."""
        if slot in self._processes:
            raise ValueError(f"slot {slot} has a rank already")
        rank = RankProcess(slot, self._bundle, {**environment, MARK: self.journal.mark})
        self._processes[slot] = rank
        for source, react in (
            (rank.line, self._read_messages),
            (rank.errors, self._read_errors),
            (rank.pidfd, self._report_exit),
        ):
            self._selector.register(source, selectors.EVENT_READ, lambda react=react: react(rank))
        return {"slot": slot, "pid": rank.pid}

    def send(self, slot: int, message: Message, grace: float) -> None:
        """Send a message to a rank; the message `configure` sets the heartbeat limit."""
        rank = self._rank(slot)
        if message["do"] == "configure":
            self._silence_limit = message["heartbeat"]
            rank.last_heard = time.monotonic() + grace
            message = self._checkpoints.placed(slot, message)
        rank.send(message)

    def signal(self, slot: int, name: str, watched: str = "") -> dict[str, Any]:
        """Send a signal; return the interval in which it took effect, and the state after it.

        A stop is recorded in the journal first, with SIGCONT as its undo.
        """
        rank = self._rank(slot)
        number = signal.Signals["SIG" + name]
        if number == signal.SIGSTOP and rank.stop is None:
            rank.stop = self.journal.record("stop", pid=rank.pid, born=start_time(rank.pid))
        if watched:
            self.observers.start(slot, rank.pid, watched)
        before = time.monotonic()
        rank.signal(number)
        state = rank.state_after(number)
        after = time.monotonic()
        if number == signal.SIGCONT:
            self._end_stop(rank)
        return {"mono": [before, after], "state": state, "pid": rank.pid}

    def delay(self, slot: int, seconds: float, number: int) -> None:
        """Delay a rank before every collective from now on; the rank answers request `number`.

        The answer has the interval in which the delay took effect.
        """
        rank = self._rank(slot)
        rank.delay = (number, time.monotonic())
        rank.send({"do": "straggle", "seconds": seconds})

    def slow(self, slot: int, share: float, period: float, *, quota: bool) -> None:
        """Limit a rank to `share` of the CPU time from now on, in cycles of `period` seconds.

        The limit is a CPU quota, or else the process is stopped and continued. A share of 1 removes
        it.
        """
        rank = self._rank(slot)
        if rank.throttle:
            rank.throttle = None
            self.signal(slot, "CONT")
        self._end_quota(rank)
        if share < 1 and quota:
            self._set_quota(rank, share, period)
        elif share < 1:
            self.signal(slot, "STOP")
            rank.throttle = CpuThrottle(rank.signal, share, period, time.monotonic())

    def due_within(self, now: float) -> float:
        """Return after how many seconds a rank may have been silent for too long, or is throttled.

        At most half the period of the checks.
        """
        if any(rank.throttle for rank in self._processes.values()):
            return _THROTTLE_PERIOD
        ranks = self._processes.values()
        heard = (one.last_heard for one in ranks if not one.is_missed and one.computed is None)
        left = (last + self._silence_limit - now for last in heard if last)
        return min(_CHECK_PERIOD / 2, max(0.0, min(left, default=1.0)) + _LATER)

    def work(self, now: float) -> None:
        """Stop and continue those throttled ranks for which it is time."""
        for rank in self._processes.values():
            if rank.throttle:
                rank.throttle.work(now)

    def _set_quota(self, rank: RankProcess, share: float, period: float) -> None:
        entry = self.journal.record("group", name=cgroup_of(rank.pid))
        try:
            rank.quota = entry, CpuQuota(rank.pid, share, period)
        except OSError:
            self.journal.mark_undone(entry)
            raise

    def _end_quota(self, rank: RankProcess) -> None:
        """End a quota; a cgroup in which something still runs stays in the journal."""
        if rank.quota:
            (entry, quota), rank.quota = rank.quota, None
            with suppress(OSError):
                quota.end()
                self.journal.mark_undone(entry)

    def end(self, slot: int) -> bool:
        """Kill a rank; return whether it is gone, which is true if it never ran here."""
        rank = self._processes.pop(slot, None)
        return rank is None or self._release(rank)

    def end_all(self) -> list[str]:
        """Kill every rank; return the survivors. The journal covers the processes they started."""
        self.observers.end_all()
        left = [
            f"the rank in slot {slot} survived"
            for slot, rank in self._processes.items()
            if not self._release(rank)
        ]
        self._processes.clear()
        return left

    def check_heartbeats(self) -> None:
        """Report each rank once that has been silent for longer than its limit.

        While the agent itself does not run (it waits for a processor, is stopped, or is busy with a
        request), heartbeats may wait to be read: that time does not count as silence. Neither does
        that in which the rank waits for a processor.
        """
        now = time.monotonic()
        missing = max(0.0, now - self._last_check - _CHECK_PERIOD)
        self._last_check = now
        for slot, rank in self._processes.items():
            if not rank.last_heard:
                continue
            if rank.last_heard < now:
                rank.last_heard = min(now, rank.last_heard + missing)
            silence = now - rank.last_heard
            if silence <= self._silence_limit:
                rank.is_missed, rank.computed = False, None
            elif not rank.is_missed and not self._waits_for_processor(rank):
                self._read_messages(rank)  # it may have been given a processor since the last look
                if rank.last_heard < now - self._silence_limit:
                    rank.is_missed = True
                    self._send_event("heartbeat-missed", slot=slot, silence=silence)

    def _waits_for_processor(self, rank: RankProcess) -> bool:
        """Tell whether a silent rank is runnable, but has had less processor time than its limit.

        That counts from the first call of this silence. A rank that had more, and sent no heartbeat
        with it, hangs.
        """
        computed = seconds_computed(rank.pid)
        if computed is None:
            return False
        if rank.computed is None:
            rank.computed = computed
        return computed - rank.computed < self._silence_limit

    def _rank(self, slot: int) -> RankProcess:
        if slot not in self._processes:
            raise ValueError(f"no rank runs in slot {slot}")
        return self._processes[slot]

    def _read_messages(self, rank: RankProcess) -> None:
        for message in rank.messages():
            is_ready = message["event"] == "ready"
            if is_ready:
                rank.last_heard = 0.0  # its start is over, and so is its grace
            if is_ready or rank.last_heard:  # before `configure` no silence counts
                rank.last_heard = max(time.monotonic(), rank.last_heard)
            if message["event"] == "prefer-routes":
                self._prefer(rank, message)
            elif message["event"] != "alive":
                self._send({"event": "rank", "slot": rank.slot, "said": message})
            if message["event"] == "straggling" and rank.delay:
                # Only now: the orchestrator has the rank's event before the answer.
                (number, since), rank.delay = rank.delay, None
                self._send({"re": number, "ok": {"mono": [since, message["mono"]]}})

    def _prefer(self, rank: RankProcess, message: Message) -> None:
        """Set the routes that a rank prefers, and tell it so, or why not."""
        why = ""
        try:
            self.routes.prefer(rank.slot, message["routes"])
        except OSError as error:
            why = str(error)
        rank.send({"do": "preferred", "generation": message["generation"], "why": why})

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
        for descriptor in (rank.line, rank.errors, rank.pidfd):
            self._selector.unregister(descriptor)
        if rank.delay:
            self._send({"re": rank.delay[0], "error": f"no rank runs in slot {rank.slot}"})
        gone = rank.end()
        self.routes.end(rank.slot)
        self._end_quota(rank)
        if gone:
            self._end_stop(rank)
        return gone

    def _end_stop(self, rank: RankProcess) -> None:
        if rank.stop is not None:
            self.journal.mark_undone(rank.stop)
            rank.stop = None

    def _send_event(self, event: str, **fields: Any) -> None:
        self._send({"event": event, "mono": time.monotonic(), **fields})
