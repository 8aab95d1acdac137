"""What a run asks of the twin around it, beside every wire: the contract of its control socket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from testbed.schema import Lab

Settings = Mapping[str, Any]
"""`settle` by switch, `loss_of_signal` and `link_up` in seconds, `sensitivity` in dBm."""


class TwinControl(Protocol):
    """All that a run inside a twin asks of it."""

    @property
    def processes(self) -> Path:
        """Return the /proc in which the processes of the twin and its hosts are seen."""

    def fault(self, instrument: str, name: str, scope: dict[str, Any]) -> None:
        """Let the far end of an instrument misbehave as `name` says, within a scope."""

    def clear(self, instrument: str, name: str) -> None:
        """End a fault; harmless when there is none."""

    def struck(self, instrument: str, name: str) -> int:
        """Return how often a fault has struck since the twin started."""

    def destroyed(self) -> list[Mapping[str, Any]]:
        """Return the destroyed receivers: `port`, `dbm`, and `at`, a monotonic instant."""

    def settings_of(self, lab: Lab) -> Settings:
        """Return the settings that the twin of a lab should have."""

    def tuning(self) -> Settings:
        """Return the settings that the twin has now."""

    def tune(self, settings: Settings) -> None:
        """Change the settings of the running twin."""
