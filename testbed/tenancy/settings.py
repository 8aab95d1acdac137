"""The settings of the simulated control plane and its clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings; times are in seconds."""

    ping: float = 10.0
    """From one request for offers of a waiting client to the next."""
    round_trip: float = 0.5
    """From an offer to the moment at which its acceptance counts."""
    deadline: float = 1_800.0
    """From the last client of a round to the end of the round, whatever results are missing."""
    patience: float = 86_400.0
    """From a request to its end by the job, if it is not filled."""
    horizon: float = 60 * 86_400.0
    """When a simulation ends that does not end by itself."""
