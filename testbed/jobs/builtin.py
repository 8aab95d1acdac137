"""The jobs `train` and `allreduce`, as the orchestrator sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.collectives.catalogue import all_reduce
from testbed.collectives.schedule import to_json
from testbed.jobs.cards import AllReduceOptions, TrainOptions

_MODEL = ("dim", "layers", "heads", "hidden", "sequence", "batch", "learning_rate")


class Train:
    """Train until the last step, or until the run ends."""

    def __init__(self, options: TrainOptions) -> None:
        self._options = options
        self.ranks = options.ranks
        self.spares = options.spares
        self.topology = options.topology if options.collective == "ring" else "all"
        self.last_step = None if options.steps is None else options.steps - 1
        self.endless = options.steps is None

    def for_rank(self) -> Mapping[str, Any]:
        """Return the model, its batches, and a schedule unless the ranks' own ring sums."""
        options = self._options
        told = {key: getattr(options, key) for key in _MODEL}
        if options.collective != "ring":
            schedule = all_reduce(options.collective, options.ranks, options.straggler)
            told["schedule"] = to_json(schedule)
        return {"kind": "train", "options": told}


class AllReduce:
    """Run through all sizes and end."""

    def __init__(self, options: AllReduceOptions) -> None:
        self._options = options
        self.ranks = options.ranks
        self.spares = options.spares
        self.topology = options.topology
        self.last_step = None
        self.endless = False

    def for_rank(self) -> Mapping[str, Any]:
        """Return the sizes and how often each is run."""
        options = self._options
        return {
            "kind": "allreduce",
            "options": {
                "sizes": list(options.sizes),
                "iterations": options.iterations,
                "warmup": options.warmup,
            },
        }
