"""Circuits by owner: each owner changes its own circuits only."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.fabric.circuits import Circuit, FibrePair, HostPort, Matching

Owned = Mapping[str, Matching]
"""The circuits of each owner; no port or fibre is in two of them."""


class CircuitOfAnother(ValueError):
    """A change would remove another owner's circuit, or needs a port that is in use."""


def change_own(owned: Owned, owner: str, remove: Matching, add: Matching) -> dict[str, Matching]:
    """Return the circuits of every owner after one owner has removed some and added others.

    Removes come before adds, so a port may go from one circuit to another. Raise CircuitOfAnother
    when a circuit to be removed is not the owner's, or an added one needs a port or fibre of
    another circuit; then no circuit may be changed.
    """
    mine = owned.get(owner, frozenset())
    if unowned := sorted(remove - mine):
        raise CircuitOfAnother(f"{owner} has no circuit {unowned[0]}{_held_by(owned, unowned[0])}")
    used = _users({**owned, owner: mine - remove})
    for circuit in sorted(add - (mine - remove)):
        for part in circuit.uses:
            if part in used:
                who, present = used[part]
                what = "port" if isinstance(part, HostPort) else "fibre"
                raise CircuitOfAnother(
                    f"{owner} cannot have circuit {circuit}: {what} {part} is in use by circuit "
                    f"{present} of {who}"
                )
            used[part] = owner, circuit
    return {**owned, owner: (mine - remove) | add}


def merged(owned: Owned) -> Matching:
    """Return the circuits of all owners as one matching."""
    return frozenset[Circuit]().union(*owned.values())


def _users(owned: Owned) -> dict[HostPort | FibrePair, tuple[str, Circuit]]:
    """Return who has each port and fibre that is in a circuit, and in which."""
    return {
        part: (owner, circuit)
        for owner, circuits in owned.items()
        for circuit in circuits
        for part in circuit.uses
    }


def _held_by(owned: Owned, circuit: Circuit) -> str:
    holder = next((name for name, circuits in owned.items() if circuit in circuits), None)
    return "" if holder is None else f": it is a circuit of {holder}"
