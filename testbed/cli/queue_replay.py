"""What other policies would have made of the history of a lab's queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testbed.errors import UsageError
from testbed.record.queue_entry import QueueEntry
from testbed.record.queue_rules import experiments
from testbed.tenancy.lab_orders import lab_policy, policy_names
from testbed.tenancy.lab_replay import Figures, figures, replay
from testbed.units import lasting

_SHOWN = 10
"""Experiments whose waits changed most, of a single policy."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A history, and when its experiments would have started under each policy."""

    history: Mapping[str, QueueEntry]
    happened: Figures
    figures: Mapping[str, Figures]
    starts: Mapping[str, Mapping[str, float]]

    def to_json(self) -> dict[str, Any]:
        """Return all of it: waits in seconds, those that happened as measured, others as model."""
        waits = {
            policy: {t[:6]: round(at - self.history[t].entered, 3) for t, at in starts.items()}
            for policy, starts in self.starts.items()
        }
        return {
            "experiments": len(self.history),
            "happened": _rounded(self.happened),
            "label": "model",
            "policies": {name: _rounded(found) for name, found in self.figures.items()},
            "waits": waits,
        }


def _rounded(found: Figures) -> dict[str, float]:
    return {name: round(value, 3) for name, value in asdict(found).items()}


def replayed(history: Sequence[QueueEntry], policies: Sequence[str]) -> Replayed:
    """Replay a history under some policies, all by default; raise UsageError if there is none."""
    ran = experiments(history)
    if not ran:
        raise UsageError("no experiment of this queue has ended yet", hint="run some with --queue")
    names = policies or policy_names()
    known = {one.token: one for one in history}
    happened = {one.entry.name: known[one.entry.name].started or 0.0 for one in ran}
    starts = {name: replay(ran, lab_policy(name)) for name in names}
    found = {name: figures(ran, begun) for name, begun in starts.items()}
    kept = {one.entry.name: known[one.entry.name] for one in ran}
    return Replayed(kept, figures(ran, happened), found, {"happened": happened, **starts})


def print_replay(found: Replayed) -> None:
    """Print the figures of each policy beside what happened; of a single policy who is concerned.

    Durations are what they were, and so are arrivals: what they might have been is not known.
    """
    print(f"{len(found.history)} experiments; what happened is measured, the rest is a model")
    print(f"{'':18}{'makespan':>12}{'mean wait':>12}{'median':>12}{'longest':>12}")
    for name, row in {"happened": found.happened, **found.figures}.items():
        values = (row.makespan, row.mean_wait, row.median_wait, row.longest_wait)
        print(f"{name:18}" + "".join(f"{lasting(value):>12}" for value in values))
    if len(found.figures) == 1:
        _print_changes(found, *found.figures)


def _print_changes(found: Replayed, policy: str) -> None:
    before, after = found.starts["happened"], found.starts[policy]
    changed = sorted(before, key=lambda token: -abs(after[token] - before[token]))
    for token in changed[:_SHOWN]:
        entry = found.history[token]
        was, would = (lasting(starts[token] - entry.entered) for starts in (before, after))
        if was != would:
            print(f"{entry}: waited {was}, would have waited {would}")
