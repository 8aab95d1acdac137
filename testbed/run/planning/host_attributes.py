"""Which hosts of a lab have what an experiment needs of each of its hosts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.errors import FileError
from testbed.plugins import nearest
from testbed.schema import Experiment, Lab, avoided
from testbed.tenancy.attributes import constraints, is_eligible


def hosts_lacking_attributes(experiment: Experiment, lab: Lab) -> dict[str, str]:
    """Return the hosts that lack an attribute that an experiment needs, with what each has."""
    demanded, found = constraints(experiment.needs.attributes), dict[str, str]()
    for name, host in lab.hosts.items():
        has = host.all_attributes
        if not is_eligible(has, demanded):
            key = next(key for key, least in demanded if key not in has or has[key] < least)
            found[name] = f"{name} has {key} {has[key]:g}" if key in has else f"{name} has no {key}"
    return found


def check_attributes(experiment: Experiment, lab: Lab) -> None:
    """Raise FileError where too few hosts of a lab have what each must have."""
    unfit = hosts_lacking_attributes(experiment, lab)
    set_aside, needs = avoided(lab), experiment.needs
    suited = [host for host in lab.hosts if host not in unfit and host not in set_aside]
    if needs.hosts <= len(suited):
        return
    known = sorted({key for host in lab.hosts.values() for key in host.all_attributes})
    unknown = next((key for key in needs.attributes if key not in known), "")
    has = f"{len(suited)}: {', '.join(suited)}" if suited else "none"
    raise FileError(
        experiment.source.where("needs", "attributes"),
        f"the experiment needs {needs.hosts} hosts with {_wanted(experiment)}, and lab {lab.lab} "
        f"has {has}",
        hint=nearest(unknown, known) if unknown else _first(list(unfit.values())),
    )


def check_named_host(experiment: Experiment, lab: Lab, job: str, index: int, host: str) -> None:
    """Raise FileError for a host that a job names and that lacks what the experiment needs."""
    if reason := hosts_lacking_attributes(experiment, lab).get(host):
        raise FileError(
            experiment.source.where("jobs", job, "hosts", index),
            f"{reason}, and the experiment needs hosts with {_wanted(experiment)}",
            hint="name another host, or change needs.attributes",
        )


def _wanted(experiment: Experiment) -> str:
    demanded = experiment.needs.attributes.items()
    return " and ".join(f"{key} of at least {least:g}" for key, least in demanded)


def _first(reasons: Sequence[str], shown: int = 3) -> str:
    more = f", and {len(reasons) - shown} more" if len(reasons) > shown else ""
    return "; ".join(reasons[:shown]) + more
