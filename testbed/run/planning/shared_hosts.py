"""Hosts that two jobs use: only where the file says so, on a packet switch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.errors import FileError
from testbed.schema import Experiment

Users = Mapping[str, tuple[str, ...]]
"""The jobs that use each host, by host."""


def check_shared(experiment: Experiment, name: str, hosts: Sequence[str], users: Users) -> None:
    """Refuse hosts that another job has, unless one of the two says that it shares them."""
    jobs = experiment.jobs
    for index, host in enumerate(hosts):
        for other in users.get(host, ()):
            if other in jobs[name].shares_hosts_with or name in jobs[other].shares_hosts_with:
                continue
            raise FileError(
                experiment.source.where("jobs", name, "hosts", index),
                f"{host} is a host of job {other} already",
                hint=f"name another host, or write `shares_hosts_with: [{other}]`",
            )


def check_use(experiment: Experiment, name: str, hosts: Sequence[str], users: Users) -> None:
    """Refuse what a job on shared hosts cannot have: circuits, and fences that strike the other."""
    shared = [host for host in hosts if host in users]
    if not shared:
        return
    where, others = experiment.source.where, users[shared[0]]
    if experiment.needs.fabric != "packet":
        raise FileError(
            where("jobs", name, "hosts", list(hosts).index(shared[0])),
            f"{shared[0]} is a host of job {others[0]} too, and circuits join a port to one peer",
            hint="write `fabric: packet`, and use a lab with a packet switch",
        )
    for spec in experiment.reacting():
        if spec.job in (name, *others) and "membership" in spec.acts_on:
            raise FileError(
                where(*spec.steps, "kind"),
                f"{spec.kind} may fence hosts, and job {spec.job} shares {shared[0]} with "
                f"job {others[0] if spec.job == name else name}",
                hint="give that job hosts of its own",
            )
