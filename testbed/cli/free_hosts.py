"""Enter the queue of a lab, on those of its hosts that suit an experiment and are free."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import replace

from testbed.bench.lease_resources import needs
from testbed.cli.files import Inputs
from testbed.cli.lease_stores import queue_of
from testbed.errors import FileError
from testbed.fabric.circuits import fibre_ends
from testbed.record.lab_queue import QueueRequest
from testbed.record.lease_rules import Resource
from testbed.record.queue_place import QueuePlace, TakenMeanwhile
from testbed.record.queue_rules import Snapshot
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import OpenHosts
from testbed.schema import Lab, usable_fibres

Parts = Mapping[str, frozenset[Resource]]
Taken = Mapping[str, float]
"""Until when hosts are taken; those that are free are not in it."""


_TRIES = 20
"""Choices of hosts, of which others were quicker to enter the queue for one."""


def enter_queue(
    inputs: Inputs, repeat: int | None, request: QueueRequest
) -> tuple[Inputs, QueuePlace]:
    """Enter the queue of a lab; return inputs whose plan is on the hosts that it is entered for.

    They are hosts that nobody has or waits for, where it can be. Where too few are free, they are
    those that will all be free soonest, by what the queue expects. Jobs that name their hosts keep
    them. The plan is as it was where it suits no others, for want of fibres or permissions, and
    where those are not free sooner. Blocks for the store of the leases.
    """
    lab, queue = inputs.lab, queue_of(inputs.lab)
    parts = {host: _parts(lab, host) for host in lab.hosts}
    for left in reversed(range(_TRIES)):
        taken = queue.snapshot().taken_until(parts)
        chosen = _on_free_hosts(inputs, repeat, taken)
        wanted = {host: parts[host] for host in _hosts(chosen.plan)}

        def is_as_before(
            found: Snapshot, wanted: Parts = wanted, taken: Taken = taken, left: int = left
        ) -> bool:
            return not left or found.taken_until(wanted).keys() <= taken.keys()

        resources = frozenset[Resource]().union(*wanted.values())
        reason = inputs.plan.experiment
        with suppress(TakenMeanwhile):
            return chosen, QueuePlace(queue, resources, reason, request, is_as_before)
    raise AssertionError("the last try has no condition")


def _on_free_hosts(inputs: Inputs, repeat: int | None, taken: Taken) -> Inputs:
    """Return inputs whose plan is on the hosts that are free soonest, of those that suit it."""
    from testbed.run.planning.feasibility import hosts_without_permission

    latest = _free_from(inputs.plan, taken)
    forbidden = hosts_without_permission(inputs.experiment, inputs.lab)
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


def _free_from(plan: Plan, taken: Taken) -> float:
    """Return until when some host of a plan is taken; minus infinity where all are free."""
    return max((taken[host] for host in _hosts(plan) if host in taken), default=-math.inf)


def _hosts(plan: Plan) -> set[str]:
    return {host for step in plan.steps if isinstance(step, OpenHosts) for host in step.hosts}
