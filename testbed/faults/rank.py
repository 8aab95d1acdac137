"""The faults `rank-kill` and `rank-freeze`: one rank's process is killed, or stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.errors import HostError
from testbed.faults.contracts import Injected, OptionlessFault, Undo, Victim, undo_on_rank

_WITNESS_LIMIT = 1.0


class RankKill(OptionlessFault):
    """Kill the victim's process with SIGKILL; its kernel closes its connections.

    There is no undo, since a killed process cannot be restored.
    """

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Kill the victim's process."""
        return _signal(bench, victim, "KILL", "ZX", deadline)

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Accept a report of a neighbour that its connection to the victim broke."""
        said = message.get("said", {})
        is_neighbour = host in victim.neighbours and said.get("event") == "peer-lost"
        return f"{host} connection" if is_neighbour else ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Do nothing, since a killed process cannot be restored."""


class RankFreeze(OptionlessFault):
    """Stop the victim's process with SIGSTOP; its sockets stay open, and it sends nothing."""

    def undo_entry(self, bench: Bench, victim: Victim) -> Undo:
        """Return the undo entry that continues the victim's process."""
        return Undo("rank-stopped", {"host": victim.host, "slot": victim.slot})

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Stop the victim's process."""
        return _signal(bench, victim, "STOP", "T", deadline)

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Accept no report of agents: the observer process on the host is queried instead."""
        return ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Continue the process; do nothing for a process that was fenced in the meantime."""
        undo_on_rank(bench, victim, lambda host: host.signal_rank(victim.slot, "CONT", deadline))


def _signal(bench: Bench, victim: Victim, name: str, wanted: str, deadline: Deadline) -> Injected:
    """Send a signal to the victim's process, with another process there that watches it.

    The agent that sends it does not count as a witness: it has caused the ends and
    missed heartbeats that it reports. The other process reads the state from the kernel.
    """
    host = bench.hosts[victim.host]
    stopped = host.signal_rank(victim.slot, name, deadline, watched=wanted)
    note = f"SIG{name} to rank {victim.rank} on {victim.host}, then state {stopped.state}"
    if stopped.state not in wanted:
        raise HostError(
            victim.host,
            f"the signal had no effect on the process: {note}",
            hint="check the process on the host",
        )
    injected = Injected(stopped.sent, stopped.done, clock=victim.host, note=note)
    try:
        seen, state = host.witness(victim.slot, deadline.within(_WITNESS_LIMIT))
    except HostError:
        return injected  # and who else saw it decides whether it counts
    return replace(injected, witness=f"{victim.host} process in state {state}", seen=seen)
