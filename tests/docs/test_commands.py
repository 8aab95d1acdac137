"""Every command in the docs runs, from a directory that looks like a checkout."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

SMALL = {
    "lumion.yaml": (
        "batch: 1}",
        "batch: 1, dim: 64, layers: 2, heads: 2, hidden: 128, sequence: 16, pace: 20 ms}",
    ),
    "allreduce.yaml": ("[4 KiB, 64 KiB, 1 MiB, 4 MiB, 16 MiB]", "[4 KiB, 64 KiB]"),
}


def commands(page: Path) -> list[list[str]]:
    """Return the commands of a page's shell blocks, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


EVERY = [(page, words) for page in PAGES for words in commands(page)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One directory for all: a command may need what those before it on its page have left.

    Its experiments are as ours, but for what takes long to run: a model and messages are smaller.
    """
    path = tmp_path_factory.mktemp("checkout")
    (path / "configs").symlink_to(ROOT / "configs")
    shutil.copytree(ROOT / "experiments", path / "experiments")
    for name, (ours, small) in SMALL.items():
        file = path / "experiments" / name
        text = file.read_text()
        assert text.count(ours) == 1, f"{name} has no {ours!r}"
        file.write_text(text.replace(ours, small))
    (path / "runtime").mkdir()
    yield path
    if "rack" in _ran(path, ["twin", "list"]).stdout:  # `twin down` has failed, or was not run here
        _ran(path, ["twin", "down", "rack"])


def _ran(checkout: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "testbed.cli", *words],
        # Its twins are not those of whoever runs the tests.
        env={**os.environ, "XDG_RUNTIME_DIR": str(checkout / "runtime")},
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("page", "words"), EVERY, ids=lambda it: " ".join(it) if isinstance(it, list) else it.name
)
def test_every_command_of_a_page_runs(page: Path, words: list[str], checkout: Path) -> None:
    if words[0] == "make":
        assert set(words[1:2]) <= TARGETS, words
        return
    assert words[0] == "testbed", f"{page}: what is {words}?"
    done = _ran(checkout, words[1:])
    assert done.returncode == 0, (words, done.stdout[-800:], done.stderr[-800:])


def test_the_readme_shows_the_main_commands() -> None:
    shown = {words[1] for words in commands(ROOT / "README.md") if words[0] == "testbed"}
    assert shown >= {"validate", "plan", "run", "report", "list", "doctor", "switch", "twin"}
