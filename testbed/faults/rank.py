"""The faults `rank-kill` and `rank-freeze`: one process dies, or stops without dying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.errors import HostError
from testbed.faults.contracts import Injected, Undo, Victim

_WITNESS_LIMIT = 1.0


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
        """Accept a neighbour that saw its connection break."""
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
        """Accept nothing that agents report: the witness on the host is asked at once."""
        return ""

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
    """Send a signal to the victim's process, with another process there that watches it.

    The agent that sends it is no witness. It reports ends and missed heartbeats of its ranks, but
    it has caused them; what the other process sees is what the kernel says.
    """
    host = bench.hosts[victim.host]
    stopped = host.signal_rank(victim.slot, name, deadline, watched=wanted)
    note = f"SIG{name} to rank {victim.rank} on {victim.host}, then state {stopped.state}"
    if stopped.state not in wanted:
        raise HostError(victim.host, f"a signal did nothing: {note}", hint="look at the process")
    injected = Injected(stopped.sent, stopped.done, clock=victim.host, note=note)
    try:
        seen, state = host.witness(victim.slot, deadline.within(_WITNESS_LIMIT))
    except HostError:
        return injected  # and who else saw it decides whether it counts
    return replace(injected, witness=f"{victim.host} process in state {state}", seen=seen)
