"""Test files can all be collected together, as the full counts are, and those named exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_two_test_files_share_a_name() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    shared = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    assert not shared


def test_every_test_that_a_page_names_exists() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("d*/**/*.md")]:
        for file in re.findall(r"\btests/[\w/]*/test_\w+\.py\b", page.read_text()):
            is_example = "acme" in file  # of a recipe
            assert is_example or (ROOT / file).is_file(), f"{page.name} names {file}"
