"""The controllers of an experiment: made from their options, and checked before a run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from testbed.collectives.algorithms import REFERENCE
from testbed.control.controller import (
    ChosenCollective,
    CircuitPlanner,
    Controller,
    JobView,
    PolicyController,
    Scope,
    View,
    overlapping,
    seen_by,
)
from testbed.control.watchdog import PolicyWithWatchdog, WatchdogController
from testbed.errors import FileError
from testbed.fabric.circuits import cross_connects, in_order
from testbed.jobs.contracts import Job, PairedRailsJob, RailsJob, ReplicatedJob, StepJob
from testbed.plugins import kind
from testbed.run.places import ports_of_ranks
from testbed.run.planning.arm_plans import PlannedController
from testbed.run.planning.fault_plans import job_fault
from testbed.run.planning.placement import Placements
from testbed.run.planning.slices import places_of_spare, rack_of
from testbed.schema import ControllerSpec, Experiment, Lab
from testbed.schema.controllers import Controller as ControllerEntry
from testbed.schema.plugin_entries import validated_entry

if TYPE_CHECKING:
    from testbed.collectives.cost import Links


def made_controllers(
    experiment: Experiment, jobs: Mapping[str, Job], lives_with: str = ""
) -> dict[str, Controller]:
    """Return what reacts in an experiment on its jobs, by name, or what of it lives so long."""
    return {
        spec.name: _made(spec)
        for spec in specs_of(experiment, jobs)
        if lives_with in ("", spec.lives_with)
    }


def specs_of(experiment: Experiment, jobs: Mapping[str, Job]) -> tuple[ControllerSpec, ...]:
    """Return the controllers of an experiment, and those that its jobs bring along."""
    given = experiment.reacting()
    named = {(spec.kind, spec.job) for spec in given}
    brought = [
        (one, name)
        for name, job in jobs.items()
        for one in job.controllers
        if (one, name) not in named or one in job.controller_options
    ]
    of_kind = Counter(one for one, _ in brought)
    return *given, *(
        ControllerSpec(
            one if of_kind[one] == 1 else f"{one} of {name}",
            *(one, name, _options(one, jobs[name])),
            steps=("jobs", name),
        )
        for one, name in brought
    )


def _options(name: str, job: Job) -> Any:
    """Return the options of a controller that a job brings along."""
    given = job.controller_options.get(name)
    if given is None:
        return kind("controllers", name).options()
    entry = {"kind": name, **given}
    return validated_entry(ControllerEntry, name, kind("controllers", name), entry).options


def _made(spec: ControllerSpec) -> Controller:
    make = kind("controllers", spec.kind).load()
    if spec.is_policy:
        policy = make(spec.options)
        if isinstance(policy, PolicyWithWatchdog):
            return WatchdogController(policy, spec.job, spec.acts_on)
        return PolicyController(policy, spec.job, spec.acts_on)
    controller: Controller = make(spec.options, spec.job)
    return controller


def check_scopes(experiment: Experiment) -> None:
    """Refuse two controllers of one arm that act on the same thing: FileError at the second."""
    for arm in experiment.arms():
        _check_scopes(arm.experiment, arm.experiment.reacting())


def _check_scopes(experiment: Experiment, specs: tuple[ControllerSpec, ...]) -> None:
    for one, other in combinations(specs, 2):
        if found := overlapping({one.name: _scopes(one), other.name: _scopes(other)}):
            written = other if other.is_written else one
            where = experiment.source.where(*written.steps, "kind")
            left = "one of them" if other.is_written else f"{one.name}"
            brought = "" if other.is_written else f"; job {one.job} needs {other.name}"
            raise FileError(where, f"{found}{brought}", hint=f"leave {left} out")


def _scopes(spec: ControllerSpec) -> list[Scope]:
    return [Scope(part, spec.job) for part in spec.acts_on]


def check_controllers(
    experiment: Experiment, lab: Lab, placements: Placements
) -> tuple[PlannedController, ...]:
    """Refuse controllers that do not fit their job or the fibres: FileError at the controller."""
    planned: list[PlannedController] = []
    whole = planned_view(lab, placements)
    specs = specs_of(experiment, {name: one.job for name, one in placements.items()})
    _check_scopes(experiment, specs)
    for spec in specs:
        if placements[spec.job].fabric == "circuit":
            _check_fibres(experiment, lab, spec, placements)
        try:
            controller = _made(spec)
            view = seen_by(controller, whole)
            controller.begin(view)
            every = controller.circuits(view) if isinstance(controller, CircuitPlanner) else ()
            for circuits in every:
                cross_connects(circuits, lab.wiring())
            circuits_of_all = tuple(dict.fromkeys(map(in_order, every)))
            planned.append(PlannedController(spec.name, spec.kind, spec.job, circuits_of_all))
        except ValueError as error:
            where = experiment.source.where(*spec.steps)
            raise FileError(where, f"{spec.name} does not fit job {spec.job}: {error}") from None
        _check_checkpoints(experiment, spec)
        _check_membership(experiment, spec, placements[spec.job].job)
    _check_faults(experiment)
    return tuple(planned)


def planned_view(lab: Lab, placements: Placements) -> View:
    """Return what controllers begin with, as far as it is known before a run."""
    on_circuits = any(one.fabric == "circuit" for one in placements.values())
    ports = lab.ports() if on_circuits else dict.fromkeys(lab.hosts, ())
    jobs = {}
    for name, one in placements.items():
        about = (one.asked, collective_of(one.job), one.spares, *groups_of(one.job))
        jobs[name] = JobView(one.hosts, ports_of_ranks(one.job, one.hosts, ports), 1, -1, *about)
    fences = {host: lab.fences(host) for host in lab.hosts}
    spares = tuple(spare for one in placements.values() for spare in one.spares)
    return View(0.0, jobs, spares, ports, fences, placements.circuits, rack_of(lab))


def collective_of(
    job: Job, state_bytes: int = 0, links: Links | None = None
) -> ChosenCollective | None:
    """Return the AllReduce that a job begins with where it leaves the choice to the testbed."""
    if not isinstance(job, StepJob) or job.chooses is None:
        return None
    return ChosenCollective(job.chooses, job.gradient_bytes(state_bytes), links)


Groups = Mapping[str, tuple[int, ...]]
Pairs = tuple[tuple[int, int], ...]


def groups_of(
    job: Job,
) -> tuple[Groups, tuple[tuple[int, ...], ...], Mapping[str, Sequence[Pairs]]]:
    """Return what `JobView` has of the groups of a job that rails join.

    That are their ranks, those with the same state, and the matchings of groups joined in pairs.
    """
    replicas = job.replicas if isinstance(job, ReplicatedJob) else ()
    matchings = job.matchings if isinstance(job, PairedRailsJob) else {}
    return (job.groups if isinstance(job, RailsJob) else {}), replicas, matchings


def _check_checkpoints(experiment: Experiment, spec: ControllerSpec) -> None:
    """Refuse to restart from checkpoints where a job writes none, or none that others can read."""
    if not spec.is_policy or not (takes := kind("policies", spec.kind).recovery).restarts:
        return
    written = getattr(experiment.jobs[spec.job].options, "checkpoint", None)
    where = experiment.source.where(*spec.steps, "kind")
    if written is None:
        raise FileError(
            where,
            f"{spec.kind} goes on from checkpoints, and job {spec.job} writes none",
            hint=f"write `checkpoint: {{every: 20}}` in job {spec.job}",
        )
    if takes.moves_all and not written.directory:
        raise FileError(
            where,
            f"{spec.kind} goes on from checkpoints on other hosts, and each host of job {spec.job} "
            "writes them to its own disk",
            hint="write `checkpoint: {every: 20, directory: /shared}`, of a file system that all "
            "hosts share",
        )


def _check_membership(experiment: Experiment, spec: ControllerSpec, job: Job) -> None:
    """Refuse to replace or leave out ranks of a job that follows a schedule, where it cannot be."""
    if not spec.is_policy or "membership" not in spec.acts_on:
        return
    why, collective = "", getattr(experiment.jobs[spec.job].options, "collective", REFERENCE)
    if isinstance(job, StepJob) and job.chooses is not None:
        why = "a rank that takes another's place was not told which collective was chosen"
        hint = f"write which `collective` the job is to have, or remove {spec.kind}"
    elif collective != REFERENCE and kind("policies", spec.kind).recovery.newcomer == "never":
        why = f"{collective} is a schedule of the {job.ranks} ranks that the job begins with"
        hint = f"use a policy that has a spare take the place, as splice, or remove {spec.kind}"
    if why:
        where = experiment.source.where(*spec.steps, "kind")
        message = f"{spec.kind} cannot repair job {spec.job}: {why}"
        raise FileError(where, message, hint=hint)


def _check_fibres(
    experiment: Experiment, lab: Lab, spec: ControllerSpec, placements: Placements
) -> None:
    """Refuse what finds no fibres between switches, and a spare that none reach."""
    moves = spec.is_policy or "circuits" in spec.acts_on
    if (rack := rack_of(lab)) is None or not moves:
        return
    if not (spec.is_policy and kind("policies", spec.kind).recovery.finds_fibres):
        raise FileError(
            experiment.source.where(*spec.steps, "kind"),
            f"{spec.kind} joins hosts over one switch, and circuits of lab {lab.lab} pass several",
            hint="splice finds free fibres between them; for all else use a lab whose hosts are on "
            "one switch",
        )
    job = placements[spec.job]
    others = placements.circuits - job.circuits
    for spare in job.spares:
        if not places_of_spare(rack, job.hosts, lab.ports(), job.circuits, spare, others):
            raise FileError(
                experiment.source.where("jobs", spec.job, "spares"),
                f"spare {spare} can replace no host of job {spec.job}: too few free fibres of lab "
                f"{lab.lab} lead from it to their neighbours",
                hint="name other hosts, or leave them to the planner, which picks spares by fibres",
            )


def _check_faults(experiment: Experiment) -> None:
    """Refuse a fault whose undo would bring back circuits that were moved meanwhile."""
    fault = job_fault(experiment)
    if fault is None or kind("faults", fault.kind).fault.repair != "circuit":
        return
    for spec in experiment.reacting():
        if spec.job == fault.job and spec.acts_on == ("circuits",):
            raise FileError(
                experiment.source.where(*spec.steps, "kind"),
                f"{spec.kind} moves circuits while {fault.kind} disconnects some of them",
                hint="break something else",
            )
