"""The rules of leases as a state machine: which claim is granted, and when a claim ends.

Every function takes the present claims, a request and a time, and returns the next claims or a
refusal. None reads a clock, a file or a process: whether the holder of a claim runs, and whether
it left something to undo, is passed in.

A claim ends by release, by expiry where it is unknown whether its holder runs, by the death of its
holder, or by revocation. A holder that is known to run keeps its claim, however late it renews it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Literal

LEASE_TTL = 60.0
"""Seconds from its last renewal for which a claim is held when its holder cannot be observed."""


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A device, or a part of it; `box` is the device's address, or the identity that it reports.

    A device with several addresses is as many resources, which have one name in a claim.
    """

    box: str
    part: str = ""
    """A port, an outlet; empty for the whole box."""
    name: str = field(default="", compare=False)
    """What the lab file calls it."""

    @property
    def box_name(self) -> str:
        """Return the name of the device in the lab file; empty where that is unknown."""
        return self.name.removesuffix(f".{self.part}")

    def __str__(self) -> str:
        return self.name or f"{self.box} {self.part}".rstrip()


def format_resources(resources: Iterable[Resource]) -> str:
    """Return the names of resources, separated by commas, in the order of `names_of`."""
    return ", ".join(names_of(resources))


def names_of(resources: Iterable[Resource]) -> list[str]:
    """Return the names of resources, by device and in numeric order; port ranges as `ocs.1-8`."""
    once = {(r.name or r.box, r.part): r for r in sorted(resources, reverse=True)}
    ordered = sorted(once.values(), key=lambda r: (r.box, len(r.part), r.part))
    rows: list[list[Resource]] = []
    for resource in ordered:
        if rows and _follows(rows[-1][-1], resource):
            rows[-1].append(resource)
        else:
            rows.append([resource])
    return [f"{row[0]}-{row[-1].part}" if row[1:] else str(row[0]) for row in rows]


def _follows(one: Resource, other: Resource) -> bool:
    """Tell whether two parts of a box have numbers in a row, and names that end with them."""
    if one.box != other.box or not (one.part.isdecimal() and other.part.isdecimal()):
        return False
    stems = {str(r).removesuffix(r.part) for r in (one, other)}
    return int(other.part) == int(one.part) + 1 and len(stems) == 1


@dataclass(frozen=True, slots=True)
class Holder:
    """The user and process that hold a claim, and the directory of its run."""

    user: str
    host: str
    pid: int
    """0 for a claim by hand, which no process keeps alive: it lasts until it expires."""
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
    """The resources of one holder, and when the claim expires unless it is renewed."""

    token: str
    holder: Holder
    resources: frozenset[Resource]
    expires: float


class ResourceIndex:
    """An index of resources by device, which finds overlapping resources in constant time.

    A whole device overlaps each of its parts.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._parts: dict[str, dict[str, Resource]] = {}
        for resource in resources:
            self._parts.setdefault(resource.box, {})[resource.part] = resource

    @property
    def boxes(self) -> Set[str]:
        """Return the boxes that any of these is, or is a part of."""
        return self._parts.keys()

    def of_box(self, box: str) -> Mapping[str, Resource]:
        """Return those of a box by their parts; an empty part is the whole box."""
        return self._parts.get(box, {})

    def overlapping(self, resources: Iterable[Resource]) -> frozenset[Resource]:
        """Return those of the given resources that overlap any in this index."""
        return frozenset(filter(self._overlaps, resources))

    def overlapped_by(self, resources: Iterable[Resource]) -> frozenset[Resource]:
        """Return those of these that overlap any of some resources."""
        return frozenset(mine for other in resources for mine in self._overlapped(other))

    def overlaps(self, claim: Claim) -> bool:
        """Return whether a claim has any resource of this index."""
        return any(map(self._overlaps, claim.resources))

    def _overlaps(self, other: Resource) -> bool:
        parts = self._parts.get(other.box)
        return parts is not None and (not other.part or other.part in parts or "" in parts)

    def _overlapped(self, other: Resource) -> Iterable[Resource]:
        parts = self._parts.get(other.box, {})
        if not other.part:
            return parts.values()
        return [parts[part] for part in ("", other.part) if part in parts]


Claims = Mapping[str, Claim]
"""Every claim, by its token; no two of them overlap."""
Standing = Literal["held", "unrecovered", "ended"]
"""Held; its run died and must be recovered first; ended, so that the next may have it."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The claims after a request was granted, and the ended claims that were removed."""

    claims: Claims
    ended: tuple[Claim, ...] = ()


def standing(
    claim: Claim, alive: bool | None, now: float, has_pending_undo: Callable[[Holder], bool]
) -> Standing:
    """Return the standing of a claim: held, unrecovered or ended.

    `alive` is None where it is unknown whether its holder runs: on another machine, or for a claim
    by hand. `has_pending_undo` returns whether the journal of a dead holder has open entries, or
    cannot be read.
    """
    if alive or (alive is None and now < claim.expires):
        return "held"
    return "unrecovered" if has_pending_undo(claim.holder) else "ended"


def acquire(
    claims: Claims, claim: Claim, standings: Mapping[str, Standing]
) -> Granted | list[Claim]:
    """Grant a claim as a whole, or return the claims that conflict with it.

    It replaces a claim of the same token. Claims that have ended are removed; any other overlapping
    claim conflicts with the request.
    """
    others = [c for token, c in claims.items() if token != claim.token]
    ended = tuple(c for c in others if standings[c.token] == "ended")
    kept = [c for c in others if standings[c.token] != "ended"]
    wanted = ResourceIndex(claim.resources)
    if conflicts := [c for c in kept if wanted.overlaps(c)]:
        return conflicts
    return Granted({c.token: c for c in (*kept, claim)}, ended)


def renew(
    claims: Claims, token: str, resources: frozenset[Resource], expires: float
) -> Claims | None:
    """Extend a claim; None when it no longer has all of `resources`.

    An expired claim is extended too, unless another claim has taken a part of it since.
    """
    claim = claims.get(token)
    if claim is None or not resources <= claim.resources:
        return None
    return {**claims, token: replace(claim, expires=expires)}


def release(claims: Claims, *tokens: str) -> Claims:
    """Remove claims; tokens without one are ignored."""
    ended = set(tokens)
    return {token: claim for token, claim in claims.items() if token not in ended}


def revoke(claims: Claims, unwanted: frozenset[Resource]) -> tuple[Claims, tuple[Claim, ...]]:
    """Remove resources from every claim; return the rest, and the claims that had some.

    A resource that is removed by one of its addresses is removed by all that its holder knows.
    """
    sought = ResourceIndex(unwanted)
    hit = tuple(claim for claim in claims.values() if sought.overlaps(claim))
    left = dict(claims)
    for claim in hit:
        taken = sought.overlapping(claim.resources)
        names = {(r.name, r.part) for r in taken if r.name}
        rest = frozenset(r for r in claim.resources - taken if (r.name, r.part) not in names)
        left[claim.token] = replace(claim, resources=rest)
        if not rest:
            del left[claim.token]
    return left, hit
