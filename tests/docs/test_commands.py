"""Every command in the docs runs, from a directory that looks like a checkout."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands(page: Path) -> list[list[str]]:
    """Return the commands of a page's shell blocks, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("experiments", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_the_page_runs(page: Path, checkout: Path) -> None:
    for words in commands(page):
        if words[0] == "make":
            assert set(words[1:2]) <= TARGETS, words
            continue
        assert words[0] == "testbed", f"{page}: what is {words}?"
        done = subprocess.run(
            [sys.executable, "-m", "testbed.cli", *words[1:]],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, (words, done.stdout[-800:], done.stderr[-800:])


def test_the_readme_shows_the_commands_that_people_need() -> None:
    shown = {words[1] for words in commands(ROOT / "README.md") if words[0] == "testbed"}
    assert shown >= {"validate", "plan", "run", "report", "list", "doctor", "switch", "twin"}
