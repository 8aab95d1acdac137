"""Whatever can be typed or written in a file is in the docs, and the docs name nothing else."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from testbed.analysis.metric_definitions import METRICS
from testbed.cli.app import COMMANDS, app
from testbed.events.kinds import KINDS
from testbed.fabric.topologies import TOPOLOGIES
from testbed.plugins import kinds
from testbed.schema.json_schema import json_schema

ROOT = Path(__file__).parents[2]
FORMATS = (ROOT / "docs" / "file-formats.md").read_text()
README = (ROOT / "README.md").read_text()
DRIVERS = (ROOT / "drivers" / "README.md").read_text()
PLUGINS = (ROOT / "docs" / "plugins.md").read_text()


def _commands() -> dict[str, Any]:
    verbs: Any = get_command(app)
    top = {name: verbs.get_command(None, name) for name in COMMANDS}
    assert set(top) == set(get_command(app).commands), "a module registers what COMMANDS lacks"  # type: ignore[attr-defined]
    groups = [(group, top[group].commands.items()) for group in ("twin", "queue")]
    inner = {f"{group} {name}": command for group, named in groups for name, command in named}
    return {**top, **inner}


def test_every_command_has_help_with_an_example_and_is_in_a_page() -> None:
    pages = README + (ROOT / "CHANGELOG.md").read_text()
    for name, command in _commands().items():
        assert command.help, name
        assert name == "twin" or "xample" in (command.epilog or ""), f"{name} shows no example"
        assert name.split()[0] in pages, name
        for parameter in command.params:
            assert getattr(parameter, "help", "x"), f"{name}: {parameter.name} has no help"


def test_every_scheduling_policy_is_documented() -> None:
    tenancy = (ROOT / "docs" / "tenancy.md").read_text()
    for name in kinds("scheduling_policies"):
        for page in (tenancy, PLUGINS):
            assert f"`{name}`" in page, name


@pytest.mark.parametrize("group", ["drivers", "faults", "jobs", "policies", "controllers"])
def test_every_kind_and_its_options_are_documented(group: str) -> None:
    pages = (DRIVERS if group == "drivers" else FORMATS, PLUGINS)
    options = FORMATS + DRIVERS if group == "drivers" else FORMATS
    for name, kind in kinds(group).items():
        for page in pages:
            assert f"`{name}`" in page, name
        for option in fields(kind.options):
            assert f"`{option.name}`" in options, f"{name}: {option.name}"


def test_every_topology_and_its_options_are_documented() -> None:
    for name, kind in TOPOLOGIES.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", FORMATS, re.MULTILINE)
        of_kind: Any = kind
        assert all(f"`{option.name}`" in row for option in fields(of_kind)), name


def test_every_driver_has_a_row_in_the_table_of_drivers() -> None:
    for name in kinds("drivers"):
        assert re.search(rf"^\| `{name}` \|", DRIVERS, re.MULTILINE), name


@pytest.mark.parametrize("of", ["experiment", "lab", "circuits"])
def test_every_key_of_a_file_is_documented(of: str) -> None:
    for key in _keys(json_schema(of)):  # the options of drivers are on the drivers' own page
        assert re.search(rf"\b{re.escape(key)}\b", FORMATS + DRIVERS), key


def _keys(schema: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(schema, dict):
        found |= set(schema.get("properties", {}))
        for value in schema.values():
            found |= _keys(value)
    elif isinstance(schema, list):
        for value in schema:
            found |= _keys(value)
    return found


def test_every_metric_is_documented() -> None:
    for name in METRICS:
        assert f"`{name}`" in FORMATS, name


def test_every_defined_event_kind_is_written_by_the_code() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "testbed").rglob("*.py"))
    for kind in KINDS:
        assert sources.count(f'"{kind}"') > 1, f"nothing writes {kind}"


def test_every_experiment_states_its_question_and_is_in_the_readme() -> None:
    for path in (ROOT / "experiments").glob("*.yaml"):
        assert f"experiments/{path.name}" in README, path.name


def test_the_documented_experiment_equals_the_shipped_file() -> None:
    text = (ROOT / "experiments" / "lumion.yaml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    page = (ROOT / "docs" / "first-experiment.md").read_text()
    assert "```yaml\n" + "\n".join(lines) + "\n```" in page


def test_the_documented_packages_equal_the_directories_of_testbed() -> None:
    packages = {
        path.name for path in (ROOT / "testbed").iterdir() if (path / "__init__.py").exists()
    }
    shown = set(re.findall(r"\b([a-z]+)/", README[README.index("A map of the packages") :]))
    assert packages <= shown


def test_every_test_named_in_the_table_of_lessons_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.*)$", page, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 33))
    named = {name for _, row in rows for name in re.findall(r"`(tests/[\w/]+\.py)`", row)}
    missing = {name for name in named if not (ROOT / name).is_file()}
    assert not missing
