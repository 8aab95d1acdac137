"""Look up labs, experiments and results by name, from any working directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import testbed
from testbed.commands import set_context
from testbed.errors import UsageError
from testbed.files import exists, is_directory, is_file
from testbed.plugins import nearest
from testbed.twin import NEW_TWIN

LABS, EXPERIMENTS = "configs", "experiments"
RESULTS = Path("results")
COMMAND_VARIABLE = "TESTBED_COMMAND"
"""Set for a command that runs inside a twin, to what a person typed outside."""
LAB_VARIABLE = "TESTBED_LAB"
"""Set for commands inside a twin that stands, to its lab file."""

_SUFFIXES = (".yaml", ".yml")
_WORDS = {LABS: "lab", EXPERIMENTS: "experiment"}


def places(of: str) -> list[Path]:
    """Return the existing directories of labs or experiments, the nearest first.

    Searched are the working directory, each parent directory that has both, and the directory of
    this code.
    """
    found = [Path(of), *(root / of for root in _roots())]
    return [place for place in dict.fromkeys(found) if is_directory(place)]


def _roots() -> list[Path]:
    """Return the directories that hold both labs and experiments, without the current one."""
    above = [*_here().parents, Path(testbed.__file__).resolve().parents[1]]
    wanted = [root for root in above if all(is_directory(root / of) for of in (LABS, EXPERIMENTS))]
    return [root for root in dict.fromkeys(wanted) if root != _here()]


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "the working directory no longer exists", hint="change to an existing directory"
        ) from None


def found_file(name: str, of: str, besides: Path | None = None) -> Path:
    """Return the path of a lab or experiment given by path or name; `.yaml` may be left out.

    `besides` is searched last. Raise UsageError with the directories searched.
    """
    what = _WORDS[of]
    if not Path(name).name:
        raise UsageError(f"{name!r} names no {what} file", hint=_given(name))
    for path in _spellings(Path(name)):
        if is_file(path) and (path.suffix in _SUFFIXES or "/" in name):
            return path
    if "/" in name:
        where = Path(name).parent
        known = _names([where])
        raise UsageError(
            f"there is no {what} file {name} (looked in {where.absolute()})",
            hint=nearest(_stem(name), known) if known else "check the path",
        )
    searched = [*places(of), *([besides] if besides and is_directory(besides) else [])]
    for place in searched:
        for path in _spellings(place / name):
            if is_file(path) and path.suffix in _SUFFIXES:
                return path
    raise UsageError(
        f"no {what} is called {_stem(name)!r} (looked in {_listed(searched)})",
        hint=nearest(_stem(name), _names(searched)),
    )


def named_file(name: str) -> Path:
    """Return the path of an experiment or a lab, given by path or name."""
    if not name:
        raise UsageError("'' names no file", hint=_given(name))
    if exists(name) or "/" in name:
        return next((path for path in _spellings(Path(name)) if exists(path)), Path(name))
    searched = [place for of in _WORDS for place in places(of)]
    for path in (path for place in searched for path in _spellings(place / name)):
        if is_file(path):
            return path
    raise UsageError(
        f"no experiment or lab is called {_stem(name)!r} (looked in {_listed(searched)})",
        hint=nearest(_stem(name), _names(searched)),
    )


def _listed(directories: list[Path]) -> str:
    places = ", ".join(map(str, dict.fromkeys(directories)))
    return places or f"no directory {LABS!r} or {EXPERIMENTS!r} is there"


def _given(name: str) -> str:
    if name:
        return "name a file, not a directory"
    return "the argument is empty: is a variable of the shell unset?"


def _spellings(path: Path) -> list[Path]:
    if not path.name:  # nothing that a suffix could be added to
        return [path]
    return [path, *(path.with_name(f"{path.name}{suffix}") for suffix in _SUFFIXES)]


def _names(directories: list[Path]) -> list[str]:
    files: list[Path] = []
    for place in directories:
        with suppress(OSError):  # not readable, or gone: it names nothing
            files += place.iterdir()
    return sorted({file.stem for file in files if file.suffix in _SUFFIXES})


def _stem(name: str) -> str:
    path = Path(name)
    return path.stem if path.suffix in _SUFFIXES else path.name


def lab_file(name: str, experiment: Path | None = None) -> Path:
    """Return the lab file with a name or path; raise UsageError if there is none."""
    besides = experiment.resolve().parent.parent / LABS if experiment else None
    file = found_file(name, LABS, besides)
    set_context(lab=typed_lab(name, file))
    return file


def typed_lab(name: str, file: Path) -> str:
    """Return the lab as an argument of a command: its name if that finds a file, else its file."""
    try:
        found_file(name, LABS)
    except UsageError:
        return str(file)
    return name


def chosen_lab(name: str, twin: str = "", usual: str = "", experiment: Path | None = None) -> Path:
    """Return the lab file of a command: the named one, the named twin's, or the default.

    Inside a running twin, the default is the lab file of that twin.
    """
    if twin:
        set_context(twin=twin)
    if not name and twin and twin != NEW_TWIN:
        from testbed.twin import registry

        return Path(registry.find(twin).lab_file)
    if not name and (inside := os.environ.get(LAB_VARIABLE)):
        return Path(inside)
    if not name and not usual:
        raise UsageError("no lab is given", hint="name one with --lab, or a twin with --twin")
    return lab_file(name or usual, experiment)


def results_to_read(given: Path) -> Path:
    """Return the results directory to read: the given one, or the nearest default one."""
    set_context(results="" if given == RESULTS else str(given))
    if given != RESULTS or is_directory(given):
        return given
    return next((root / RESULTS for root in _roots() if is_directory(root / RESULTS)), given)
