"""Who may have what: the one state machine of leases.

Every function goes from the claims that are, a request and a moment to the claims that will be, or
to a refusal. Nothing here looks at a clock, a file or a process: whether the holder of a claim
lives is told by the caller as a `Sight`.

A claim ends by release, by expiry when nobody can tell whether its holder lives, by the death of
its holder, or by force. A holder that is seen alive keeps what it has, however late it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

LIFE = 60.0
"""Seconds after its last sign of life in which a claim that cannot be looked at is still held."""


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A box, or a part of one; `box` is where it answers, or what it says that it is.

    What is known by several of these is as many resources, which have one name in a claim.
    """

    box: str
    part: str = ""
    """A port, an outlet; empty for the whole box."""
    name: str = field(default="", compare=False)
    """What the lab file calls it."""

    def overlaps(self, other: Resource) -> bool:
        """Tell whether two holders could meet here: a whole box holds all its parts."""
        return self.box == other.box and (self.part in ("", other.part) or not other.part)

    @property
    def of_box(self) -> str:
        """Return what the lab file calls the box; empty where nobody said."""
        return self.name.removesuffix(f".{self.part}")

    def __str__(self) -> str:
        return self.name or f"{self.box} {self.part}".rstrip()


def listed(resources: Iterable[Resource]) -> str:
    """Return the names of resources, box by box, 2 before 10; ports in a row as `ocs.1-8`."""
    once = {(r.name or r.box, r.part): r for r in sorted(resources, reverse=True)}
    ordered = sorted(once.values(), key=lambda r: (r.box, len(r.part), r.part))
    rows: list[list[Resource]] = []
    for resource in ordered:
        if rows and _follows(rows[-1][-1], resource):
            rows[-1].append(resource)
        else:
            rows.append([resource])
    return ", ".join(f"{row[0]}-{row[-1].part}" if row[1:] else str(row[0]) for row in rows)


def _follows(one: Resource, other: Resource) -> bool:
    """Tell whether two parts of a box have numbers in a row, and names that end with them."""
    if one.box != other.box or not (one.part.isdecimal() and other.part.isdecimal()):
        return False
    stems = {str(r).removesuffix(r.part) for r in (one, other)}
    return int(other.part) == int(one.part) + 1 and len(stems) == 1


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a claim, in words for people, and where its run is recorded."""

    user: str
    host: str
    pid: int
    """0 where nobody runs: a claim by hand, which lasts until it expires."""
    run: str = ""
    directory: str = ""
    reason: str = ""
    since: str = ""
    lab: str = ""
    """The lab that it is in, as its file names it; empty where that is not known."""

    def __str__(self) -> str:
        who = f"run {self.run} of {self.user}" if self.run else self.user
        where = f"process {self.pid} on {self.host}" if self.pid else f"by hand on {self.host}"
        why = f": {self.reason}" if self.reason else ""
        lab = f" in lab {self.lab}" if self.lab else ""
        return f"{who}{lab} ({where}, since {self.since}){why}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one holder has, and until when without a sign of life."""

    token: str
    holder: Holder
    resources: frozenset[Resource]
    expires: float


class Wanted:
    """Resources by their boxes, so that looking for what overlaps them takes no time."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._parts: dict[str, set[str]] = {}
        for resource in resources:
            self._parts.setdefault(resource.box, set()).add(resource.part)

    def within(self, resources: Iterable[Resource]) -> frozenset[Resource]:
        """Return those of some resources that overlap any of these."""
        return frozenset(filter(self._meets, resources))

    def meets(self, claim: Claim) -> bool:
        """Tell whether a claim has any of these."""
        return any(map(self._meets, claim.resources))

    def _meets(self, other: Resource) -> bool:
        parts = self._parts.get(other.box)
        return parts is not None and (not other.part or other.part in parts or "" in parts)


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a claim's holder from here."""

    alive: bool | None = None
    """None where that cannot be told: on another machine, or when nobody runs."""
    owes: bool = False
    """Whether its journal holds promises, or may hold them where it cannot be read."""


Claims = Mapping[str, Claim]
"""Every claim, by its token; no two of them overlap."""
Standing = Literal["held", "owing", "over"]
"""Held; ended with something to be taken back first; ended, so that the next may have it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The claims in the way of a request, and how each of them stands."""

    by: tuple[tuple[Claim, Standing], ...]


@dataclass(frozen=True, slots=True)
class Granted:
    """The claims after a request was granted, and those that had ended and were swept away."""

    claims: Claims
    ended: tuple[Claim, ...] = ()


def standing(claim: Claim, sight: Sight, now: float) -> Standing:
    """Return how a claim stands."""
    if sight.alive or (sight.alive is None and now < claim.expires):
        return "held"
    return "owing" if sight.owes else "over"


def acquire(
    claims: Claims, claim: Claim, sights: Mapping[str, Sight], now: float
) -> Granted | Refused:
    """Give a holder all that it claims, or nothing.

    What a claim of the same token had is replaced. Claims that are over are swept away; any other
    one in the way refuses the request.
    """
    others = [c for token, c in claims.items() if token != claim.token]
    standings = {c.token: standing(c, sights[c.token], now) for c in others}
    over = tuple(c for c in others if standings[c.token] == "over")
    wanted = Wanted(claim.resources)
    stay = [c for c in others if standings[c.token] != "over"]
    if inside := [c for c in stay if wanted.meets(c)]:
        return Refused(tuple((c, standings[c.token]) for c in inside))
    left = {c.token: c for c in stay}
    return Granted(left | {claim.token: claim}, over)


def renew(
    claims: Claims, token: str, resources: frozenset[Resource], expires: float
) -> Claims | None:
    """Put off a claim's expiry; None when it no longer has all of `resources`.

    One that expired and that nobody has taken since goes on.
    """
    claim = claims.get(token)
    if claim is None or not resources <= claim.resources:
        return None
    return {**claims, token: replace(claim, expires=expires)}


def release(claims: Claims, *tokens: str) -> Claims:
    """End claims; harmless where there is none."""
    return {token: claim for token, claim in claims.items() if token not in tokens}


def force(claims: Claims, unwanted: frozenset[Resource]) -> tuple[Claims, tuple[Claim, ...]]:
    """Take resources from whoever has them; return what is left, and the claims that were hit.

    What is taken under one of its names is taken under all that its holder knows.
    """
    sought = Wanted(unwanted)
    hit = tuple(claim for claim in claims.values() if sought.meets(claim))
    left = dict(claims)
    for claim in hit:
        taken = sought.within(claim.resources)
        names = {(r.name, r.part) for r in taken if r.name}
        rest = frozenset(r for r in claim.resources - taken if (r.name, r.part) not in names)
        left[claim.token] = replace(claim, resources=rest)
        if not rest:
            del left[claim.token]
    return left, hit
