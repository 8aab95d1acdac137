"""Return the twin settings and switch profiles that determine a planned run's numbers."""

from __future__ import annotations

from testbed.analysis.settings import Profile, Settings
from testbed.plugins import kind
from testbed.run.planning.fault_plans import job_fault
from testbed.run.planning.prediction import Physics
from testbed.run.planning.profiles import PROFILES, settings
from testbed.schema import Experiment, Lab


def planned_settings(experiment: Experiment, lab: Lab) -> dict[str, Settings]:
    """Return the settings of each arm on a twin of the lab."""
    return {
        arm.name: settings(arm, lab, _physics(arm.of(lab)), on_twin=True)
        for arm in experiment.arms()
    }


def planned_profiles(experiment: Experiment, lab: Lab) -> list[Profile]:
    """Return each profile with the time until light is back: loss, settle time and link-up.

    The list is empty where no trial can have a recovery, and where no switch is re-pointed.
    """
    found: list[Profile] = []
    if experiment.needs.fabric == "packet" or not lab.switches:
        return found
    if not any(_can_recover(arm.experiment) for arm in experiment.arms()):
        return found
    for profile in PROFILES:
        own = profile.of(_physics(lab))
        light = own.loss_of_signal + own.settle + own.link_up
        known = profile.link_up is not None
        found.append(
            Profile(profile.name, own.settle, own.link_up, known, profile.source, {"": light})
        )
    return found


def _can_recover(experiment: Experiment) -> bool:
    """Return whether something is broken that ends, or that the same hosts or a spare get over."""
    fault = job_fault(experiment)
    if fault is None or kind("faults", fault.kind).role:
        return False
    has_spare = any(getattr(job.options, "spares", 0) for job in experiment.jobs.values())
    in_place = kind("faults", fault.kind).fault.repair != "spare"
    return has_spare or fault.hold is not None or in_place


def _physics(lab: Lab) -> Physics:
    """Return the delays of a lab's twin; a switch that follows a card settles as that says."""
    settle = lab.twin.settle
    if lab.twin.cards:
        from testbed.twin.characterisation import settings_of

        settle = max(settings_of(lab)["settle"].values())
    return Physics(lab.twin.loss_of_signal, settle, lab.twin.link_up)
