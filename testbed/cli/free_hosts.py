"""Which of the hosts of a lab that suit an experiment it takes when it enters the queue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from testbed.bench.lease_resources import needs
from testbed.cli.files import Inputs
from testbed.cli.lease_stores import queue_of
from testbed.errors import FileError
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import OpenHosts


def on_free_hosts(inputs: Inputs, repeat: int | None) -> Inputs:
    """Return inputs whose plan is on hosts that nobody has or waits for, where it can be.

    Where too few are free, it is on those that will all be free soonest, by what the queue expects.
    Jobs that name their hosts keep them. The plan is as it was where it suits no others, for want
    of fibres or permissions, and where those are not free sooner. Blocks for the store of the
    leases.
    """
    from testbed.run.planning.planner import make_plan

    lab = inputs.lab
    parts = {host: needs(lab, [host]) for host in lab.hosts}
    taken = queue_of(lab).snapshot().taken_until(parts)
    before = _free_from(inputs.plan, taken)
    if before == -math.inf:
        return inputs
    soonest = sorted(lab.hosts, key=lambda host: taken.get(host, -math.inf))
    ordered = lab.model_copy(update={"hosts": {host: lab.hosts[host] for host in soonest}})
    try:
        plan = make_plan(inputs.experiment, ordered, seed=inputs.plan.seed, repeat=repeat)
    except FileError:
        return inputs
    return replace(inputs, plan=plan) if _free_from(plan, taken) < before else inputs


def _free_from(plan: Plan, taken: Mapping[str, float]) -> float:
    """Return until when some host of a plan is taken; minus infinity where all are free."""
    hosts = {host for step in plan.steps if isinstance(step, OpenHosts) for host in step.hosts}
    return max((taken[host] for host in hosts if host in taken), default=-math.inf)
