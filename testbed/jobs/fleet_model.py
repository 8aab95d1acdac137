"""The job `fleet-model`: a cluster of torus racks, static and with redirected ports, on paper."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median

from testbed.jobs.fleet_descriptors import PLACED, REPLACED, FleetModelOptions
from testbed.rack.fleet_study import Admission, Failures, case

_FULL_NAMES = {"sipac": "sipac-like", "ideal": "ideal-switch"}
"""Systems and policies whose names in metrics are shorter."""


class FleetModel:
    """One cluster in all phases of the study: filled, a part freed, asked again, chips failed."""

    def __init__(self, options: FleetModelOptions) -> None:
        self._options = options

    def values(self, seed: int) -> Mapping[str, float]:
        """Return the metrics; those of admission only where anything was asked for."""
        own = self._options
        found = case(own.mix, seed, own.racks)
        ports, gains = found.bandwidth, found.bandwidth.gain[own.load]
        return {
            "static_ports": fmean(ports.static_ports),
            "static_ports_y": fmean(ports.static_ports_y),
            "redirected_ports": fmean(ports.redirected_ports),
            "rack_gain": median(gains),
            "best_rack_gain": max(gains),
            "worst_fragmentation": max(found.fragmentation),
            "mean_fragmentation": fmean(found.fragmentation),
            **_admission(found.only_32, "32", own.load),
            **_admission(found.mixed_16_32, "16_32", own.load),
            **_failures(found.failures),
        }


def _admission(asked: Admission, name: str, load: str) -> dict[str, float]:
    """Return the share of requests that each system placed, and what redirecting ports gains."""
    if not asked.requested:
        return {}
    values = {
        f"placed_{name}_{system}": asked.placed[_full(system)].slices / asked.requested
        for system in PLACED
    }
    static, redirected = (
        asked.placed[system].throughput[load] for system in ("static", "morphlux")
    )
    return {**values, **({f"admission_gain_{name}": redirected / static} if static else {})}


def _failures(found: Failures) -> dict[str, float]:
    """Return the chips of a rack that each policy spends beyond those that failed, and refusals."""
    return {
        **{
            f"over_provisioning_{policy}": fmean(cost.over for cost in found.costs[_full(policy)])
            for policy in REPLACED
        },
        "spares_out_of_reach": found.refused,
    }


def _full(name: str) -> str:
    return _FULL_NAMES.get(name, name)
