"""The command `compare`: compare runs with the first of them, or two characterisation cards."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from testbed.cli.app import RESULTS, JsonOption, RecordsOption, app, argument, print_json, terminal
from testbed.cli.characterisation import read_card
from testbed.cli.completion import run_names
from testbed.cli.record import report_damage
from testbed.commands import typed
from testbed.errors import EXIT_FAILED, EXIT_PASSED, TestbedError, UsageError
from testbed.fabric.card import drift
from testbed.files import is_file
from testbed.record.rundir import RunDirectory, find_run
from testbed.report.setting_differences import Setup
from testbed.schema import expanded, experiment_source, lab_source, split_overrides

Runs = Annotated[
    list[str],
    argument("RUN RUN...", "Runs: directories, names, their ends, `latest`.", run_names),
]


@app.command(
    epilog="Examples: testbed compare 3fa2c1 latest; testbed compare box.card.json twin.card.json"
)
def compare(runs: Runs, results: RecordsOption = RESULTS, json: JsonOption = False) -> int:
    """Compare runs with the first of them: metrics and settings; or compare two cards."""
    if len(runs) < 2:
        raise UsageError(
            "compare needs at least two runs or cards, got one", hint="name another one"
        )
    if any(is_file(name) for name in runs):
        return _compare_cards(runs, json=json)
    from testbed.report.compare import comparison_to_json, print_comparison

    directories = [find_run(results, name) for name in runs]
    with report_damage(*directories):
        summaries = [_summary(directory) for directory in directories]
        setups = _setups(directories, summaries)
        if json:
            print_json(comparison_to_json(summaries, setups))
        else:
            print_comparison(summaries, setups, terminal())
    return EXIT_PASSED


def _summary(directory: RunDirectory) -> dict[str, Any]:
    found = directory.read_json("summary.json")
    if "trials" not in found:
        raise UsageError(
            f"{directory.path} has no trials to compare: it is the record of a check, or of "
            "circuits changed by hand",
            hint=f"choose runs of experiments: `{typed('list', 'runs')}` shows them",
        )
    return found


def _setups(directories: list[RunDirectory], summaries: list[dict[str, Any]]) -> list[Setup]:
    """Return what each run was made from; nothing where that of one cannot be read."""
    try:
        return [_setup(*pair) for pair in zip(directories, summaries, strict=True)]
    except TestbedError:
        return []


def _setup(directory: RunDirectory, summary: dict[str, Any]) -> Setup:
    facts = directory.read_json("run.json")
    ours, theirs = split_overrides(facts.get("overrides", ()))
    return Setup(
        experiment_source(directory.inside("experiment.yaml"), ours).data,
        expanded(lab_source(directory.inside("lab.yaml"), theirs)).data,
        facts | {"repeat": _repeats(summary)},
    )


def _repeats(summary: dict[str, Any]) -> str:
    counts = sorted(set(Counter(trial["variant"] for trial in summary["trials"]).values()))
    return "–".join(map(str, dict.fromkeys([*counts[:1], *counts[-1:]]))) or "0"


def _compare_cards(names: list[str], *, json: bool) -> int:
    from testbed.report.compare import print_drift

    if len(names) > 2:
        raise UsageError(
            f"compare takes two characterisation cards, got {len(names)}", hint="name two files"
        )
    one, other = (read_card(Path(name)) for name in names)
    differences = list(drift(one, other))
    if json:
        print_json([asdict(difference) for difference in differences])
    else:
        print_drift(one, other, differences, terminal())
    return EXIT_FAILED if differences else EXIT_PASSED
