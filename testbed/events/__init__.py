"""The events of a run; its event log is the only source of all results.

An event is stamped with the orchestrator's clock when it is written. An event that happened on a
host also carries that host's own time stamp as `data["host"]` and `data["mono"]`, which the
analysis converts to the orchestrator's clock with the `clock.offset` events around it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.files import parse_json

KINDS: dict[str, str] = {
    "run.begin": "a run starts; label, seed, versions, the monotonic `clock` that `t` counts from",
    "run.end": "a run is over; outcome, clean-up verdict, reason",
    "phase": "the life cycle enters a phase: prepare, baseline, trials, restore",
    "wiring.port": "what was found of one host port's fibres: found, lossy, swapped or dark",
    "note": "something a reader of the record should know",
    "load": "share of this machine's processor time that other programs took during a trial",
    "settings": "what a trial's numbers rest on: settle, loss_of_signal, link_up, heartbeat, rate",
    "health": "something is not as it should be before a run: what, and what to do about it",
    "retry": "something that failed was tried once more: what, and how it had failed",
    "lease.wait": "a resource that the run needs is leased to another: who, since when, why",
    "lease.taken": "all that the run needs is leased to it: its ports, hosts and outlets",
    "lease.regained": "what was lost of that is leased to it again; others may have used it since",
    "instrument.ready": "an instrument is open and identified",
    "host.ready": "a host's agent answers and its preflight passed",
    "host.lost": "the link to a host's agent ended",
    "clock.offset": "one host's clock against the orchestrator's: offset and error bound",
    "fabric.change": "cross-connects were removed and added; when commanded, read back, verified",
    "fabric.failed": "a change failed; why, and whether all of it was rolled back",
    "light.excess": "a receiver got more light than it withstands, as measured; its circuit goes",
    "receiver.destroyed": "a receiver of the twin got more light than it withstands, and is dark",
    "circuits.asked": "a rank is through with a round and asks for the circuits of the next",
    "circuits.lit": "they are made and proved, and the ranks told so; how long that took",
    "link.good": "light and link are back on a circuit and both identities were verified",
    "link.probe": "delivered rate of one circuit: long messages, and short ones after a pause",
    "prediction": "what the model expects of a trial; the last one about each value counts",
    "trial.begin": "a trial starts: variant, victim, planned instant of the fault",
    "trial.end": "a trial is over: valid, recovered (the job was well), response, reason",
    "fault.inject": "a fault was fired; data holds the interval [sent, done]",
    "fault.receipt": "an observer other than the injector saw the fault",
    "fault.undo": "a fault was undone and the undo verified",
    "far-end.fault": "a fault was armed on a simulated instrument",
    "far-end.clear": "the fault was cleared; how often it took effect",
    "symptom": "a symptom of a failure was observed: carrier, heartbeat, exit, peer, channel",
    "recovery.decided": "the policy decided what failed and what replaces it",
    "recovery.fenced": "the victim can no longer take part",
    "recovery.failed": "the policy gave up, with the reason",
    "collective.chosen": "which AllReduce suits the job now, and why; ranks are told of a new one",
    "rank.ready": "a rank's process is up and its imports are done",
    "rank.left": "a rank left the broken generation, with the last step it committed",
    "rank.exit": "a rank's process ended",
    "generation": "a rank has connected to both neighbours in a new generation",
    "state.restored": "a rank holds the agreed step's state",
    "step": "a rank finished a step: verified values, loss, digest",
    "sample": "one timed collective of one size on one rank, with verified values",
    "model": "what a model says of a trial in which nothing is run, metric by metric",
    "program.begin": "a rank has started an ordinary program; its command line",
    "program.end": "it ended: exit code, negative for a signal; bytes left out of its output",
    "reading": "a metric was read from what programs printed: value, unit, which way is better",
    "job.done": "the job ended on its own; final digest",
    "cleanup.begin": "one undo starts",
    "cleanup.end": "one undo ended, verified or not",
    "recover.begin": "a run that is over is taken back: the open undos of its journal",
    "recover.end": "that is over too; what is still changed, and the exit code",
}
"""Every kind of event and what it says; the log refuses others."""

NAMES = frozenset(
    [
        "algorithm",
        "better",
        "circuits",
        "host",
        "lab",
        "label",
        "replacement",
        "run",
        "source",
        "unit",
    ]
)
"""Fields whose values are names that the analysis compares, in the open in the run's other files.

They are never masked: a password that equals a host's name would cost the analysis that host.
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the log: its time, kind, subject, trial and data.

    `t` is seconds since the run began on the orchestrator's monotonic clock; `subject` names what
    it is about (a host, a port, a rank, a switch); `trial` is the trial's number or None.
    """

    seq: int
    t: float
    kind: str
    subject: str = ""
    trial: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the event as one line of JSON."""
        row: dict[str, Any] = {
            "seq": self.seq,
            "t": round(self.t, 6),
            "kind": self.kind,
            "subject": self.subject,
        }
        if self.trial is not None:
            row["trial"] = self.trial
        row["data"] = dict(self.data)
        try:
            return json.dumps(row, ensure_ascii=False, allow_nan=False)
        except ValueError:  # a loss that grew beyond all numbers, which JSON cannot hold
            return json.dumps(_finite(row), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> Event:
        """Return the event in a line that `to_json` wrote; raise ValueError for any other line."""
        row = parse_json(line)
        if not isinstance(row, dict) or not all(fits(row.get(k)) for k, fits in _FIELDS.items()):
            raise ValueError(f"not an event: {line[:80]!r}")
        return cls(
            row["seq"], float(row["t"]), row["kind"], row["subject"], row.get("trial"), row["data"]
        )


def _finite(value: Any) -> Any:
    """Return plain data with None for what is no finite number."""
    if isinstance(value, Mapping):
        return {key: _finite(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_LONGEST = 1e10
"""Seconds that a run may take, and the number of its events: more is no record of one."""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LONGEST


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "seq": _is_whole,
    "t": lambda value: _is_whole(value) or (isinstance(value, float) and abs(value) <= _LONGEST),
    "kind": lambda value: isinstance(value, str),
    "subject": lambda value: isinstance(value, str),
    "trial": lambda value: value is None or _is_whole(value),
    "data": lambda value: isinstance(value, dict),
}


Subscriber = Callable[[Event], None]
