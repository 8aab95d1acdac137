"""The lease claims of one store: each change is one transaction, decided by the rules.

`lease_rules` decides, `lease_store` keeps the rows; this module adds the facts of this machine
about holders: which processes run, and which dead runs have pending undos.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.clock import Deadline, bounded, utc
from testbed.commands import has_context, typed
from testbed.errors import BusyError, UnsafeError
from testbed.record import lease_rules as rules
from testbed.record.journal import has_pending_undo
from testbed.record.lease_rules import LEASE_TTL, Claim, Holder, Resource, Standing
from testbed.record.lease_store import FileStore, LeaseStore, Ledger
from testbed.record.locks import is_alive, liveness_file, notify_holder
from testbed.record.rundir import RunDirectory

LOST = "the lease of this run"
"""How every message about a lost lease begins."""

_JOURNAL_LIMIT = 1.0
"""Seconds to read a dead run's journal; one that takes longer may have pending undos."""


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """A claim with its standing (held, unrecovered or ended), and whether its holder runs."""

    claim: Claim
    standing: Standing
    alive: bool | None


class ClaimRegistry:
    """All claims of one lease store."""

    def __init__(
        self,
        store: LeaseStore | None = None,
        look: Callable[[Claim], bool | None] = lambda claim: is_alive(claim.token),
        lab: str = "",
    ) -> None:
        """Use a store, by default this machine's; `look` tells whether a claim's holder runs.

        `lab` names the lab of new claims, for others to read.
        """
        self._lab = lab
        self._store = store or FileStore()
        self._look = look

    def find(self) -> list[ClaimStatus]:
        """Return every claim with its standing, in the order of the holders' starts."""
        with self._store.open() as ledger:
            claims, at = ledger.claims().values(), ledger.now
        found = [self._status(claim, at) for claim in claims]
        return sorted(found, key=lambda one: (one.claim.holder.since, one.claim.token))

    def claim(self, claim: Claim, seconds: float = LEASE_TTL) -> Claim:
        """Record a claim that lasts for `seconds`; raise BusyError where others hold a part."""
        with self._store.open() as ledger:
            before = ledger.claims()
            claim = replace(claim, expires=ledger.now + seconds)
            answer = self._granted(before, claim, ledger.now)
            ledger.write(before, answer.claims)
        remove_liveness_files(answer.ended)
        return claim

    def widen(self, claim: Claim, more: Iterable[Resource]) -> Claim:
        """Add resources to a claim, all or none; raise BusyError where others hold one of them.

        Raise it also when the claim itself is lost: lost resources are not claimed again.
        """
        with self._store.open() as ledger:
            before, until = ledger.claims(), ledger.now + LEASE_TTL
            if rules.renew(before, claim.token, claim.resources, until) is None:
                raise BusyError(self._loss(ledger, claim), hint=f"see `{typed('who')}`")
            wider = replace(claim, resources=claim.resources.union(more), expires=until)
            answer = self._granted(before, wider, ledger.now)
            ledger.write(before, answer.claims)
        remove_liveness_files(answer.ended)
        return wider

    def renew(self, claim: Claim) -> str:
        """Renew a claim; return a sentence on why it is lost, or an empty string."""
        with self._store.open() as ledger:
            before = ledger.claims(claim.token)
            until = ledger.now + LEASE_TTL
            after = rules.renew(before, claim.token, claim.resources, until)
            if after is None:
                return self._loss(ledger, claim)
            ledger.write(before, after)
        return ""

    def end(self, token: str) -> None:
        """End a claim; do nothing if it does not exist."""
        with self._store.open() as ledger:
            before = ledger.claims(token)
            ledger.write(before, rules.release(before, token))

    def replace_run(self, run: str, successor: Claim) -> tuple[Claim, frozenset[Resource]]:
        """Replace the claims of a dead run by one claim that has their resources and more.

        Return the new claim, and the resources of the old ones. Raise BusyError while the run
        lives, or as `claim` does.
        """
        with self._store.open() as ledger:
            before = ledger.claims()
            tokens = self._ended(before, run, ledger.now)
            had = frozenset[Resource]().union(*(before[token].resources for token in tokens))
            until, others = ledger.now + LEASE_TTL, rules.release(before, *tokens)
            successor = replace(successor, resources=successor.resources | had, expires=until)
            ledger.write(before, self._granted(others, successor, ledger.now).claims)
        remove_liveness_files(before[token] for token in tokens)
        return successor, had

    def remove_ended(self) -> None:
        """Remove the claims that have ended."""
        with self._store.open() as ledger:
            before = ledger.claims()
            found = [self._status(claim, ledger.now) for claim in before.values()]
            ended = [one.claim.token for one in found if one.standing == "ended"]
            ledger.write(before, rules.release(before, *ended))
        remove_liveness_files(before[token] for token in ended)

    def unlock(self, resources: Iterable[Resource], *, forced: bool) -> list[Claim]:
        """Remove resources from every claim; return these claims with the removed resources.

        Unless `forced`, only this user's manual locks and ended claims may be removed; raise
        BusyError for other claims.
        """
        unwanted, me = frozenset(resources), holder_here(os.getpid())
        sought = rules.ResourceIndex(unwanted)
        with self._store.open() as ledger:
            before = ledger.claims()
            after, hit = rules.revoke(before, unwanted)
            for claim in hit:
                found = self._status(claim, ledger.now)
                if _is_own_lock(claim.holder) or found.standing == "ended":
                    continue
                if not forced:
                    raise busy_error([found], unwanted)
                by = f"{me.user} (process {me.pid} on {me.host})"
                ledger.log_revocation(claim.token, by, _named(claim, sought))
            ledger.write(before, after)
        for claim in hit:
            notify_holder(claim.token)
        remove_liveness_files(claim for claim in hit if claim.token not in after)
        left = {token: claim.resources for token, claim in after.items()}
        return [
            replace(claim, resources=claim.resources - left.get(claim.token, frozenset()))
            for claim in hit
        ]

    def _loss(self, ledger: Ledger, claim: Claim) -> str:
        by = ledger.revocations(claim.token)
        return f"{LOST} is lost: {by or 'the store no longer has it'}"

    def _granted(self, claims: rules.Claims, claim: Claim, at: float) -> rules.Granted:
        """Return the claims with one more; raise BusyError with the holders that conflict."""
        found = {token: self._status(other, at) for token, other in claims.items()}
        standings = {token: one.standing for token, one in found.items()}
        answer = rules.acquire(claims, claim, standings)
        if isinstance(answer, list):
            raise busy_error([found[other.token] for other in answer], claim.resources)
        return answer

    def _ended(self, claims: rules.Claims, run: str, at: float) -> list[str]:
        """Return the tokens of a run's claims; raise BusyError when one of them is held."""
        found = [self._status(c, at) for c in claims.values() if c.holder.run == run]
        if held := [one for one in found if one.standing == "held"]:
            raise busy_error(held, held[0].claim.resources)
        return [one.claim.token for one in found]

    def _status(self, claim: Claim, at: float) -> ClaimStatus:
        alive = self._look(claim)
        return ClaimStatus(claim, rules.standing(claim, alive, at, _may_have_pending_undo), alive)


class RecoveryRequired(BusyError):
    """The wanted resources are held by a run that died with pending undos."""


PROCESS_VARIABLE = "TESTBED_PROCESS"
"""Set to the process id that other processes of this machine see, where ours differs."""


def holder_here(pid: int, run: RunDirectory | None = None, reason: str = "") -> Holder:
    """Return this user and process on this machine as a holder of a claim."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a number without a name
        user = f"user {os.getuid()}"
    named = (run.id, str(run.path.resolve())) if run else ("", "")
    pid = pid and int(os.environ.get(PROCESS_VARIABLE, pid))
    return Holder(user, socket.gethostname(), pid, *named, reason, utc())


def _may_have_pending_undo(holder: Holder) -> bool:
    """Tell whether a run that died may have left something to undo."""
    if not holder.directory:
        return False
    run = RunDirectory(Path(holder.directory))

    def read() -> bool:
        run.path.stat()
        return has_pending_undo(run.journal)

    try:  # bounded, for others wait for the store meanwhile, and a file server may hang
        return bounded(read, Deadline.after(_JOURNAL_LIMIT), bool)
    except (OSError, UnsafeError):  # it may be on another machine, or have been moved
        return True


def busy_error(found: list[ClaimStatus], wanted: frozenset[Resource]) -> BusyError:
    """Return an error that names the holders, with a hint about the first of them."""
    sought = rules.ResourceIndex(wanted)
    words = "; ".join(f"{_named(f.claim, sought)}: held by {f.claim.holder}" for f in found)
    first = found[0].claim.holder
    if found[0].standing == "unrecovered":
        where = "" if first.host == socket.gethostname() else f" on {first.host}"
        command = typed("recover", first.directory)
        return RecoveryRequired(
            words, hint=f"that run ended and left something changed; type{where}: {command}"
        )
    if _is_own_lock(first):
        names = _names_here(found[0].claim, wanted)
        lab = () if has_context() or not first.lab else ("--lab", first.lab)
        return BusyError(
            words, hint=f"you hold it yourself; `{typed('unlock', *names, *lab)}` gives it back"
        )
    waiting = "wait for it (`run` does with --queue or --wait-lock), or ask its owner"
    hint = f"{waiting}; `{typed('who')}` shows all"
    return BusyError(words, hint=hint)


def _is_own_lock(holder: Holder) -> bool:
    """Return whether this user took the lease with `testbed lock`, not for a run."""
    return holder.pid == 0 and holder.user == holder_here(0).user


def _names_here(claim: Claim, wanted: frozenset[Resource]) -> list[str]:
    """Return the names of the claimed resources as `testbed unlock` accepts them in this lab."""
    theirs = rules.ResourceIndex(wanted).overlapping(claim.resources)
    known = {(r.box, r.box_name) for r in wanted}
    if not {(r.box, r.box_name) for r in theirs} <= known:
        theirs = rules.ResourceIndex(theirs).overlapping(wanted)
    return rules.names_of(theirs)


def _named(claim: Claim, wanted: rules.ResourceIndex) -> str:
    """Name what a claim has of what is wanted, by both names where they differ."""
    theirs = wanted.overlapping(claim.resources)
    ours = wanted.overlapped_by(theirs)
    names = {r.box_name for r in theirs}
    other = [r for r in ours if r.box_name not in names]
    known = f", known here as {rules.format_resources(other)}" if other and names != {""} else ""
    return f"{rules.format_resources(theirs)}{known}"


def remove_liveness_files(ended: Iterable[Claim]) -> None:
    """Remove the liveness files that dead holders left."""
    for claim in ended:
        if is_alive(claim.token) is False:
            with suppress(OSError):
                liveness_file(claim.token).unlink()
