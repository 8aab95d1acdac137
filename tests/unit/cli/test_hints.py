"""Every command that a hint, a message or an example names is one that the command line takes."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from testbed.cli.app import command_line, with_bare_options
from testbed.commands import clear_context, set_context, typed

ROOT = Path(__file__).parents[3]
SOURCES = [*(ROOT / "testbed").rglob("*.py"), *(ROOT / "drivers").rglob("*.py")]
SAMPLES = {
    "self.name": "ocs",
    "name": "rack",
    "switch": "ocs",
    "option": "--wiring",
    "action": "show",
    "user": "lab",
}
"""Of what hints fill in; anything else is the directory of a run."""
RUN = "results/20261122T100000Z-lumion-3fa2c1"
NEEDS_A_LAB = {"switch", "lock", "unlock"}


def filled(node: ast.AST) -> list[str]:
    """Return the words of an argument of `typed`, or the text of a string, with samples in it."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.Starred):
        return ["2", "19"]
    if isinstance(node, ast.JoinedStr):
        return ["".join("".join(filled(part)) for part in node.values)]
    if isinstance(node, ast.FormattedValue):
        return filled(node.value)
    return [SAMPLES.get(ast.unparse(node), RUN)]


@cache
def named() -> list[tuple[str, list[str] | str]]:
    """Return the file of every command that the code names: the words of `typed`, or its text."""
    found: list[tuple[str, list[str] | str]] = []
    for file in SOURCES:
        nodes = list(ast.walk(ast.parse(file.read_text())))
        skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
        joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
        skipped |= {id(part) for node in joined for part in node.values}
        for node in nodes:
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id == "typed":
                    words = [word for argument in node.args for word in filled(argument)]
                    found.append((file.name, words))
            elif isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in skipped:
                text = filled(node)[0]
                for command in re.findall(r"`(testbed [^`]+)`|: (testbed [^`;]+)$", text):
                    found.append((file.name, "".join(command)))
    return found


def said() -> list[tuple[str, str]]:
    """Return every command that the code names in a message, with the file that does."""
    return [(file, typed(*it) if isinstance(it, list) else it) for file, it in named()]


def verb(name: str) -> Any:
    """Return a verb, or None."""
    return command_line().get_command(None, name)


def top_context() -> typer.Context:
    """Return a context as the command line makes it: a command keeps what its first one said."""
    return typer.Context(command_line(), info_name="testbed", **command_line().context_settings)


def parse(command: str) -> typer.Context:
    """Have the command line read a command, without carrying it out."""
    first, *words = with_bare_options(shlex.split(re.sub(r" > \S+$", "", command))[1:])
    parent = top_context()
    found = verb(first)
    while hasattr(found, "get_command"):
        if found.invoke_without_command and (not words or words[0].startswith("-")):
            break
        parent = typer.Context(found, parent=parent, info_name="testbed")
        first, *words = words
        found = found.get_command(parent, first)
    assert found is not None, f"{command}: there is no {first!r}"
    return found.make_context(found.name, words, parent=parent)


CONTEXTS = ({"lab": "rack"}, {"twin": "mine"}, {"lab": "rack", "twin": "new"})


def test_every_command_in_a_hint_is_a_valid_command_line():
    for context in CONTEXTS:
        clear_context()
        set_context(**context)
        commands = said()
        assert len(commands) > 15, "where have all the hints gone?"
        for file, command in commands:
            check_hint(file, command)


def check_hint(file, command):
    context = parse(command)
    if command.split()[1] in NEEDS_A_LAB:
        assert context.params["lab"] or context.params["twin"], (file, command)
    placeholders = re.findall(r"(?<!command )\b[A-Z]{2,}\b", re.sub(RUN, "", command))
    assert not placeholders, (file, command)


def examples() -> list[str]:
    top = command_line()
    parent = top_context()
    found = [verb(name) for name in top.list_commands(parent)]
    for group in (verb("twin"), verb("queue")):
        found += [group.get_command(parent, name) for name in group.list_commands(parent)]
    lines = [command.epilog.partition(": ")[2] for command in (top, *found) if command.epilog]
    return [one.strip() for line in lines for one in line.split(";")]


@pytest.mark.parametrize("example", examples())
def test_every_example_of_a_help_page_is_a_valid_command_line(example):
    context = parse(example)
    if example.split()[1] in NEEDS_A_LAB:
        assert context.params["lab"] or context.params["twin"], example


def test_a_suggested_command_repeats_lab_twin_and_results():
    set_context(lab="my lab.yaml", twin="new", results="other")
    assert typed("switch", "ocs", "show") == "testbed switch ocs show --lab 'my lab.yaml' --twin"
    assert typed("doctor", "--wiring") == "testbed doctor 'my lab.yaml' --wiring --twin"
    assert typed("list", "runs") == "testbed list runs --results other"
    clear_context()
    assert typed("who") == "testbed who"
