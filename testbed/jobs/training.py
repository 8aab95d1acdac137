"""The orchestrator's side of the jobs `train` and `allreduce`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from testbed.analysis.metric_definitions import size_name
from testbed.collectives.algorithms import ALL_REDUCES, REFERENCE, UNKNOWN
from testbed.fabric.topologies import RING
from testbed.jobs.contracts import Job
from testbed.jobs.descriptors import AllReduceOptions, TrainOptions

if TYPE_CHECKING:
    from testbed.collectives.algorithms import Algorithm
    from testbed.collectives.cost import Links
    from testbed.collectives.forwarding import Forwarded
    from testbed.collectives.schedule import Schedule

_MODEL = ("dim", "layers", "heads", "hidden", "sequence", "batch", "learning_rate")
_FOR_RANKS = (*_MODEL, "pace", "rings")

_SHARED = 64 << 10
"""Bytes from which on two rings share a sum, as `onhost.communication.two_rings` has it."""


class Train(Job):
    """Training until the last step, or until the run ends."""

    def __init__(self, options: TrainOptions) -> None:
        self._options = options
        self.ranks = options.ranks
        self.spares = options.spares
        self._is_built_in = ALL_REDUCES.get(options.collective, UNKNOWN).is_built_in
        self.topology = options.topology if self._is_built_in else None
        self.last_step = None if options.steps is None else options.steps - 1
        self.endless = options.steps is None
        self.controllers = options.controllers
        self.chooses = self._schedule if options.collective == "auto" else None

    @cached_property
    def _schedule(self) -> Schedule:
        """Make the schedule when it is asked for: plans of the ranks' own ring need no NumPy."""
        from testbed.collectives.catalogue import all_reduce

        options = self._options
        first: Algorithm = REFERENCE if options.collective == "auto" else options.collective
        return all_reduce(first, options.ranks, options.straggler)

    def for_rank(self) -> Mapping[str, Any]:
        """Return the model, its batches, and the schedule unless the ranks use their own ring.

        And beside these when to write checkpoints, which is no concern of the job itself.
        """
        told = {key: getattr(self._options, key) for key in _FOR_RANKS}
        if not self._is_built_in:
            from testbed.collectives.schedule import to_json

            told["schedule"] = to_json(self._schedule)
        checkpoint = self._options.checkpoint
        return {
            "kind": "train",
            "options": told,
            **({"checkpoint": asdict(checkpoint)} if checkpoint else {}),
        }

    def on_circuits(self) -> Train:
        """Return the job for a circuit switch: what is no ring is forwarded around one.

        Raise ValueError where that has no sense.
        """
        if self._is_built_in or self.chooses is not None:
            return self
        return AroundRing(self._options)

    def gradient_bytes(self, state_bytes: int) -> int:
        """Return a third of the state, which holds the parameters and both moments of Adam."""
        return state_bytes // 3

    def predict_steps(
        self, links: Links, late: Mapping[int, float], step: float, state_bytes: int
    ) -> dict[str, float]:
        """Return the predicted step times; nothing where the ranks choose their AllReduce.

        A step is its pace and its sum. A late rank delays the sum, except for the rounds that run
        without that rank meanwhile. The effect of another AllReduce is predicted when it is chosen.
        """
        values, is_late = dict[str, float](), bool(late and step)
        if self.chooses is not None or not (is_late or self._options.predicts_step_time):
            return values
        size = _of_a_ring(self.gradient_bytes(state_bytes), self._options.rings)
        on_time, held_up = (self._seconds(size, links, who) for who in ({}, late))
        if self._options.predicts_step_time:
            values["step_time"] = (self._options.pace or 0.0) + on_time
        if is_late:
            values["straggling_step_time"] = step + held_up - on_time
        return values

    def _seconds(self, size: int, links: Links, late: Mapping[int, float]) -> float:
        """Return what a sum takes by the cost model, from when all ranks but the late are ready."""
        from testbed.collectives.cost import cost

        return cost(self._schedule, size, links, late).total


class AroundRing(Train):
    """Training on a ring of circuits whose sums follow another schedule, forwarded around it."""

    def __init__(self, options: TrainOptions) -> None:
        """Refuse two ranks: of these one alone has nobody to begin with; ValueError."""
        super().__init__(options)
        if options.ranks == 2:
            raise ValueError(
                f"of two ranks on circuits {options.collective} has none that the data could be "
                "forwarded over; leave `collective` out, or use a lab with a packet switch"
            )
        self.topology = options.topology

    @cached_property
    def _hops(self) -> Forwarded:
        from testbed.collectives.forwarding import forwarded
        from testbed.collectives.repointing import pair_of, ring_joints

        lit = map(pair_of, ring_joints(self.ranks))
        return forwarded(self._schedule, lit, around_straggler=True)

    def for_rank(self) -> Mapping[str, Any]:
        """Return what `Train` tells a rank, with the hops of the schedule."""
        told = dict(super().for_rank())
        told["options"] = {**told["options"], "schedule": self._hops.to_json(), "around": True}
        return told

    def _seconds(self, size: int, links: Links, late: Mapping[int, float]) -> float:
        from testbed.collectives.own_pace import seconds_from_run_to_run

        return seconds_from_run_to_run(self._hops, size, links, late)


class AllReduce(Job):
    """Repeated AllReduce of all sizes."""

    def __init__(self, options: AllReduceOptions) -> None:
        self._options = options
        self.ranks = options.ranks
        self.spares = options.spares
        in_groups = options.mesh is not None and options.topology == RING
        self.topology = None if in_groups else options.topology

    def on_circuits(self) -> Job:
        """Return the job with its groups on rails, where it has any."""
        return self if self._options.mesh is None else OnRails(self._options)

    def for_rank(self) -> Mapping[str, Any]:
        """Return the sizes, the number of iterations of each, and the groups of a mesh."""
        options = self._options
        told = {
            "sizes": list(options.sizes),
            "iterations": options.iterations,
            "warmup": options.warmup,
            "pace": options.pace,
        }
        if options.mesh is None:
            told |= {"rings": options.rings, "library": options.library}
            return {"kind": "allreduce", "options": told}
        return {"kind": "groups", "options": told | _groups_of(options.mesh, options.collectives)}

    def predict_sizes(self, links: Links) -> dict[str, float]:
        """Return what the bytes of long messages take, by the rate that the links were probed at.

        A rank sends 2 (n − 1) / n of a buffer through a ring, or half of that through each of two;
        the latency of the rounds is left out.
        """
        options, values = self._options, dict[str, float]()
        for size in options.long_sizes:
            share = 2 * (options.ranks - 1) / options.ranks
            seconds = share * _of_a_ring(size, options.rings) * links.beta
            name, algbw = size_name(size), size * 8 / seconds
            values |= {f"time_{name}": seconds, f"algbw_{name}": algbw}
            values[f"busbw_{name}"] = algbw * share
        return values


class OnRails(AllReduce):
    """Collectives in the groups of a mesh, each of them a stage on a rail.

    With a topology its circuits stand, and must join the ranks of every group.
    """

    controllers = ("rails",)

    def __init__(self, options: AllReduceOptions) -> None:
        """Take groups of a ring each, but those of an all-to-all in matchings of their ranks."""
        from testbed.collectives.exchanges import matchings_of
        from testbed.collectives.groups import groups, named

        super().__init__(options)
        assert options.mesh is not None
        along = groups(options.mesh)
        self.groups = named(along)
        self._exchanged = [
            name
            for name, collective in (options.collectives or {}).items()
            if collective == "all-to-all" and options.mesh[name] > 2
        ]
        paired = named({name: along[name] for name in self._exchanged})
        self.matchings = {name: matchings_of(ranks) for name, ranks in paired.items()}

    def for_rank(self) -> Mapping[str, Any]:
        """Return that of any mesh, with the matchings of groups that exchange in pairs."""
        from testbed.collectives.exchanges import matchings

        told, mesh = super().for_rank(), self._options.mesh
        assert mesh is not None
        found = {
            name: [list(map(list, pairs)) for pairs in matchings(mesh[name])]
            for name in self._exchanged
        }
        return {**told, "options": told["options"] | ({"matchings": found} if found else {})}


def _of_a_ring(size: int, rings: int) -> int:
    return size // rings if size >= _SHARED else size


def _groups_of(mesh: Mapping[str, int], collectives: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the groups along each dimension of a mesh, and what each of them runs."""
    from testbed.collectives.groups import groups
    from testbed.collectives.schedule import to_json

    made = _schedules()
    runs = {name: (collectives or {}).get(name, "all-reduce") for name in mesh}
    return {
        "groups": {name: list(map(list, found)) for name, found in groups(mesh).items()},
        "collectives": runs,
        "schedules": {name: to_json(made[runs[name]](ranks)) for name, ranks in mesh.items()},
    }


def _schedules() -> Mapping[str, Callable[[int], Schedule]]:
    """Return what makes the schedule of each collective of a group; it needs NumPy."""
    from testbed.collectives.broadcasts import chain
    from testbed.collectives.exchanges import all_to_all
    from testbed.collectives.rings import all_gather, reduce_scatter, ring

    return {
        "all-reduce": ring,
        "reduce-scatter": reduce_scatter,
        "all-gather": all_gather,
        "chain": chain,
        "all-to-all": all_to_all,
    }
