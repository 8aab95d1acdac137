"""Which of the hosts of a lab that suit an experiment it takes when it enters the queue."""

from __future__ import annotations

from dataclasses import replace

from testbed.bench.lease_resources import needs
from testbed.cli.files import Inputs
from testbed.cli.lease_stores import queue_of
from testbed.errors import FileError
from testbed.record.lease_rules import ResourceIndex
from testbed.record.queue_rules import Snapshot
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import OpenHosts
from testbed.schema import Lab


def on_free_hosts(inputs: Inputs, repeat: int | None) -> Inputs:
    """Return inputs whose plan is on hosts that nobody has or waits for, where it can be.

    Jobs that name their hosts keep them. The plan is as it was where it suits no such hosts, for
    want of some, or of fibres or permissions; then it waits for those that it would have anyway.
    Blocks for the store of the leases.
    """
    from testbed.run.planning.planner import make_plan

    lab = inputs.lab
    taken = _taken(lab, queue_of(lab).snapshot())
    if taken.isdisjoint(_hosts_of(inputs.plan)):
        return inputs
    free_first = sorted(lab.hosts, key=lambda host: host in taken)
    ordered = lab.model_copy(update={"hosts": {host: lab.hosts[host] for host in free_first}})
    try:
        plan = make_plan(inputs.experiment, ordered, seed=inputs.plan.seed, repeat=repeat)
    except FileError:
        return inputs
    return replace(inputs, plan=plan) if taken.isdisjoint(_hosts_of(plan)) else inputs


def _hosts_of(plan: Plan) -> set[str]:
    return {host for step in plan.steps if isinstance(step, OpenHosts) for host in step.hosts}


def _taken(lab: Lab, found: Snapshot) -> set[str]:
    """Return the hosts of which somebody has, or waits for, the host or a port or outlet of it."""
    claims = [one.claim.resources for one in found.claims if one.standing != "ended"]
    wanted = [one.resources for one in found.waiting()]
    index = ResourceIndex(part for parts in (*claims, *wanted) for part in parts)
    return {host for host in lab.hosts if index.overlapping(needs(lab, [host]))}
