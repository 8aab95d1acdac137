"""Runs that are over and may have left something changed, told from their directories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UnsafeError
from testbed.record.journal import is_held, open_entries
from testbed.record.rundir import RunDirectory, runs
from testbed.schema import Lab, load_lab, split_overrides


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A run as its own directory tells of it; the files that it was started with may be gone."""

    directory: RunDirectory
    facts: Mapping[str, Any]
    """Its `run.json`."""

    @classmethod
    def read(cls, directory: RunDirectory) -> DeadRun:
        """Return the run of a directory; raise UsageError when it is none."""
        return cls(directory, directory.read_json("run.json"))

    @property
    def is_on_twin(self) -> bool:
        """Tell whether all that it changed was in a twin."""
        return self.facts.get("label") == "measured-twin"

    @property
    def twin(self) -> str:
        """Return the identity of that twin."""
        return str(self.facts.get("twin") or "")

    @property
    def lab_name(self) -> str:
        """Return the name of its lab."""
        return str(self.facts.get("lab", ""))

    def lab(self) -> Lab:
        """Return the lab as it was for the run, by the copy that it made."""
        _, theirs = split_overrides(self.facts.get("overrides", ()))
        return load_lab(self.directory.path / "lab.yaml", theirs)


def owing_runs(results: Path, leased: Iterable[RunDirectory] = ()) -> Iterator[RunDirectory]:
    """Yield the runs that are over and have left something changed.

    They are looked for below `results`, and among those that `leased` something and died.
    """
    found = {directory.path.resolve(): directory for directory in (*runs(results), *leased)}
    for directory in found.values():
        if _owes(directory) and not is_held(directory.journal):
            yield directory


def _owes(directory: RunDirectory) -> bool:
    try:
        return bool(open_entries(directory.journal))
    except (FileNotFoundError, PermissionError):  # none, or another user's to recover
        return False
    except UnsafeError:
        return True
