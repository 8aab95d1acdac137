"""The fault `straggler`: a rank is late to every collective, by a known time or share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline, now
from testbed.faults.contracts import Fault, Injected, Undo, Victim, undo_on_rank
from testbed.faults.descriptors import StragglerOptions

_SEEN = 0.5
"""Share of the dose that another rank must have waited, or been earlier by, to be a witness."""

_STEPS = 4
"""Steps whose arrivals are kept: ranks may report a step while others report the next."""


class Straggler(Fault):
    """Slow the victim's rank down, without breaking anything."""

    def __init__(self, options: StragglerOptions) -> None:
        self._options = options
        self._arrivals: dict[int, dict[str, float]] = {}

    @property
    def late(self) -> float | None:
        """Return by how many seconds the victim is late; None where that varies."""
        return self._options.delay if self._options.how == "sleep" else None

    def undo_entry(self, bench: Bench, victim: Victim) -> Undo:
        """Return the undo entry that restores the speed of the victim's rank."""
        return Undo("rank-slowed", {"host": victim.host, "slot": victim.slot})

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Slow the rank down. Raise HostError where the host does not permit it."""
        options, host = self._options, bench.hosts[victim.host]
        if options.how == "sleep":
            note = f"rank {victim.rank} sleeps {options.delay:g} s before each collective"
            began, done = host.delay_rank(victim.slot, options.delay, deadline)
            return Injected(began, done, clock=victim.host, note=note)
        quota, sent = options.how == "quota", now()
        host.slow_rank(victim.slot, options.share, options.period, deadline, quota=quota)
        means = "a CPU quota" if quota else "SIGSTOP and SIGCONT in turn"
        note = f"rank {victim.rank} runs {options.share:.0%} of the time, by {means}"
        return Injected(sent, now(), note=note)

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Accept another rank's report that it waited for the victim, or arrived before it.

        With StragglAR perhaps no rank waits: the rounds without the victim may take as long as its
        delay.
        """
        said = message.get("said", {})
        if "arrived" in message:
            self._arrivals.setdefault(said["step"], {})[host] = message["arrived"]
            self._arrivals = dict(sorted(self._arrivals.items())[-_STEPS:])
        if host == victim.host:
            return ""
        waited = said.get("waits", {}).get(str(victim.rank), 0.0)
        if waited >= _SEEN * self._options.dose:
            return f"{host} waited {waited:.3f} s"
        both = (at for at in self._arrivals.values() if {host, victim.host} <= at.keys())
        gap = max((at[victim.host] - at[host] for at in both), default=0.0)
        return f"{host} came {gap:.3f} s earlier" if gap >= _SEEN * self._options.dose else ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Let the rank run at full speed; do nothing for a rank that has ended."""
        slot, options = victim.slot, self._options
        if options.how == "sleep":
            undo_on_rank(bench, victim, lambda host: host.delay_rank(slot, 0.0, deadline))
        else:
            period = options.period
            undo_on_rank(bench, victim, lambda host: host.slow_rank(slot, 1.0, period, deadline))
