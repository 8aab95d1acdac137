"""Which of the hosts of a lab that suit an experiment it takes when it enters the queue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import replace

from testbed.bench.lease_resources import needs
from testbed.cli.files import Inputs
from testbed.cli.lease_stores import queue_of
from testbed.errors import FileError
from testbed.fabric.circuits import fibre_ends
from testbed.record.lease_rules import Resource
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import OpenHosts
from testbed.schema import Lab, usable_fibres


def on_free_hosts(inputs: Inputs, repeat: int | None) -> Inputs:
    """Return inputs whose plan is on hosts that nobody has or waits for, where it can be.

    Where too few are free, it is on those that will all be free soonest, by what the queue expects.
    Jobs that name their hosts keep them. The plan is as it was where it suits no others, for want
    of fibres or permissions, and where those are not free sooner. Blocks for the store of the
    leases.
    """
    from testbed.run.planning.feasibility import hosts_without_permission

    lab = inputs.lab
    taken = queue_of(lab).snapshot().taken_until({host: _parts(lab, host) for host in lab.hosts})
    latest, forbidden = (
        _free_from(inputs.plan, taken),
        hosts_without_permission(inputs.experiment, lab),
    )
    for moment in sorted({-math.inf, *taken.values()}):
        if moment >= latest:
            break
        later = {host for host, until in taken.items() if until > moment}
        for without in (later | forbidden, later):
            if plan := _plan_without(inputs, repeat, without):
                return replace(inputs, plan=plan)
    return inputs


def _plan_without(inputs: Inputs, repeat: int | None, without: Set[str]) -> Plan | None:
    """Return a plan without some hosts; None where there is none that the file allows."""
    from testbed.run.planning.planner import make_plan

    experiment, lab, seed = inputs.experiment, inputs.lab, inputs.plan.seed
    try:
        plan = make_plan(experiment, lab, seed=seed, repeat=repeat, without=without)
    except FileError:
        return None
    return plan if _hosts(plan).isdisjoint(without) else None


def _parts(lab: Lab, host: str) -> frozenset[Resource]:
    """Return all that a run on a host leases for it."""
    from testbed.run.planning.planner import optics_in_fibres

    attenuators, meters = optics_in_fibres(
        lab, fibre_ends(lab.wiring(), [host], usable_fibres(lab))
    )
    return needs(lab, [host], (*attenuators, *meters))


def _free_from(plan: Plan, taken: Mapping[str, float]) -> float:
    """Return until when some host of a plan is taken; minus infinity where all are free."""
    return max((taken[host] for host in _hosts(plan) if host in taken), default=-math.inf)


def _hosts(plan: Plan) -> set[str]:
    return {host for step in plan.steps if isinstance(step, OpenHosts) for host in step.hosts}
