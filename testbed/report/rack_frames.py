"""Drawings of racks: slices and their circuits, fragmentation over time, what racks gain.

They are computed again from the options and seeds of a run of the job `fleet-model`: each rack is
one of its mix, and none that was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from testbed.jobs.fleet_descriptors import FleetModelOptions
from testbed.rack.fleet import MIXES
from testbed.rack.fleet_study import case
from testbed.rack.history import Moment, history
from testbed.rack.torus import Torus, slot_graph
from testbed.report import rack_figure
from testbed.report.drawings import Drawing
from testbed.schema import load_experiment

LENGTH = 120
"""Slices that come, are refused or leave, in the history of a rack."""
_MOST_RACKS = 64
"""Racks of which the gain is computed again: 64 take a quarter of a second."""


def rack_drawings(run: Path, seed: int) -> Iterator[Drawing]:
    """Yield the drawings of a run that models racks, by its seed; none of any other run."""
    arms = _arms(run)
    if not arms:
        return
    torus, spares = Torus(), _spares(Torus())
    histories = {}
    for arm, options in arms.items():
        mix = MIXES[options.mix]
        histories[arm] = history(torus, mix, seed, spares=spares, length=LENGTH)
        yield _rack(arm, torus, most_scattered(histories[arm]), spares)
    rows = tuple(
        (arm, number, moment.what, moment.fragmentation)
        for arm, moments in histories.items()
        for number, moment in enumerate(moments)
    )
    indices = {arm: [m.fragmentation for m in moments] for arm, moments in histories.items()}
    draw = partial(rack_figure.fragmentation, indices)
    yield Drawing("fragmentation", draw, ("arm", "change", "what", "fragmentation"), rows)
    yield _gains(arms, seed)


def most_scattered(moments: list[Moment]) -> Moment:
    """Return the first moment with the most slices that are not a block of the torus."""
    return max(moments, key=lambda moment: len(moment.scattered))


def _arms(run: Path) -> Mapping[str, FleetModelOptions]:
    """Return the options of each arm of a run whose job is `fleet-model`."""
    if not (run / "experiment.yaml").exists():
        return {}
    found = {}
    for arm in load_experiment(run / "experiment.yaml").arms():
        for spec in arm.experiment.jobs.values():
            if isinstance(spec.options, FleetModelOptions):
                found[arm.name] = spec.options
    return found


def _spares(torus: Torus) -> frozenset[int]:
    """Return the last server, which is reserved as in the study of failed chips."""
    return frozenset({len(torus.servers) - 1})


def _rack(arm: str, torus: Torus, moment: Moment, spares: frozenset[int]) -> Drawing:
    rows = tuple(
        (number, "x".join(map(str, of.shape)), *edge, " ".join(map(str, path)))
        for number, of in enumerate(moment.slices)
        for edge, path in zip(slot_graph(torus, of.shape).edges, of.paths, strict=True)
    )
    draw = partial(rack_figure.rack, torus, moment, spares)
    headings = ("slice", "shape", "slot", "other slot", "servers")
    return Drawing(f"rack-{arm}", draw, headings, rows)


def _gains(arms: Mapping[str, FleetModelOptions], seed: int) -> Drawing:
    """Return the distribution over racks of what redirected ports gain, of the first cluster."""
    found = {
        arm: sorted(case(own.mix, seed, min(own.racks, _MOST_RACKS)).bandwidth.gain[own.load])
        for arm, own in arms.items()
    }
    rows = tuple((arm, gain) for arm, gains in found.items() for gain in gains)
    return Drawing("rack-gain", partial(rack_figure.gains, found), ("arm", "gain"), rows)
