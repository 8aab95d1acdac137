"""The orchestrator's side of the job `pi`; what its ranks do is in `onhost/pi.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acme_lab.descriptors import PiOptions
from testbed.jobs.contracts import Job


class Pi(Job):
    """Points are drawn and their hits summed, until the last step."""

    def __init__(self, options: PiOptions) -> None:
        self._options = options
        self.ranks, self.spares = options.ranks, options.spares
        self.last_step = options.steps - 1

    def for_rank(self) -> Mapping[str, Any]:
        """Return the module on the hosts that has the job, and what the ranks must know."""
        told = {key: getattr(self._options, key) for key in ("cells", "points", "pace")}
        return {"kind": "acme_onhost.pi", "options": told}
