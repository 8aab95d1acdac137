"""The lease of one process: a claim that a thread renews until it is released or lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

from testbed.clock import boot_time
from testbed.commands import typed
from testbed.errors import BusyError, LabError
from testbed.record.claim_registry import LOST, ClaimRegistry
from testbed.record.journal import open_entries
from testbed.record.lease_rules import LEASE_TTL, Claim, Resource, ResourceIndex
from testbed.record.locks import LivenessLock

HEARTBEAT = 15.0
"""Seconds between two renewals."""

_POLL_INTERVAL = 0.5
"""Seconds between two looks whether this holder was notified of a revocation."""

CHANGE_LIMIT = 20.0
"""Seconds that a change of circuits may take at most; `bench.fabric` ends a longer one."""

BACK_LIMIT = 10.0
"""Seconds that rolling it back may take after that."""

_SAFE_AGE = LEASE_TTL - CHANGE_LIMIT - BACK_LIMIT
"""Seconds after a renewal in which a change may begin: it ends while the claim is still held."""


class Lease:
    """The resources that one run holds until `release`; a thread renews the lease meanwhile."""

    def __init__(
        self,
        registry: ClaimRegistry,
        claim: Claim,
        liveness: LivenessLock,
        began: float,
        inherited: frozenset[Resource] = frozenset(),
    ) -> None:
        """Renew a claim that was asked for at `began`, a `boot_time`."""
        self.inherited = inherited
        """What a dead run still held when this lease replaced its claim: no other had it since."""
        self._registry = registry
        self._claim, self._index = claim, ResourceIndex(claim.resources)
        self._liveness = liveness
        self._lost = ""
        self._renewed = began
        self._renewal_error = ""
        self._notifications_seen = 0
        """Notifications that the last renewal has answered."""
        self._lock = Lock()
        self._over = Event()
        self._on_lost: Callable[[BusyError], None] = lambda error: None
        self._thread = Thread(target=self._keep_alive, name="lease", daemon=True)
        self._thread.start()

    @property
    def resources(self) -> frozenset[Resource]:
        """Return the leased resources."""
        return self._claim.resources

    @property
    def boxes(self) -> Set[str]:
        """Return the boxes that are leased, or of which a part is."""
        return self._index.boxes

    @property
    def is_lost(self) -> bool:
        """Return whether a part of the lease is no longer held by this process."""
        return bool(self._lost)

    def when_lost(self, on_lost: Callable[[BusyError], None]) -> None:
        """Set a callback for the loss of the lease; it is called in the thread that detects it."""
        self._on_lost = on_lost
        if self._lost:
            on_lost(self._loss())

    def check(self, box: str, parts: Iterable[str]) -> None:
        """Raise BusyError unless this run still leases these parts of a device.

        Asks the store (bounded by its own limit) only if the last renewal is old, as after a stop
        of the process, or if a revocation was notified.
        """
        mine = self._index.of_box(box)
        missing = [] if "" in mine else sorted({*parts} - mine.keys())
        if missing:
            raise BusyError(
                f"{Resource(box, missing[0])} is not leased by this run",
                hint="this is a bug: the plan uses what it did not lease; report it",
            )
        if self._is_notified() or self._age() > _SAFE_AGE:
            self._renew()
        if self._lost:
            raise self._loss()
        if (age := self._age()) > _SAFE_AGE:
            words = f"{LOST} was not renewed for {age:.0f} s{self._renewal_error}"
            raise BusyError(words, hint=f"see `{typed('who')}`")

    def widen(self, more: frozenset[Resource]) -> None:
        """Add resources to the lease, all or none; raise BusyError with the other holder."""
        with self._lock:
            if self._lost:
                raise self._loss()
            if more <= self._claim.resources:
                return
            began = boot_time()
            self._claim = self._registry.widen(self._claim, more)
            self._index = ResourceIndex(self._claim.resources)
            self._renewed, self._renewal_error = began, ""

    def held_by_others(self) -> frozenset[Resource]:
        """Return the resources that other claims hold now, by the store."""
        held = [f.claim for f in self._registry.find() if f.standing == "held"]
        theirs = [claim.resources for claim in held if claim.token != self._claim.token]
        return frozenset[Resource]().union(*theirs)

    def regain(self) -> bool:
        """Claim lost resources again, to release them in order; return whether all were granted."""
        with self._lock:
            if not self._lost:
                return True
            began = boot_time()
            try:
                self._registry.claim(self._claim)
            except BusyError:
                return False
            self._lost, self._renewed = "", began
            return True

    def release(self) -> None:
        """Release all resources; safe to call twice."""
        self._over.set()
        self._thread.join()
        try:
            self._registry.end(self._claim.token)
        finally:
            self._liveness.release()

    def abandon(self) -> None:
        """End the lease without releasing it, as a crash would: the run must be recovered first."""
        self._over.set()
        self._thread.join()
        self._liveness.abandon()

    def end(self, journal: Path) -> None:
        """Release the resources of a run, or abandon them if its journal has pending undos."""
        if open_entries(journal):
            self.abandon()
        else:
            self.release()

    def _keep_alive(self) -> None:
        due = boot_time() + HEARTBEAT
        while not self._over.wait(_POLL_INTERVAL):
            if self._is_notified() or boot_time() > due:
                with suppress(Exception):  # what `on_lost` raises must not end this thread
                    self._renew()
                due = boot_time() + HEARTBEAT

    def _renew(self) -> None:
        """Renew the claim, unless it is lost already, and report when it is lost now."""
        with self._lock:
            if self._lost:
                return
            began = boot_time()
            try:
                notifications = self._liveness.notifications()
                self._lost = self._registry.renew(self._claim)
                self._renewed, self._renewal_error = began, ""
                self._notifications_seen = notifications
            except Exception as error:  # whatever is wrong with a store may be over the next time
                kind = "" if isinstance(error, LabError) else f"{type(error).__name__}: "
                self._renewal_error = f": {kind}{error}"
                if self._age() > LEASE_TTL:
                    self._lost = f"{LOST} could not be renewed{self._renewal_error}"
        if self._lost:
            self._on_lost(self._loss())

    def _is_notified(self) -> bool:
        try:
            return self._liveness.notifications() > self._notifications_seen
        except OSError:
            return True  # where the file cannot be read, the store is asked

    def _age(self) -> float:
        """Return the seconds since the last renewal that succeeded."""
        return boot_time() - self._renewed

    def _loss(self) -> BusyError:
        return BusyError(self._lost, hint=f"see `{typed('who')}`")
