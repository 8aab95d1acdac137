"""The orchestrator's side of the job `hybrid`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from testbed.jobs.contracts import Job
from testbed.jobs.hybrid_descriptors import HybridOptions
from testbed.rails import hybrid as pipeline

_FOR_RANKS = ("micro_batches", "dim", "layers", "heads", "hidden", "sequence", "batch", "experts")

REPLICAS = "dp"
"""The dimension along which ranks hold the same state."""

SUMMED = (REPLICAS, "tp")
"""The dimensions along which ranks sum in a ring; along `pp` they send to each other."""

PIPELINE = "pp"

EXCHANGED = "ep"
"""The dimension along which ranks exchange in pairs, one matching after the other."""


class Hybrid(Job):
    """Training of a model that is split over a mesh, until the last step or the end of the run."""

    topology = None

    def __init__(self, options: HybridOptions) -> None:
        self._options = options
        self.ranks, self.spares = options.ranks, options.spares
        self.last_step = None if options.steps is None else options.steps - 1
        self.endless = options.steps is None

    def on_circuits(self) -> Job:
        """Return the job with its groups on rails."""
        return HybridOnRails(self._options)

    def for_rank(self) -> Mapping[str, Any]:
        """Return the model, all groups of the mesh, and what each pipeline stage computes."""
        from testbed.collectives.exchanges import matchings
        from testbed.collectives.groups import groups
        from testbed.collectives.rings import ring
        from testbed.collectives.schedule import to_json

        given = self._options
        mesh, stages = given.mesh, given.mesh.get("pp", 1)
        # Its times do not change the order.
        timeless = pipeline.Hybrid(stages, 1, given.micro_batches, 0.0, 0.0, 0.0, 0.0, given.order)
        told = {
            **{name: getattr(given, name) for name in (*_FOR_RANKS, "learning_rate")},
            "pace": None if given.pace is None else asdict(given.pace),
            "groups": {name: list(map(list, found)) for name, found in groups(mesh).items()},
            "schedules": {
                name: to_json(ring(ranks))
                for name, ranks in mesh.items()
                if name in SUMMED and ranks > 1
            },
            "matchings": {
                name: [list(map(list, pairs)) for pairs in matchings(ranks)]
                for name, ranks in mesh.items()
                if name == EXCHANGED and ranks > 1
            },
            "actions": [
                [list(action) for action in pipeline.order_of(timeless, stage)]
                for stage in range(stages)
            ],
        }
        checkpoint = {"checkpoint": asdict(given.checkpoint)} if given.checkpoint else {}
        return {"kind": "hybrid", "options": told, **checkpoint}


class HybridOnRails(Hybrid):
    """The same training, with circuits that follow the stages of its groups on each rail."""

    controllers = ("rails",)

    def __init__(self, options: HybridOptions) -> None:
        """Refuse experts on the rail of a pipeline; ValueError."""
        from testbed.collectives.exchanges import matchings_of
        from testbed.collectives.groups import groups, named

        super().__init__(options)
        if min(options.mesh.get(name, 1) for name in (PIPELINE, EXCHANGED)) > 1:
            raise ValueError(
                "on rails neighbours in a pipeline must agree where a stage of it ends, and with "
                "exchanges between experts in the midst of it they do not: leave out `pp` or `ep`, "
                "or use a lab with a packet switch"
            )
        every = groups(options.mesh)
        self.groups = named(every)
        self.matchings = {
            name: matchings_of(ranks)
            for name, ranks in self.groups.items()
            if name.startswith(EXCHANGED) and len(ranks) > 1
        }
        self.replicas = every.get(REPLICAS, ())
