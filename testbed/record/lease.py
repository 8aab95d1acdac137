"""What one process holds: a lease that a thread keeps alive until it is given back or lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

from testbed.clock import boot_time
from testbed.commands import typed
from testbed.errors import BusyError, LabError
from testbed.record.claim_registry import LOST, ClaimRegistry
from testbed.record.journal import open_entries
from testbed.record.lease_rules import LIFE, Claim, Resource
from testbed.record.locks import LifeSign

BEAT = 15.0
"""Seconds between two signs of life."""

_LOOK = 0.5
"""Seconds between two looks whether somebody who took something by force has called."""

CHANGE_LIMIT = 20.0
"""Seconds that a change of circuits may take at most, which the door to the fabric sees to."""

BACK_LIMIT = 10.0
"""Seconds that rolling it back may take after that."""

_SURE = LIFE - CHANGE_LIMIT - BACK_LIMIT
"""Seconds after a sign of life in which a change may begin: it is over while the claim holds."""


class Lease:
    """What one run holds, from `Leases.take` to `release`; a thread keeps it alive meanwhile."""

    def __init__(
        self,
        registry: ClaimRegistry,
        claim: Claim,
        sign: LifeSign,
        began: float,
        inherited: frozenset[Resource] = frozenset(),
    ) -> None:
        """Keep a claim alive that was asked for at `began`, a `boot_time`."""
        self.inherited = inherited
        """What a dead run still had when this took over from it: nobody else has had that."""
        self._registry = registry
        self._claim = claim
        self._sign = sign
        self._lost = ""
        self._renewed = began
        self._trouble = ""
        self._heeded = 0
        """Calls after which the store was asked."""
        self._lock = Lock()
        self._over = Event()
        self._tell: Callable[[BusyError], None] = lambda error: None
        self._thread = Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    @property
    def resources(self) -> frozenset[Resource]:
        """Return what is leased."""
        return self._claim.resources

    @property
    def is_lost(self) -> bool:
        """Tell whether something of it is ours no longer."""
        return bool(self._lost)

    def when_lost(self, tell: Callable[[BusyError], None]) -> None:
        """Have `tell` called, in whichever thread notices, when the lease is lost."""
        self._tell = tell
        if self._lost:
            tell(self._loss())

    def check(self, box: str, parts: Iterable[str]) -> None:
        """Raise BusyError unless these parts of a box are leased, and are so still.

        Asks the store, which answers or gives up within its own limit, only when the last sign of
        life is long ago, as after a stop of the process, or when somebody took something by force.
        """
        mine = {resource.part for resource in self._claim.resources if resource.box == box}
        missing = [] if "" in mine else sorted({*parts} - mine)
        if missing:
            raise BusyError(
                f"{Resource(box, missing[0])} is not leased by this run",
                hint="this is a bug of the plan: it moves what it did not ask for",
            )
        if self._is_called() or self._age() > _SURE:
            self._renew()
        if self._lost:
            raise self._loss()
        if (age := self._age()) > _SURE:
            words = f"{LOST} was not renewed for {age:.0f} s{self._trouble}"
            raise BusyError(words, hint=f"see `{typed('who')}`")

    def widen(self, more: frozenset[Resource]) -> None:
        """Lease more to this holder, or nothing of it; raise BusyError with who has some of it."""
        with self._lock:
            if self._lost:
                raise self._loss()
            if more <= self._claim.resources:
                return
            began = boot_time()
            self._claim = self._registry.widen(self._claim, more)
            self._renewed, self._trouble = began, ""

    def of_others(self) -> frozenset[Resource]:
        """Return what others hold now, as the store says."""
        held = [f.claim for f in self._registry.find() if f.standing == "held"]
        theirs = [claim.resources for claim in held if claim.token != self._claim.token]
        return frozenset[Resource]().union(*theirs)

    def regain(self) -> bool:
        """Take again what was lost, to give it back in order; tell whether all is ours."""
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
        """Give all back; safe to call twice."""
        self._over.set()
        self._thread.join()
        try:
            self._registry.end(self._claim.token)
        finally:
            self._sign.end()

    def leave(self) -> None:
        """Let go as a death would: the next one is told what has to be taken back first."""
        self._over.set()
        self._thread.join()
        self._sign.leave()

    def end(self, journal: Path) -> None:
        """Give back what was held for a run, or leave it where its journal has open promises."""
        if open_entries(journal):
            self.leave()
        else:
            self.release()

    def _beat(self) -> None:
        due = boot_time() + BEAT
        while not self._over.wait(_LOOK):
            if self._is_called() or boot_time() > due:
                with suppress(Exception):  # whoever is told of a loss may fail at it, not we
                    self._renew()
                due = boot_time() + BEAT

    def _renew(self) -> None:
        """Give a sign of life, unless the lease is lost, or tell that it is now."""
        with self._lock:
            if self._lost:
                return
            began = boot_time()
            try:
                calls = self._sign.calls()
                self._lost = self._registry.renew(self._claim)
                self._renewed, self._trouble, self._heeded = began, "", calls
            except Exception as error:  # whatever is wrong with a store may be over the next time
                known = isinstance(error, LabError)
                self._trouble = f": {error}" if known else f": {type(error).__name__}: {error}"
                if self._age() > LIFE:
                    self._lost = f"{LOST} could not be renewed{self._trouble}"
        if self._lost:
            self._tell(self._loss())

    def _is_called(self) -> bool:
        try:
            return self._sign.calls() > self._heeded
        except OSError:
            return True  # who cannot look asks the store

    def _age(self) -> float:
        """Return the seconds since the last sign of life that was taken."""
        return boot_time() - self._renewed

    def _loss(self) -> BusyError:
        return BusyError(self._lost, hint=f"see `{typed('who')}`")
