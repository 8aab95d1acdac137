"""Find dead runs that may have left changes, by their run directories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UnsafeError, UsageError
from testbed.record.journal import is_held, open_entries
from testbed.record.rundir import RunDirectory, foreign, owner_of, runs
from testbed.schema import Lab, load_lab, split_overrides

_LABELS = ("measured-hw", "measured-twin", "model")
_TRUSTED_FILES = ("run.json", "lab.yaml", "journal.jsonl")


@dataclass(frozen=True, slots=True)
class CrashedRun:
    """A dead run as its own directory describes it, without the files that it was started with."""

    directory: RunDirectory
    facts: Mapping[str, Any]
    """Its `run.json`."""

    @classmethod
    def read(cls, directory: RunDirectory) -> CrashedRun:
        """Return the run in a directory; raise UsageError if it is no run, or another user's."""
        directory = RunDirectory(directory.path.resolve())  # a link may soon lead elsewhere
        for name in ("", *_TRUSTED_FILES):
            _refuse_foreign(directory, directory.path / name)
        facts: object = directory.read_json("run.json")
        if not isinstance(facts, dict) or facts.get("label") not in _LABELS:
            raise UsageError(
                f"{directory.path}/run.json does not say whether it ran on hardware or on a twin",
                hint="check the switches and hosts of the lab by hand",
            )
        if _is_contradictory(facts):
            raise UsageError(
                f"{directory.path}/run.json does not say in which twin it ran: its label is "
                f"{facts['label']} and its twin {facts.get('twin')!r}",
                hint="changes in a twin are not undone on hardware; check the twin by hand",
            )
        return cls(directory, facts)

    @property
    def is_on_twin(self) -> bool:
        """Return whether all changes of the run were in a twin."""
        return self.facts.get("label") == "measured-twin"

    @property
    def is_model(self) -> bool:
        """Return whether the run only computed, without opening any device."""
        return self.facts.get("label") == "model"

    @property
    def twin(self) -> str:
        """Return the identity of the run's twin."""
        return str(self.facts.get("twin") or "")

    @property
    def lab_name(self) -> str:
        """Return the name of the run's lab."""
        return str(self.facts.get("lab", ""))

    def lab(self) -> Lab:
        """Return the lab in its state for the run, from the copy in the run directory."""
        _, theirs = split_overrides(self.facts.get("overrides", ()))
        return load_lab(self.directory.path / "lab.yaml", theirs)


def _is_contradictory(facts: Mapping[str, Any]) -> bool:
    """Tell whether a run's label and the identity of its twin do not go together."""
    twin = facts.get("twin")
    if facts["label"] == "measured-twin":
        return not (isinstance(twin, str) and twin)
    return facts["label"] == "measured-hw" and bool(twin)


def _refuse_foreign(run: RunDirectory, path: Path) -> None:
    """Raise UsageError for what another user could have written.

    The writer of a run's files decides which of the caller's secrets are sent where, and leases,
    which name directories, can be written by everybody.
    """
    if not (why := foreign(path)):
        return
    user = owner_of(path)
    hint = f"run it as {user}: testbed recover {run.path}"
    if "everybody" in why:
        hint = f"see that it is as the run left it, then type: chmod -R o-w {run.path}"
    raise UsageError(f"{run.id} is not recovered: {why}", hint=hint)


def runs_to_recover(results: Path, leased: Iterable[RunDirectory] = ()) -> Iterator[RunDirectory]:
    """Yield the dead runs that have left changes.

    They are searched in `results`, and among the dead runs in `leased`; one of these with a missing
    directory is included, as its changes are unknown.
    """
    found = {directory.path.resolve(): directory for directory in (*runs(results), *leased)}
    for directory in found.values():
        if _has_open_entries(directory):
            yield directory


def _has_open_entries(directory: RunDirectory) -> bool:
    try:
        if not directory.path.exists():
            return True
        return bool(open_entries(directory.journal)) and not is_held(directory.journal)
    except (FileNotFoundError, PermissionError):  # no journal, or another user's to recover
        return False
    except (OSError, UnsafeError):
        return True
