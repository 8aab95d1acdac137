"""Where the jobs of a plan are expected to be, from trial to trial. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from testbed.control.controller import View, seen_by
from testbed.fabric.circuits import Matching
from testbed.run.places import ports_of_ranks
from testbed.run.planning.controllers import made_controllers, planned_view
from testbed.run.planning.placement import Placements
from testbed.run.planning.predicted_recovery import ExpectedFault, predicted_recovery
from testbed.run.planning.profiles import heartbeat
from testbed.run.planning.steps import FaultPlan, PredictedRecovery
from testbed.schema import Arm, Lab


class Forecast:
    """The recoveries that are expected in the trials of a plan, asked for in their order.

    A job that lives on begins a trial where the recovery before it has left it.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._outlets = frozenset(name for name, host in lab.hosts.items() if host.power)
        self._last: dict[str, PredictedRecovery] = {}
        """By job, the recovery that has moved it."""
        self._started_with: Any = None

    def recoveries(
        self, arm: Arm, placements: Placements, faults: Sequence[FaultPlan]
    ) -> tuple[PredictedRecovery, ...]:
        """Return what is expected to recover the jobs of a trial from its faults, by job."""
        jobs = arm.experiment.jobs
        started_with = jobs, [heartbeat(arm, name) for name in jobs]
        if started_with != self._started_with or not self._lives_on(placements):
            self._last = {}
        self._started_with = started_with
        found = tuple(self._predicted(arm, placements, faults))
        moved = any(
            not spec.is_policy and "circuits" in spec.acts_on and spec.lives_with == "trial"
            for spec in arm.experiment.reacting()
        )
        self._last = {} if moved else self._last | {one.job: one for one in found}
        return found

    def _lives_on(self, placements: Placements) -> bool:
        """Tell whether the jobs of the trial before go on: one that ends or shrank starts anew."""
        ranks = {name: len(one.hosts) for name, one in placements.items()}
        shrank = any(len(last.hosts) != ranks[name] for name, last in self._last.items())
        return not shrank and all(one.job.endless for one in placements.values())

    def _predicted(
        self, arm: Arm, placements: Placements, faults: Sequence[FaultPlan]
    ) -> Iterator[PredictedRecovery]:
        experiment, struck = arm.experiment, {plan.job for plan in faults}
        policies = [spec for spec in experiment.reacting() if spec.is_policy]
        acting = [
            spec
            for spec in policies
            if spec.job in struck and placements[spec.job].fabric == "circuit"
        ]
        if not acting:
            return
        jobs = {name: one.job for name, one in placements.items()}
        controllers = made_controllers(experiment, jobs)
        view = self._view(placements)
        for spec in acting:
            mine = [plan for plan in faults if plan.job == spec.job]
            expected = [self._expected(spec.job, plan, placements, view) for plan in mine]
            recovery = predicted_recovery(
                spec.name,
                controllers[spec.name],
                seen_by(controllers[spec.name], view),
                expected,
                heartbeat=heartbeat(arm, spec.job),
                outlets=self._outlets,
            )
            if recovery is not None:
                yield recovery

    def _expected(
        self, job: str, plan: FaultPlan, placements: Placements, view: View
    ) -> ExpectedFault:
        host = view.jobs[job].hosts[plan.rank]
        ring = placements[job].ring_ports.get(host)
        return ExpectedFault(job, plan, ring.to_next if ring else self._lab.ports()[host][-1])

    def _view(self, placements: Placements) -> View:
        """Return what controllers begin the next trial with, after all recoveries before it."""
        view, ports = planned_view(self._lab, placements), self._lab.ports()
        circuits: dict[str, Matching] = {n: one.circuits for n, one in placements.items()}
        jobs = dict(view.jobs)
        for name, last in self._last.items():
            spares = tuple(host for host in placements[name].used if host not in last.hosts)
            own = ports_of_ranks(placements[name].job, last.hosts, ports)
            jobs[name] = replace(jobs[name], hosts=last.hosts, ports=own, spares=spares)
            circuits[name] = frozenset(last.circuits[-1]) if last.circuits else circuits[name]
        every = tuple(spare for job in jobs.values() for spare in job.spares)
        lit = frozenset[Any]().union(*circuits.values())
        return replace(view, jobs=jobs, spares=every, circuits=lit)
