"""From an experiment and a lab to a plan. Pure, but for the draws, which come from the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from testbed.errors import FileError, UsageError
from testbed.fabric.circuits import (
    Circuit,
    CrossConnect,
    HostPort,
    Matching,
    cross_connects,
)
from testbed.fabric.topology import ring, ring_link
from testbed.jobs.words import Job
from testbed.plugins import kind, nearest
from testbed.run.far_end_plan import far_end_faults, is_of_far_end
from testbed.run.plan import (
    FaultPlan,
    Light,
    OpenHosts,
    OpenInstruments,
    Plan,
    ProgramCircuits,
    Restore,
    RunTrial,
    StartJob,
    Step,
)
from testbed.schema import Arm, Experiment, Fault, Lab

_OF_A_PORT = ("attenuate",)
"""Faults whose target is a fabric port."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A job on hosts: the ranks' hosts in rank order, then the spares."""

    name: str
    job: Job
    kind: str
    hosts: tuple[str, ...]
    spares: tuple[str, ...]
    circuits: Matching


def make_plan(experiment: Experiment, lab: Lab, *, seed: int, repeat: int | None = None) -> Plan:
    """Return the plan; `repeat` replaces the experiment's number of trials per arm.

    Raise FileError where the experiment asks for what the lab does not have or permit.
    """
    _check_metrics(experiment)
    first, *others = experiment.arms()
    placement = place(first.experiment, lab)
    used = [*placement.hosts, *placement.spares]
    for arm in others:
        _check_hosts(experiment, arm, place(arm.experiment, lab), used)
    trials = tuple(_trials(experiment, lab, random.Random(seed), repeat or experiment.trials))
    steps: tuple[Step, ...] = (
        OpenInstruments(_switches(lab, used), _power_units(lab, used), *_optics(lab, used)),
        OpenHosts(tuple(used)),
        ProgramCircuits(tuple(sorted(placement.circuits)), _light(placement.circuits, lab)),
        StartJob(placement.name, placement.kind, placement.hosts, placement.spares),
        *trials,
        Restore(experiment.keep),
    )
    return Plan(experiment.experiment, lab.lab, seed, steps)


def place(experiment: Experiment, lab: Lab) -> Placement:
    """Return who is which rank of the experiment's job, and the circuits between them."""
    _check_needs(experiment, lab)
    if len(experiment.jobs) > 1:
        second = list(experiment.jobs)[1]
        raise FileError(
            experiment.source.where("jobs", second),
            "a second job in one experiment cannot be run yet",
            hint="give each job an experiment of its own",
        )
    name, spec = next(iter(experiment.jobs.items()))
    job: Job = kind("jobs", spec.kind).load()(spec.options)
    hosts = _choose_hosts(experiment, lab, name, job.ranks + job.spares)
    ranks, spares = hosts[: job.ranks], hosts[job.ranks :]
    return Placement(
        name, job, spec.kind, ranks, spares, _circuits(experiment, lab, name, hosts, job)
    )


def _check_needs(experiment: Experiment, lab: Lab) -> None:
    needs = experiment.needs
    if needs.hosts > len(lab.hosts):
        raise FileError(
            experiment.source.where("needs", "hosts"),
            f"the experiment needs {needs.hosts} hosts and lab {lab.lab} has {len(lab.hosts)}",
        )
    if needs.fabric == "packet" or (needs.fabric == "circuit" and not lab.switches):
        raise FileError(
            experiment.source.where("needs", "fabric"),
            f"the experiment needs a {needs.fabric} fabric and lab {lab.lab} has "
            f"{'circuits' if lab.switches else 'no switch'}",
        )


def _check_metrics(experiment: Experiment) -> None:
    # Not above: it brings NumPy, which no other verb needs.
    from testbed.analysis.metrics import METRICS, meaning

    for key, statistics in experiment.checks.items():
        for name in (key, statistics.same_as or key):
            metric = name.rpartition(".")[2]
            try:
                meaning(metric)
            except KeyError:
                raise FileError(
                    experiment.source.where_key("checks", key),
                    f"{metric!r} is no metric",
                    hint=nearest(metric, list(METRICS)),
                ) from None


def _check_hosts(experiment: Experiment, arm: Arm, placement: Placement, used: list[str]) -> None:
    for host in (*placement.hosts, *placement.spares):
        if host not in used:
            raise FileError(
                experiment.source.where("variants", arm.name),
                f"{arm.name} uses host {host}, which the first variant does not",
                hint="name the variant that uses the most hosts first",
            )


def _choose_hosts(experiment: Experiment, lab: Lab, name: str, count: int) -> tuple[str, ...]:
    named = experiment.jobs[name].hosts
    for index, host in enumerate(named or ()):
        if host not in lab.hosts:
            raise FileError(
                experiment.source.where("jobs", name, "hosts", index),
                f"{host!r} is no host of lab {lab.lab}",
                hint=nearest(host, list(lab.hosts)),
            )
    hosts = tuple(named or lab.hosts)
    if len(hosts) < count:
        raise FileError(
            experiment.source.where("jobs", name, "hosts" if named else "ranks"),
            f"ranks and spares need {count} hosts, and there are {len(hosts)}",
        )
    if count > experiment.needs.hosts:
        raise FileError(
            experiment.source.where("needs", "hosts"),
            f"the experiment says it needs {experiment.needs.hosts} hosts, and job {name} "
            f"uses {count}",
        )
    return hosts[:count]


def _circuits(
    experiment: Experiment, lab: Lab, name: str, hosts: tuple[str, ...], job: Job
) -> Matching:
    """Return the job's first circuits, having checked that every host could take any place.

    A spare takes the victim's place and the victim is a spare then, so any host may come to
    follow any other.
    """
    ports, wiring = lab.ports(), lab.wiring()
    try:
        circuits = ring(hosts[: job.ranks], ports)
        cross_connects(circuits, wiring)
        if job.spares:
            ring(hosts, ports)
            links = [ring_link(a, b, ports) for a, b in permutations(hosts, 2)]
            cross_connects([Circuit.between(*link) for link in links], wiring)
    except ValueError as error:
        raise FileError(
            experiment.source.where("jobs", name, "topology"),
            f"the fibres of lab {lab.lab} cannot make this {job.topology}: {error}",
        ) from None
    return circuits


def _light(circuits: Matching, lab: Lab) -> tuple[Light, ...]:
    wiring = lab.wiring()
    return tuple(
        Light(CrossConnect(wiring[a].tx.switch, wiring[a].tx.number, wiring[b].rx.number), a, b)
        for circuit in sorted(circuits)
        for a, b in (circuit.ends, circuit.ends[::-1])
    )


def _switches(lab: Lab, hosts: list[str]) -> tuple[str, ...]:
    ends = [f for port, f in lab.wiring().items() if port.host in hosts]
    return tuple(sorted({end.switch for pair in ends for end in (pair.tx, pair.rx)}))


def _optics(lab: Lab, hosts: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the attenuators and the power meters in the fibres of hosts."""
    wired = lab.wiring().items()
    ends = {end for port, f in wired if port.host in hosts for end in (f.tx, f.rx)}
    attenuators = (n for n, a in lab.attenuators.items() if ends & set(a.fibres.values()))
    meters = (n for n, m in lab.meters.items() if ends & set(m.taps.values()))
    return tuple(sorted(attenuators)), tuple(sorted(meters))


def _power_units(lab: Lab, hosts: list[str]) -> tuple[str, ...]:
    outlets = [lab.hosts[host].power for host in hosts]
    return tuple(sorted({outlet.unit for outlet in outlets if outlet is not None}))


def _trials(
    experiment: Experiment, lab: Lab, chance: random.Random, count: int
) -> Iterator[RunTrial]:
    """Yield every arm `count` times, interleaved: in blocks of one each, each block shuffled."""
    number = 0
    for _ in range(count):
        block = list(experiment.arms())
        chance.shuffle(block)
        for arm in block:
            misbehaviour = far_end_faults(arm.experiment, lab)
            yield RunTrial(number, arm.name, _fault(arm, lab, chance), misbehaviour)
            number += 1


def _fault(arm: Arm, lab: Lab, chance: random.Random) -> FaultPlan | None:
    experiment = arm.experiment
    if not experiment.faults or is_of_far_end(experiment.faults[0]):
        return None
    fault = experiment.faults[0]
    placement = place(experiment, lab)
    _check_permission(experiment, lab, fault, (*placement.hosts, *placement.spares))
    port = _port(experiment, lab, fault)
    rank = _victim(experiment, fault, placement, chance)
    phase = round(chance.random(), 6)
    return FaultPlan(fault.kind, rank, fault.at.step, phase, fault.hold, port)


def _victim(
    experiment: Experiment, fault: Fault, placement: Placement, chance: random.Random
) -> int:
    target = fault.target
    where = experiment.source.where("faults", 0, "target")
    if target.kind == "random":
        return chance.randrange(len(placement.hosts))
    if target.kind == "rank" and target.rank is not None:
        if target.rank < len(placement.hosts):
            return target.rank
        raise FileError(where, f"rank {target.rank} is none of the {len(placement.hosts)} ranks")
    if target.host in placement.hosts and (target.kind == "host" or fault.kind in _OF_A_PORT):
        return placement.hosts.index(target.host)
    raise FileError(
        where,
        f"{target} is no rank's host",
        hint="write 'random', 'rank 2' or one of " + ", ".join(placement.hosts),
    )


def _port(experiment: Experiment, lab: Lab, fault: Fault) -> str:
    """Return the port that a fault hits; empty for one that hits a host or a rank."""
    if fault.kind not in _OF_A_PORT:
        return ""
    target, where = fault.target, experiment.source.where("faults", 0, "target")
    if target.kind != "port":
        raise FileError(
            where, f"{fault.kind} hits a port, and {target} is none", hint="write it as 'h0.p1'"
        )
    port = HostPort(target.host, target.port)
    if port not in (wiring := lab.wiring()):
        known = sorted(map(str, wiring))
        raise FileError(
            where, f"{port} is no port of lab {lab.lab}", hint=nearest(str(port), known)
        )
    attenuated = lab.attenuated()
    if not {wiring[port].tx, wiring[port].rx} & attenuated.keys():
        raise FileError(
            where,
            f"no fibre of {port} runs through an attenuator of lab {lab.lab}",
            hint="name one under `attenuators:` in the lab file, or aim at another port",
        )
    return str(port)


def _check_permission(
    experiment: Experiment, lab: Lab, fault: Fault, hosts: tuple[str, ...]
) -> None:
    where = experiment.source.where("faults", 0, "kind")
    for host in hosts:
        if not lab.permits(fault.kind, host):
            raise FileError(
                where,
                f"lab {lab.lab} does not permit {fault.kind} on {host}",
                hint="its file says what it permits, under `allow`",
            )
        if fault.kind == "power-cut" and lab.hosts[host].power is None:
            raise FileError(
                where,
                f"{host} of lab {lab.lab} has no power unit, so its power cannot be cut",
                hint="add `power:` to it in the lab file, or break something else",
            )


def draw_seed(experiment: Experiment, given: int | None) -> int:
    """Return the run's seed: the one given, else the file's, else a new one."""
    if given is not None:
        if given < 0:
            raise UsageError(f"a seed of {given} is negative")
        return given
    if experiment.seed is not None:
        return experiment.seed
    return random.SystemRandom().randrange(2**31)
