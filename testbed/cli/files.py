"""The commands that read files only, `validate` and `schema`, and how files are read for all."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from testbed.cli.app import (
    app,
    argument,
    print_json,
)
from testbed.cli.completion import labs_and_experiments
from testbed.cli.file_lookup import EXPERIMENTS, chosen_lab, found_file, named_file
from testbed.errors import UsageError
from testbed.schema import (
    MAX_TRIALS,
    CircuitList,
    Experiment,
    Lab,
    check_quarantine,
    load,
    load_experiment,
    load_lab,
    split_overrides,
)

if TYPE_CHECKING:
    from testbed.run.planning.plan import Plan

SeedOption = Annotated[
    int | None,
    typer.Option("--seed", help="Seed of every random draw; a new one unless the file has one."),
]
RepeatOption = Annotated[
    int | None,
    typer.Option(
        "--repeat", min=1, max=MAX_TRIALS, help="Trials of each variant, instead of the file's."
    ),
]


@app.command(epilog="Example: testbed validate experiments/*.yaml configs/*.yaml")
def validate(
    file: Annotated[
        list[str],
        argument("FILE...", "Experiment and lab files, or names.", labs_and_experiments),
    ],
) -> int:
    """Check files and print each mistake as file:line:column with what was expected."""
    from testbed.run.planning.controllers import check_scopes
    from testbed.run.planning.metric_checks import check_metrics
    from testbed.twin.characterisation import check_cards

    worst = 0
    for name in file:
        try:
            found = load(path := named_file(name))
            if isinstance(found, Lab):
                check_quarantine(found, _today())
                check_cards(found)
            if isinstance(found, Experiment):
                if any(arm.experiment.controllers for arm in found.arms()):
                    check_scopes(found)
                if found.checks:
                    check_metrics(found)
        except UsageError as error:
            worst = error.exit_code
            for one in (error, *getattr(error, "others", ())):
                print(f"testbed: {one}", file=sys.stderr)
        else:
            names = {Experiment: "experiment", Lab: "lab", CircuitList: "list of circuits"}
            print(f"{path}: a valid {names[type(found)]}")
    return worst


@app.command(epilog="Example: testbed schema lab > lab.schema.json")
def schema(
    of: Annotated[
        Literal["experiment", "lab", "circuits", "events"], typer.Argument(help="Which file.")
    ],
) -> None:
    """Print the JSON Schema of a file format, for editors; `events` is a line of events.jsonl."""
    if of == "events":
        from testbed.events import json_schema as of_events
        from testbed.record.event_kinds import event_kinds

        print_json(of_events.json_schema(event_kinds()))
        return
    from testbed.schema.json_schema import json_schema

    print_json(json_schema(of))


@dataclass(frozen=True, slots=True)
class Inputs:
    """The checked experiment and lab files of a command line, and the plan made from them."""

    experiment: Experiment
    lab: Lab
    lab_file: Path
    overrides: list[str]
    plan: Plan


def read(
    name: str,
    lab: str,
    overrides: list[str],
    repeat: int | None,
    seed: int | None,
    *,
    twin: str = "",
) -> Inputs:
    """Read the experiment and lab files with their overrides and plan; raise any error in them."""
    from testbed.run.planning.planner import draw_seed, make_plan
    from testbed.run.planning.program_commands import refuse_a_twin

    path = found_file(name, EXPERIMENTS)
    ours, theirs = split_overrides(overrides)
    experiment = load_experiment(path, ours)
    if twin:
        refuse_a_twin(experiment)
    file = chosen_lab(lab, twin, experiment.lab or "", path)
    found = load_lab(file, theirs)
    check_quarantine(found, _today())
    plan = make_plan(experiment, found, seed=draw_seed(experiment, seed), repeat=repeat)
    return Inputs(experiment, found, file, overrides, plan)


def _today() -> date:
    return datetime.now(UTC).date()
