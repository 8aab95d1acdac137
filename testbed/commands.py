"""Commands in hints, complete with the lab, twin and results of the current command line."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Place:
    """The options of the current command line that other commands need, too."""

    lab: str = ""
    """The lab as it was named; empty where the twin implies it, or none was named."""
    twin: str = ""
    """The value of `--twin`: a name, or `new`; empty on hardware."""
    results: str = ""
    """The directory of results; empty for the usual one."""


_here = Place()


def set_context(**said: str) -> None:
    """Remember options of the current command line: `lab`, `twin`, `results`."""
    global _here
    _here = replace(_here, **said)


def clear_context() -> None:
    """Forget all options: the next command line begins."""
    global _here
    _here = Place()


def has_context() -> bool:
    """Return whether the current command line names a lab or a twin."""
    return bool(_here.lab or _here.twin)


def typed(verb: str, *words: str) -> str:
    """Return a command for a shell, with the options for lab, twin and results that it takes."""
    options = {"--lab": _here.lab, "--twin": _here.twin, "--results": _here.results}
    first = []
    if verb == "doctor":
        first = [options.pop("--lab")]
    given = [
        part
        for name in _TAKEN[verb]
        if (value := options.get(name))
        for part in ([name] if value == "new" else [name, value])
    ]
    return shlex.join(["testbed", verb, *filter(None, first), *words, *given])


_TAKEN = {
    "doctor": ("--twin",),
    "list": ("--results",),
    "recover": ("--twin",),
    "report": (),
    "switch": ("--lab", "--twin"),
    "twin": ("--lab",),
    "unlock": ("--lab", "--twin"),
    "who": ("--lab", "--twin"),
}
