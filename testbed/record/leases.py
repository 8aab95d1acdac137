"""Leases: which user and process have which ports, switches, hosts and outlets, and until when.

A run gets all resources that it needs or none, as a `Lease`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from testbed.clock import boot_time
from testbed.record.claim_registry import ClaimRegistry, holder_here
from testbed.record.lease import Lease
from testbed.record.lease_rules import Claim, Resource
from testbed.record.locks import LivenessLock
from testbed.record.rundir import RunDirectory


class Leases(ClaimRegistry):
    """All leases of one store, those of this process and of others."""

    def take(
        self, resources: Iterable[Resource], reason: str, run: RunDirectory | None = None
    ) -> Lease:
        """Lease all resources to this process, or none; `run` is the run that needs them.

        Raise BusyError with the holder of one of them, its start, its reason, and a remedy.
        """
        claim = self._new_claim(os.getpid(), run, reason, resources)
        return self._held(claim, lambda: (self.claim(claim), frozenset()))

    def lock(self, resources: Iterable[Resource], reason: str, seconds: float) -> None:
        """Lease resources for `seconds` without a run; raise BusyError as `take` does."""
        self.claim(self._new_claim(0, None, reason, resources), seconds)

    def take_over(self, run: RunDirectory, reason: str, needed: Iterable[Resource] = ()) -> Lease:
        """Lease to this process all that a dead run had leased, including what it has lost since.

        Raise BusyError while that run lives, or when another run has leased what is `needed`
        meanwhile. So a run is never recovered twice at the same time.
        """
        claim = self._new_claim(os.getpid(), run, reason, needed)
        return self._held(claim, lambda: self.replace_run(run.id, claim))

    def dead_runs(self) -> list[RunDirectory]:
        """Return the runs that died and left leases, even if their directories are missing."""
        dead = [f.claim.holder for f in self.find() if f.standing != "held" and f.claim.holder.run]
        return [RunDirectory(Path(holder.directory)) for holder in dead]

    def _new_claim(
        self, pid: int, run: RunDirectory | None, reason: str, resources: Iterable[Resource]
    ) -> Claim:
        holder = replace(holder_here(pid, run, reason), lab=self._lab)
        return Claim(secrets.token_hex(8), holder, frozenset(resources), 0.0)

    def _held(self, claim: Claim, record: Callable[[], tuple[Claim, frozenset[Resource]]]) -> Lease:
        """Show that this process lives, record its claim then, and return both as a lease."""
        liveness, began = LivenessLock(claim.token), boot_time()
        try:
            granted, inherited = record()
        except BaseException:
            liveness.release()
            raise
        return Lease(self, granted, liveness, began, inherited)
