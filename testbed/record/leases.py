"""Leases: who has which ports, switches, hosts and outlets of a lab, and for how long.

A run takes all that it needs or nothing, and holds it as a `Lease`.
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
    """All leases of one store: those of this process and what it knows of the others."""

    def take(
        self, resources: Iterable[Resource], reason: str, run: RunDirectory | None = None
    ) -> Lease:
        """Lease all resources to this process, or none, for a run if it is one.

        Raise BusyError with who has one of them, since when, why, and what to do.
        """
        claim = self._new_claim(os.getpid(), run, reason, resources)
        return self._held(claim, lambda: (self.claim(claim), frozenset()))

    def lock(self, resources: Iterable[Resource], reason: str, seconds: float) -> None:
        """Hold resources by hand for some seconds; raise BusyError as `take` does."""
        self.claim(self._new_claim(0, None, reason, resources), seconds)

    def take_over(self, run: RunDirectory, reason: str, needed: Iterable[Resource] = ()) -> Lease:
        """Lease to this process all that a dead run had, and what of it was lost since.

        Raise BusyError while that run lives, or when another run has what is `needed` by now. So
        two never recover one run at the same time. All is released with this lease.
        """
        claim = self._new_claim(os.getpid(), run, reason, needed)
        return self._held(claim, lambda: self.replace_run(run.id, claim))

    def dead_runs(self) -> list[RunDirectory]:
        """Return the runs that died and left leases, whether or not their directory is there."""
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
