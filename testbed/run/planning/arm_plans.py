"""What each arm of an experiment runs on and breaks, as plain data of a plan. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from testbed.fabric.circuits import Circuit, in_order
from testbed.jobs.contracts import FabricDependentJob, Job
from testbed.plugins import kind
from testbed.run.places import Place
from testbed.run.planning.job_circuits import RingPorts
from testbed.run.planning.placement import Placement, Placements
from testbed.schema import Arm, Experiment, FabricKind, Fault


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault of every trial of an arm; `target` and `options` are as in the file."""

    kind: str
    job: str
    target: str
    step: int | None
    hold: float | None
    options: Mapping[str, Any]
    after: float | None = None
    """Seconds after the fault before it, where it names no step."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job of an arm on hosts, and its circuits when a trial begins.

    Hosts and circuits are those that the job is started with: in an arm whose jobs live on from
    trial to trial, recoveries change them.
    """

    name: str
    kind: str
    fabric: FabricKind
    hosts: tuple[str, ...]
    spares: tuple[str, ...]
    slots: tuple[int, ...]
    """Which of the processes on its host each rank is, then each spare."""
    ring_ports: Mapping[str, RingPorts]
    circuits: tuple[Circuit, ...]
    asked: tuple[tuple[Circuit, ...], ...]


@dataclass(frozen=True, slots=True)
class PlannedController:
    """What reacts in the trials of an arm, with all circuits that it may make if they are known."""

    name: str
    kind: str
    job: str
    circuits: tuple[tuple[Circuit, ...], ...]


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """The jobs of an arm in the order of the file, what reacts, and the faults of each trial."""

    name: str
    jobs: tuple[PlannedJob, ...]
    controllers: tuple[PlannedController, ...]
    faults: tuple[PlannedFault, ...]


def planned_arm(
    arm: Arm, placements: Placements, controllers: tuple[PlannedController, ...]
) -> PlannedArm:
    """Return the plan of an arm whose jobs were placed."""
    return PlannedArm(
        name=arm.name,
        jobs=tuple(map(_planned_job, placements.values())),
        controllers=controllers,
        faults=tuple(map(_planned_fault, arm.experiment.faults)),
    )


def _planned_job(placement: Placement) -> PlannedJob:
    return PlannedJob(
        name=placement.name,
        kind=placement.kind,
        fabric=placement.fabric,
        hosts=placement.hosts,
        spares=placement.spares,
        slots=tuple(place.slot for place in (*placement.places, *placement.spare_places)),
        ring_ports=dict(placement.ring_ports),
        circuits=in_order(placement.circuits),
        asked=tuple(map(in_order, placement.asked)),
    )


def planned_placements(arm: PlannedArm, experiment: Experiment) -> Placements:
    """Return where the jobs of an arm are, as planned; `experiment` has the options of the arm."""
    return Placements({one.name: _placement(one, experiment) for one in arm.jobs})


def _placement(planned: PlannedJob, experiment: Experiment) -> Placement:
    job: Job = kind("jobs", planned.kind).load()(experiment.jobs[planned.name].options)
    if planned.fabric == "circuit" and isinstance(job, FabricDependentJob):
        job = job.on_circuits()
    hosts, ranks = (*planned.hosts, *planned.spares), len(planned.hosts)
    places = tuple(map(Place, hosts, planned.slots))
    return Placement(
        *(planned.name, job, planned.kind, places[:ranks], places[ranks:]),
        *(frozenset(planned.circuits), planned.fabric, tuple(map(frozenset, planned.asked))),
        ring_ports=planned.ring_ports,
    )


def _planned_fault(fault: Fault) -> PlannedFault:
    options = plain_options(fault)
    return PlannedFault(
        fault.kind, fault.job, str(fault.target), fault.at.step, fault.hold, options, fault.at.after
    )


def plain_options(fault: Fault) -> dict[str, Any]:
    """Return the options of a fault as they are written in `plan.json` and events."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(fault.options), default=_plain))
    return plain


def _plain(value: object) -> object:
    """Return as JSON what an outside package may have among its options."""
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)
