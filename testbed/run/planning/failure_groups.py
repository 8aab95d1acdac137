"""Check a fault of all hosts in one rack, or on one feed, before any device is opened."""

from __future__ import annotations

from testbed.errors import FileError
from testbed.plugins import kind, nearest
from testbed.run.planning.fault_plans import breaks, members
from testbed.run.planning.placement import Placement
from testbed.schema import Experiment, Lab


def check_fails_together(
    experiment: Experiment, lab: Lab, entry: int, placement: Placement, *, is_only_trial: bool
) -> None:
    """Raise FileError for a rack or a feed of which no trial could have the hosts fail together.

    They are those of the job's ranks; one that hosts are only spares on would be used for a repair
    although it had failed, too.
    """
    fault, name = experiment.faults[entry], placement.name
    target = fault.target
    where = experiment.source.where("faults", entry, "target")
    known = {getattr(host, target.kind) for host in lab.hosts.values()} - {None}
    if target.group not in known:
        message = f"lab {lab.lab} has no {target}"
        hint = nearest(target.group, sorted(known))
        if not known:
            hint = f"give its hosts `{target.kind}: {target.group}` in the lab file"
        raise FileError(where, message, hint=hint)
    struck = members(target, placement.hosts, lab)
    if not struck:
        its = ", ".join(dict.fromkeys(placement.hosts))
        raise FileError(where, f"no rank of job {name} is in {target}; its hosts are {its}")
    if spares := members(target, placement.spares, lab):
        message = f"{target} has {spares[0]}, too, a spare of job {name}, which would fail as well"
        raise FileError(where, message, hint=f"list a spare that is not in {target} under `hosts`")
    if len({*struck}) < len(struck):
        message = f"{fault.kind} hits one rank, and {struck[0]} runs several"
        raise FileError(where, message, hint="write 'rank 0'")
    if kind("faults", fault.kind).fault.hits != "rank" or not breaks(fault.kind):
        message = f"{fault.kind} is no failure of a host, and {target} names hosts"
        raise FileError(where, message, hint="write 'random' or 'rank 0'")
    if placement.job.endless and experiment.recovers and not is_only_trial:
        message = (
            f"hosts in {target} may be spares in later trials, as the job lives on from trial "
        )
        raise FileError(where, f"{message}to trial", hint="give the job `steps`")
