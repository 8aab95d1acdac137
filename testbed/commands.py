"""Compose the commands that hints name, with the lab, twin and results options in use."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

_options: dict[str, str] = {}
"""The values of `--lab`, `--twin` and `--results` on the current command line, where it has them.

Without `--lab`, the twin implies the lab, or no lab was named; `--twin` is a name, or `new`.
"""


_standing: list[Callable[[], bool]] = []
"""What tells whether the twin is still up, where it is named."""


def set_context(stands: Callable[[], bool] | None = None, **options: str) -> None:
    """Set the options of the current command line: `lab`, `twin`, `results`; empty for none.

    Commands name the twin while it `stands`.
    """
    _standing[:] = [*_standing, stands] if stands else _standing
    _options.update({f"--{name}": value for name, value in options.items()})


def clear_context() -> None:
    """Forget all options, before the next command line."""
    _options.clear()
    _standing.clear()


def has_context() -> bool:
    """Return whether the current command line names a lab or a twin."""
    return bool(_options.get("--lab") or _options.get("--twin"))


def typed(verb: str, *words: str) -> str:
    """Return a command for a shell, with the lab, twin and results options that it accepts."""
    first = _options.get("--lab") if verb == "doctor" else None
    given = [
        part
        for name in _TAKEN[verb]
        if (value := _options.get(name)) and (name != "--twin" or all(up() for up in _standing))
        for part in ([name] if value == "new" else [name, value])
    ]
    return shlex.join(["testbed", verb, *([first] if first else []), *words, *given])


def installing(extra: str) -> str:
    """Return the command that installs an extra of this package for the running Python."""
    return shlex.join([sys.executable, "-m", "pip", "install", f"optical-testbed[{extra}]"])


_TAKEN = {
    "doctor": ("--twin",),
    "list": ("--results",),
    "recover": ("--twin",),
    "queue": ("--lab", "--twin"),
    "report": (),
    "switch": ("--lab", "--twin"),
    "twin": ("--lab",),
    "unlock": ("--lab", "--twin"),
    "who": ("--lab", "--twin"),
}
