"""The claims of one store: each change is one transaction, decided by the rules.

The rules are in `lease_rules`, the rows in `lease_store`; here they meet the processes of this
machine and the journals of runs that died.
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
from testbed.commands import typed
from testbed.errors import BusyError, UnsafeError
from testbed.record import lease_rules as rules
from testbed.record.journal import owes
from testbed.record.lease_rules import LIFE, Claim, Holder, Resource, Sight, Standing
from testbed.record.lease_store import FileStore, LeaseStore, Ledger
from testbed.record.locks import call, is_alive, sign_file
from testbed.record.rundir import RunDirectory

LOST = "the lease of this run"
"""How it begins what is said of a lease that was lost."""

_LOOK = 1.0
"""Seconds in which a dead run's journal must have been read; one that was not may hold promises."""


@dataclass(frozen=True, slots=True)
class Found:
    """A claim and how it stands."""

    claim: Claim
    standing: Standing
    alive: bool | None


class ClaimRegistry:
    """All claims of one store."""

    def __init__(
        self,
        store: LeaseStore | None = None,
        look: Callable[[Claim], bool | None] = lambda claim: is_alive(claim.token),
        lab: str = "",
    ) -> None:
        """Use a store, by default this machine's; `look` tells whether a claim's holder lives.

        `lab` is the lab that is leased from here, for others to read.
        """
        self._lab = lab
        self._store = store or FileStore()
        self._look = look

    def find(self) -> list[Found]:
        """Return every claim and how it stands, in the order of the holders' starts."""
        with self._store.open() as ledger:
            claims, at = ledger.claims().values(), ledger.now
        found = [self._found(claim, at) for claim in claims]
        return sorted(found, key=lambda one: (one.claim.holder.since, one.claim.token))

    def claim(self, claim: Claim, seconds: float = LIFE) -> Claim:
        """Have a claim granted for some seconds from now; raise BusyError as `take` does."""
        with self._store.open() as ledger:
            before = ledger.claims()
            claim = replace(claim, expires=ledger.now + seconds)
            answer = self._granted(before, claim, ledger.now)
            ledger.write(before, answer.claims)
        _sweep(answer.ended)
        return claim

    def widen(self, claim: Claim, more: Iterable[Resource]) -> Claim:
        """Have a claim granted more, or nothing of it; raise BusyError as `take` does.

        Raise it also when the claim itself is lost: nothing is taken back by the way.
        """
        with self._store.open() as ledger:
            before, until = ledger.claims(), ledger.now + LIFE
            if rules.renew(before, claim.token, claim.resources, until) is None:
                raise BusyError(self._loss(ledger, claim), hint=f"see `{typed('who')}`")
            wider = replace(claim, resources=claim.resources.union(more), expires=until)
            answer = self._granted(before, wider, ledger.now)
            ledger.write(before, answer.claims)
        _sweep(answer.ended)
        return wider

    def renew(self, claim: Claim) -> str:
        """Give a sign of life; return in words why the claim is lost, empty while it is not."""
        with self._store.open() as ledger:
            before = ledger.claims()
            until = ledger.now + LIFE
            after = rules.renew(before, claim.token, claim.resources, until)
            if after is None:
                return self._loss(ledger, claim)
            ledger.write(before, after)
        return ""

    def end(self, token: str) -> None:
        """End a claim; harmless when there is none."""
        with self._store.open() as ledger:
            before = ledger.claims()
            ledger.write(before, rules.release(before, token))

    def replace_run(self, run: str, heir: Claim) -> tuple[Claim, frozenset[Resource]]:
        """Replace the claims of a dead run by one that has all of theirs besides its own.

        Return it, and what they had. Raise BusyError while the run lives, or as `claim` does.
        """
        with self._store.open() as ledger:
            before = ledger.claims()
            tokens = self._ended(before, run, ledger.now)
            had = frozenset[Resource]().union(*(before[token].resources for token in tokens))
            heir = replace(heir, resources=heir.resources | had, expires=ledger.now + LIFE)
            others = rules.release(before, *tokens)
            ledger.write(before, self._granted(others, heir, ledger.now).claims)
        _sweep(before[token] for token in tokens)
        return heir, had

    def release_run(self, run: str) -> None:
        """Give back all that a dead run had, once nothing of it is left to be taken back.

        Raise BusyError while it lives; harmless when it has nothing.
        """
        with self._store.open() as ledger:
            before = ledger.claims()
            tokens = self._ended(before, run, ledger.now)
            ledger.write(before, rules.release(before, *tokens))
        _sweep(before[token] for token in tokens)

    def end_what_is_over(self) -> None:
        """Give back what belongs to nobody any more and owes nothing; nobody is shown it then."""
        with self._store.open() as ledger:
            before = ledger.claims()
            found = [self._found(claim, ledger.now) for claim in before.values()]
            over = [one.claim.token for one in found if one.standing == "over"]
            ledger.write(before, rules.release(before, *over))
        _sweep(before[token] for token in over)

    def unlock(self, resources: Iterable[Resource], *, forced: bool) -> list[Claim]:
        """Take resources from whoever has them; return the claims hit, with what was taken of each.

        Without force only what this user holds by hand, or what is over; BusyError for others.
        """
        unwanted, me = frozenset(resources), holder_here(os.getpid())
        with self._store.open() as ledger:
            before = ledger.claims()
            after, hit = rules.force(before, unwanted)
            for claim in hit:
                found = self._found(claim, ledger.now)
                mine = claim.holder.pid == 0 and claim.holder.user == me.user
                if mine or found.standing == "over":
                    continue
                if not forced:
                    raise _busy([found], unwanted)
                by = f"{me.user} (process {me.pid} on {me.host})"
                ledger.log_force(claim.token, by, _named(claim, unwanted))
            ledger.write(before, after)
        for claim in hit:
            call(claim.token)
        _sweep(claim for claim in hit if claim.token not in after)
        left = {token: claim.resources for token, claim in after.items()}
        return [
            replace(claim, resources=claim.resources - left.get(claim.token, frozenset()))
            for claim in hit
        ]

    def _loss(self, ledger: Ledger, claim: Claim) -> str:
        by = ledger.forced(claim.token)
        return f"{LOST} is lost: {by or 'the store no longer has it'}"

    def _granted(self, claims: rules.Claims, claim: Claim, at: float) -> rules.Granted:
        """Have a claim granted among others; raise BusyError with who is in the way."""
        sights = {token: self._sight(other, at) for token, other in claims.items()}
        answer = rules.acquire(claims, claim, sights, at)
        if isinstance(answer, rules.Refused):
            found = [Found(c, s, sights[c.token].alive) for c, s in answer.by]
            raise _busy(found, claim.resources)
        return answer

    def _ended(self, claims: rules.Claims, run: str, at: float) -> list[str]:
        """Return the tokens of a run's claims; raise BusyError when one of them is held."""
        found = [self._found(c, at) for c in claims.values() if c.holder.run == run]
        if held := [one for one in found if one.standing == "held"]:
            raise _busy(held, held[0].claim.resources)
        return [one.claim.token for one in found]

    def _found(self, claim: Claim, at: float) -> Found:
        sight = self._sight(claim, at)
        return Found(claim, rules.standing(claim, sight, at), sight.alive)

    def _sight(self, claim: Claim, at: float) -> Sight:
        alive = self._look(claim)
        if alive or (alive is None and at < claim.expires):
            return Sight(alive)
        return Sight(alive, _owes(claim.holder))


class Owed(BusyError):
    """Report that what is wanted belongs to a run that died and left something changed."""


PROCESS_VARIABLE = "TESTBED_PROCESS"
"""Set to a process id that others on this machine see, where ours means nothing to them."""


def holder_here(pid: int, run: RunDirectory | None = None, reason: str = "") -> Holder:
    """Return this user on this machine as a holder, since now."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a number without a name
        user = f"user {os.getuid()}"
    named = (run.id, str(run.path.resolve())) if run else ("", "")
    pid = pid and int(os.environ.get(PROCESS_VARIABLE, pid))
    return Holder(user, socket.gethostname(), pid, *named, reason, utc())


def _owes(holder: Holder) -> bool:
    """Tell whether a run that died may have left something changed."""
    if not holder.directory:
        return False
    run = RunDirectory(Path(holder.directory))

    def look() -> bool:
        run.path.stat()
        return owes(run.journal)

    try:  # others wait for the store meanwhile: their lease is worth more than a server of files
        return bounded(look, Deadline.after(_LOOK), bool)
    except (OSError, UnsafeError):  # it may be on another machine, or have been moved
        return True


def _busy(found: list[Found], wanted: frozenset[Resource]) -> BusyError:
    """Say who is in the way, and what to do about the first of them."""
    words = "; ".join(f"{_named(f.claim, wanted)}: held by {f.claim.holder}" for f in found)
    first = found[0].claim.holder
    if found[0].standing == "owing":
        where = "" if first.host == socket.gethostname() else f" on {first.host}"
        command = typed("recover", first.directory)
        return Owed(words, hint=f"that run died and left something changed; type{where}: {command}")
    waiting = "wait for it (`run` does with --wait-lock), or ask its owner"
    hint = f"{waiting}; `{typed('who')}` shows all"
    return BusyError(words, hint=hint)


def _named(claim: Claim, wanted: frozenset[Resource]) -> str:
    """Return in words what a claim has of what is wanted, and as what, where names differ."""
    theirs = rules.Wanted(wanted).within(claim.resources)
    ours = rules.Wanted(theirs).within(wanted)
    names = {r.of_box for r in theirs}
    other = [r for r in ours if r.of_box not in names]
    known = f", known here as {rules.listed(other)}" if other and names != {""} else ""
    return f"{rules.listed(theirs)}{known}"


def _sweep(ended: Iterable[Claim]) -> None:
    """Remove the signs of life that dead holders left."""
    for claim in ended:
        if is_alive(claim.token) is False:
            with suppress(OSError):
                sign_file(claim.token).unlink()
