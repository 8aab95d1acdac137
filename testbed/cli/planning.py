"""The command `plan`, with what determines the numbers of the run that it plans."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.analysis.settings import Profile, Settings
from testbed.cli.app import (
    RESULTS,
    ExperimentFile,
    JsonOption,
    LabOption,
    SetOption,
    TwinOption,
    app,
    page_width,
    print_json,
    terminal,
)
from testbed.cli.completion import run_names
from testbed.cli.files import Inputs, RepeatOption, SeedOption, read
from testbed.cli.profiling import print_break_even, print_profile, read_profile
from testbed.errors import UsageError
from testbed.plugins import kind
from testbed.run.planning.fault_plans import job_fault
from testbed.run.planning.prediction import Physics
from testbed.run.planning.profiles import settings
from testbed.run.reported_profiles import reported_profiles
from testbed.schema import Experiment, Lab

if TYPE_CHECKING:
    from rich.console import Console

_KEEP = "keep one of a run, as by `testbed profile latest --json`, and name it with --profile"

ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="RUN|FILE",
        help="A run of the job in groups, or a profile of one that was kept.",
        autocompletion=run_names,
    ),
]


@app.command(
    epilog="Examples: testbed plan experiments/lumion.yaml --lab rack --seed 7; "
    "testbed plan experiments/opus.yaml --profile latest"
)
def plan(
    experiment: ExperimentFile,
    lab: LabOption = "",
    twin: TwinOption = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
    repeat: RepeatOption = None,
    seed: SeedOption = None,
    profile: ProfileOption = "",
    json: JsonOption = False,
) -> None:
    """Print exactly what `run` would do, without opening any device.

    With a profile of a job in groups, print what each arm's rails would cost, by a replay.
    """
    inputs = read(experiment, lab, set_, repeat, seed, twin=twin)
    planned = inputs.plan
    if profile and planned.on_paper:
        raise UsageError(f"{experiment} is computed from a model, which a profile does not change")
    if json:
        if profile:
            raise UsageError("--json prints the plan alone", hint="leave out --profile or --json")
        print_json(planned.to_json())
        return
    from testbed.report.plan_page import print_plan

    print_plan(planned, sys.stdout, page_width())
    if not planned.on_paper:
        from testbed.report.plan_page import print_planned

        settings = planned_settings(inputs.experiment, inputs.lab)
        profiles = planned_profiles(inputs.experiment, inputs.lab)
        print_planned(settings, profiles, sys.stdout, page_width())
        _print_rail_costs(inputs, profile, terminal())


def _print_rail_costs(inputs: Inputs, name: str, page: Console) -> None:
    """Print what the rails of a planned experiment would cost, by a profile or a run of that name.

    Without a name, print how to keep a profile, if the experiment has rails.
    """
    from testbed.analysis.rail_prediction import planned_stalls, rail_jobs
    from testbed.rails.rail_replay import Rails
    from testbed.rails.workload import workload_of
    from testbed.report.rail_pages import print_planned_stalls

    arms = inputs.experiment.arms()
    if not name:
        if any(map(rail_jobs, arms)):
            page.print(f"\nWhat its rails would cost is not known without a profile: {_KEEP}")
        return
    profile = read_profile(name, RESULTS)
    try:
        rows = planned_stalls(arms, planned_settings(inputs.experiment, inputs.lab), profile)
    except ValueError as error:
        raise UsageError(f"the profile {name} cannot be replayed on rails: {error}") from error
    if not rows:
        raise UsageError(
            f"{inputs.experiment.experiment} has no job of {profile.ranks} ranks on rails, as the "
            f"profile {name} does",
            hint=_KEEP,
        )
    page.print()
    print_profile(profile, Rails(), page)
    print_planned_stalls(rows, page)
    print_break_even(workload_of(profile), Rails(), page)


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
    for profile in reported_profiles():
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
    """Return the delays of a lab's twin, of the slowest switch and links; cards say theirs."""
    twin = lab.twin
    if not twin.cards:
        return Physics(twin.loss_of_signal, twin.settle, twin.link_up)
    from testbed.twin.characterisation import settings_of

    of_switch = settings_of(lab)
    slowest = (max(of_switch[what].values()) for what in ("settle", "link_up"))
    return Physics(twin.loss_of_signal, *slowest)
