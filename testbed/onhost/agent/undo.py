"""Undo changes of an agent, by the agent itself or by the next one on the host.

Every undo is idempotent, verifies its result, and returns a sentence about what is still changed.
"""

from __future__ import annotations

import signal
import time
from typing import Any, Callable

from . import checkpoints
from .cpu_limits import remove_cgroup
from .journal import HostJournal, OrphanedJournal, orphaned_journals
from .network import Change, await_others, revert
from .processes import end_marked, send, start_time

_LIMIT = 5.0
_PAUSE = 0.01
_SHARED = "checkpoints"
"""The undo of what other hosts may go on with."""


def undo_network(entry: dict[str, Any]) -> str:
    """Remove addresses, routes and neighbours, and set ports down that were brought up."""
    changes = [Change(*change) for change in entry["changes"]]
    sudo = entry.get("sudo", True)  # earlier versions always used it, and did not record it
    return ", ".join(map(str, revert(changes, sudo=sudo)))


def undo_processes(entry: dict[str, Any]) -> str:
    """Kill the ranks and all processes that they started."""
    left = end_marked(entry["mark"], _LIMIT)
    return f"processes {', '.join(map(str, left))} survived SIGKILL" if left else ""


def undo_stop(entry: dict[str, Any]) -> str:
    """Continue a stopped process, if it still exists."""
    if start_time(entry["pid"]) == entry["born"]:
        send(entry["pid"], signal.SIGCONT)
    return ""


def undo_cgroup(entry: dict[str, Any]) -> str:
    """Remove the cgroup of a CPU quota, once its process has ended."""
    end = time.monotonic() + _LIMIT
    while True:
        try:
            remove_cgroup(entry["name"])
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        else:
            return ""


def undo_checkpoints(entry: dict[str, Any]) -> str:
    """Remove the checkpoints of a run on a file system that hosts share."""
    return checkpoints.remove_shared(entry["directory"])


_UNDO: dict[str, Callable[[dict[str, Any]], str]] = {
    "network": undo_network,
    "processes": undo_processes,
    "stop": undo_stop,
    "group": undo_cgroup,
    _SHARED: undo_checkpoints,
}


def undo(entry: dict[str, Any]) -> str:
    """Carry out one undo entry; return what is still changed, or an empty string."""
    if entry["undo"] not in _UNDO:
        return f"this version of testbed cannot undo {entry['undo']!r}"
    try:
        return _UNDO[entry["undo"]](entry)
    except OSError as error:
        return str(error)


def undo_orphaned_journals(run: str, host: str) -> list[dict[str, Any]]:
    """Undo the changes of dead agents on this host; return their entries and what remains.

    Without a `run` nothing is undone. Checkpoints of the same run and host stay.
    """
    return [
        _finish(journal, act=bool(run), go_on=(journal.run, journal.host) == (run, host))
        for journal in orphaned_journals(run, host)
    ]


def undo_journal(journal: HostJournal, *, is_told: bool) -> list[str]:
    """Undo the open entries of this agent's journal; return what is still changed.

    What other hosts may go on with is undone where the orchestrator has told the agent to end.
    """
    left = []
    for entry in _in_order(journal.entries()):
        if entry["undo"] == _SHARED and not is_told:
            continue
        if problem := undo(entry):
            left.append(problem)
        else:
            journal.mark_undone(entry["id"])
    if problem := checkpoints.remove(journal.run, journal.host):
        left.append(problem)
    return left


def _in_order(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # What runs is ended first: no group can be removed in which something runs.
    return sorted(entries, key=lambda entry: entry["undo"] != "processes")


def _undo_orphaned(entries: list[dict[str, Any]]) -> list[str]:
    """Undo what a dead agent recorded; return what is left.

    Only the network is left alone until every `ip` on this host has ended.
    """
    first = next((entry for entry in entries if entry["undo"] == "network"), None)
    left = []
    for entry in entries:
        if entry is first:
            await_others(_LIMIT)
        if problem := undo(entry):
            left.append(problem)
    return left


def _finish(journal: OrphanedJournal, *, act: bool, go_on: bool) -> dict[str, Any]:
    """Undo what an agent left; the checkpoints of a run that is to `go_on` are not left over.

    `kept` are the undos of those that hosts share, for the journal of the agent that goes on.
    """
    entries = _in_order(journal.entries())
    kept = [entry for entry in entries if go_on and entry["undo"] == _SHARED]
    entries = [entry for entry in entries if entry not in kept]
    recorded = [entry["undo"] for entry in entries]
    has_checkpoints = not go_on and checkpoints.exist(journal.run, journal.host)
    if has_checkpoints:
        recorded.append("checkpoints")
    left = _undo_orphaned(entries) if act else []
    if act and has_checkpoints and (problem := checkpoints.remove(journal.run, journal.host)):
        left.append(problem)
    if act and not left:
        journal.discard()
    else:
        journal.release()
    about = {"run": journal.run, "host": journal.host, "recorded": recorded, "left": left}
    return {**about, "kept": [{k: v for k, v in one.items() if k != "id"} for one in kept]}
