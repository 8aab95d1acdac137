"""Make a plan from an experiment and a lab; pure functions, with random draws from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cache

from testbed.control.fence_order import ORDER, fences
from testbed.control.protocol import Means
from testbed.errors import UsageError
from testbed.fabric.circuits import Circuit, SwitchPort, Wiring, crossings, fibre_ends, in_order
from testbed.run.planning import steps
from testbed.run.planning.arm_plans import PlannedArm, planned_arm
from testbed.run.planning.controllers import check_controllers, check_scopes
from testbed.run.planning.fault_plans import far_end_faults, job_faults, named_ranks
from testbed.run.planning.feasibility import check_fault, check_hosts, check_lab_changes
from testbed.run.planning.forecast import Forecast
from testbed.run.planning.host_attributes import hosts_lacking_attributes
from testbed.run.planning.metric_checks import check_metrics
from testbed.run.planning.model_experiments import is_model
from testbed.run.planning.placement import Placement, Placements, place
from testbed.run.planning.plan import Avoided, Fences, Plan
from testbed.run.planning.program_commands import command_lines
from testbed.schema import Arm, Experiment, Lab, avoided, usable_fibres


def make_plan(
    experiment: Experiment,
    lab: Lab,
    *,
    seed: int,
    repeat: int | None = None,
    without: Set[str] = frozenset(),
) -> Plan:
    """Return the plan; `repeat` replaces the experiment's number of trials per arm.

    Jobs that name no hosts get none of `without`, nor one that lacks an attribute for another arm.
    Raise FileError where the experiment needs something that the lab does not have or permit.
    """
    arms, count = experiment.arms(), repeat or experiment.trials
    computed = is_model(experiment)
    check_metrics(experiment)
    if computed:
        trials = tuple(
            steps.RunTrial(number, arm.name, ()) for number, arm in enumerate(arms * count)
        )
        return Plan(experiment.experiment, lab.lab, seed, trials)
    check_scopes(experiment)
    without = frozenset(without).union(
        *(hosts_lacking_attributes(arm.experiment, lab) for arm in arms)
    )
    placed = [(arm, place(arm.experiment, lab, without)) for arm in arms]
    first, wiring = placed[0][1], lab.wiring()
    planned_arms = tuple(_checked_arms(experiment, lab, placed, count))
    ends = fibre_ends(wiring, first.used, usable_fibres(lab))
    planned: tuple[steps.Step, ...] = (
        steps.OpenInstruments(
            tuple(sorted({end.switch for end in ends})),
            _power_units(lab, first.used),
            *optics_in_fibres(lab, ends),
        ),
        steps.OpenHosts(first.used),
        _joining(first, lab, wiring),
        *(_starting(arms[0].experiment, lab, placement) for placement in first.values()),
        *_trials(placed, lab, random.Random(seed), count),
        steps.Restore(experiment.keep),
    )
    fenced = _fences(lab, first.used) if any(arm.experiment.recovers for arm in arms) else ()
    whole = planned, _avoided(lab), fenced, planned_arms
    return Plan(experiment.experiment, lab.lab, seed, *whole)


def _checked_arms(
    experiment: Experiment, lab: Lab, placed: Sequence[tuple[Arm, Placements]], count: int
) -> Iterator[PlannedArm]:
    """Yield each arm of a plan; raise FileError for one that cannot be carried out."""
    for arm, placements in placed:
        check_hosts(experiment, arm, placements, placed[0][1])
        check_lab_changes(arm, lab)
        check_fault(arm, lab, placements, is_only_trial=count * len(placed) == 1)
        controllers = check_controllers(arm.experiment, lab, placements)
        for placement in placements.values():
            command_lines(arm.experiment, lab, placement)
        yield planned_arm(arm, placements, controllers)


def draw_seed(experiment: Experiment, given: int | None) -> int:
    """Return the seed of a run: the given one, else the one in the file, else a new one."""
    if given is not None:
        if given < 0:
            raise UsageError(f"a seed of {given} is negative", hint="give one of at least 0")
        return given
    if experiment.seed is not None:
        return experiment.seed
    return random.SystemRandom().randrange(2**31)


def _avoided(lab: Lab) -> tuple[Avoided, ...]:
    entries = avoided(lab).items()
    return tuple(Avoided(host, e.what, e.until.isoformat(), e.reason) for host, e in entries)


def _fences(lab: Lab, hosts: tuple[str, ...]) -> tuple[Fences, ...]:
    """Return how hosts would be fenced; those for which that is alike together."""
    alike: dict[frozenset[Means], list[str]] = {}
    for host in hosts:
        alike.setdefault(frozenset(lab.fences(host)), []).append(host)
    return tuple(
        Fences(tuple(names), *(fences(failure, permitted) for failure in ORDER))
        for permitted, names in alike.items()
    )


# --- what the steps hold -------------------------------------------------------------------


def _joining(
    placements: Placements, lab: Lab, wiring: Wiring
) -> steps.ProgramCircuits | steps.VerifyPaths:
    """Return the step that connects the jobs' hosts."""
    if any(placement.fabric == "packet" for placement in placements.values()):
        ports = (port for placement in placements.values() for port in placement.ports(lab))
        return steps.VerifyPaths(tuple(dict.fromkeys(ports)))
    circuits = in_order(placements.circuits)
    return steps.ProgramCircuits(circuits, _light(circuits, wiring))


def _starting(experiment: Experiment, lab: Lab, placement: Placement) -> steps.StartJob:
    return steps.StartJob(
        *(placement.name, placement.kind, placement.hosts, placement.spares),
        command_lines(experiment, lab, placement),
        tuple(map(in_order, placement.asked)),
    )


def _light(circuits: Iterable[Circuit], wiring: Wiring) -> tuple[steps.Light, ...]:
    return tuple(
        steps.Light(cross, a, b)
        for circuit in circuits
        for (a, b), way in zip(circuit.directions, crossings(circuit, wiring), strict=True)
        for cross in way
    )


def optics_in_fibres(lab: Lab, ends: Set[SwitchPort]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the attenuators and the meters in fibres with these ends."""
    attenuators = (n for n, a in lab.attenuators.items() if ends & set(a.fibres.values()))
    meters = (n for n, m in lab.meters.items() if ends & set(m.taps.values()))
    return tuple(sorted(attenuators)), tuple(sorted(meters))


def _power_units(lab: Lab, hosts: tuple[str, ...]) -> tuple[str, ...]:
    outlets = [lab.hosts[host].power for host in hosts]
    return tuple(sorted({outlet.unit for outlet in outlets if outlet is not None}))


def _trials(
    placed: Sequence[tuple[Arm, Placements]], lab: Lab, chance: random.Random, count: int
) -> Iterator[steps.RunTrial]:
    """Yield every arm `count` times, interleaved: in blocks of one each, each block shuffled."""
    of_far_ends = {arm.name: far_end_faults(arm.experiment, lab) for arm, _ in placed}
    circuits = {arm.name: placements.circuits for arm, placements in placed}
    before, forecast = placed[0][0].name, Forecast(lab)

    @cache
    def recabled(before: str, after: str) -> tuple[tuple[Circuit, ...], tuple[Circuit, ...]]:
        old, new = circuits[before], circuits[after]
        return in_order(old - new), in_order(new - old)

    for block in range(count):
        shuffled = list(placed)
        chance.shuffle(shuffled)
        for number, (arm, placements) in enumerate(shuffled, start=block * len(placed)):
            faults = _drawn_faults(arm.experiment, lab, placements, chance)
            yield steps.RunTrial(
                *(number, arm.name, faults, of_far_ends[arm.name], *recabled(before, arm.name)),
                forecast.recoveries(arm, placements, faults),
            )
            before = arm.name


def _drawn_faults(
    experiment: Experiment, lab: Lab, placements: Placements, chance: random.Random
) -> tuple[steps.FaultPlan, ...]:
    """Draw the victims and phases of a trial's faults; no rank is drawn twice.

    Of hosts that fail together, one is struck right after the other.
    """
    found: list[steps.FaultPlan] = []
    faults = job_faults(experiment)
    hosts = {fault.job: placements[fault.job].hosts for fault in faults}
    named = [named_ranks(fault.target, hosts[fault.job], lab) for fault in faults]
    hit = {(fault.job, r) for fault, ranks in zip(faults, named, strict=True) for r in ranks}
    for entry, (fault, ranks) in enumerate(zip(faults, named, strict=True)):
        if not ranks:
            left = [rank for rank in range(len(hosts[fault.job])) if (fault.job, rank) not in hit]
            ranks = (left[chance.randrange(len(left))],)
            hit |= {(fault.job, rank) for rank in ranks}
        phase = round(chance.random(), 6)
        port = str(fault.target) if fault.target.kind == "port" else ""
        step = found[-1].step if fault.at.step is None else fault.at.step
        for rank in ranks:
            after = fault.at.after if rank == ranks[0] else 0.0
            drawn = fault.kind, rank, step, phase, fault.hold, port, entry, after, fault.job
            found.append(steps.FaultPlan(*drawn))
    return tuple(found)
