"""The faults `rank-kill` and `rank-freeze`: one process dies, or stops without dying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.errors import HostError
from testbed.faults.words import Injected, Undo, Victim


class RankKill:
    """Kill the victim's process with SIGKILL; its kernel closes its connections."""

    def __init__(self, options: Any) -> None:
        """Take no options."""

    def promise(self, bench: Bench, victim: Victim) -> Undo | None:
        """Promise nothing: what is left of a killed process is nothing."""
        return None

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Kill the process."""
        return _signal(bench, victim, "KILL", "ZX", deadline)

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Accept a neighbour that saw its connection break, or the kernel's report of the end."""
        if message.get("event") == "exit" and (host, message["slot"]) == (victim.host, victim.slot):
            return f"{host} process exit"
        said = message.get("said", {})
        is_neighbour = host in victim.neighbours and said.get("event") == "peer-lost"
        return f"{host} connection" if is_neighbour else ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Do nothing; a killed process stays dead."""


class RankFreeze:
    """Stop the victim's process with SIGSTOP; its sockets stay open, it just says nothing."""

    def __init__(self, options: Any) -> None:
        """Take no options."""

    def promise(self, bench: Bench, victim: Victim) -> Undo:
        """Return the process to let go on."""
        return Undo("rank-stopped", {"host": victim.host, "slot": victim.slot})

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Stop the process."""
        return _signal(bench, victim, "STOP", "T", deadline)

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Accept the silence of the victim's heartbeat."""
        silent = message.get("event") == "heartbeat-missed" and host == victim.host
        return f"{host} heartbeat" if silent and message["slot"] == victim.slot else ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Let the process go on; one that was fenced in the meantime needs nothing."""
        host = bench.hosts.get(victim.host)
        if host is None:
            return  # its agent was given up, and has ended its ranks
        try:
            host.signal_rank(victim.slot, "CONT", deadline)
        except HostError as error:
            if "no rank runs" not in str(error):
                raise


def _signal(bench: Bench, victim: Victim, name: str, wanted: str, deadline: Deadline) -> Injected:
    stopped = bench.hosts[victim.host].signal_rank(victim.slot, name, deadline)
    note = f"SIG{name} to rank {victim.rank} on {victim.host}, then state {stopped.state}"
    if stopped.state not in wanted:
        raise HostError(victim.host, f"a signal did nothing: {note}", hint="look at the process")
    return Injected(stopped.sent, stopped.done, clock=victim.host, note=note)
