"""The interface of the twin's control socket, as a run uses it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from testbed.schema import Lab

Settings = Mapping[str, Any]
"""`settle` and `link_up` by switch, `loss_of_signal` in seconds, `sensitivity` in dBm."""


class TwinControl(Protocol):
    """The operations on a twin that a run inside it needs."""

    @property
    def processes(self) -> Path:
        """Return the /proc directory that shows the processes of the twin and its hosts."""

    def fault(self, instrument: str, name: str, scope: dict[str, Any]) -> None:
        """Make the far end of an instrument simulate the fault `name`, within a scope."""

    def clear(self, instrument: str, name: str) -> None:
        """End a fault; do nothing when it is not active."""

    def struck(self, instrument: str, name: str) -> int:
        """Return how often a fault has taken effect since the twin started."""

    def destroyed(self) -> list[Mapping[str, Any]]:
        """Return the receivers destroyed by too much light: `port`, `dbm`, and monotonic `at`."""

    def settings_of(self, lab: Lab) -> Settings:
        """Return the settings that the twin of a lab should have."""

    def tuning(self) -> Settings:
        """Return the settings that the twin has now."""

    def tune(self, settings: Settings) -> None:
        """Change the settings of the running twin."""
