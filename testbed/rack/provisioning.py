"""What replacing failed chips costs: chips taken in the place of failed ones, under each policy.

Over-provisioning is the chips used for replacement less those that failed (Morphlux, section 7).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from testbed.rack.check_wiring import check_wiring
from testbed.rack.replacement import Wiring, fibres_left, replace_chip
from testbed.rack.slices import Refusal
from testbed.rack.torus import Torus, server_of


@dataclass(frozen=True, slots=True)
class Cost:
    """The chips that were taken to replace failed ones, and how many failed."""

    used: int
    failed: int

    @property
    def over(self) -> int:
        """Return the over-provisioning."""
        return self.used - self.failed


def migration(wirings: Sequence[Wiring], failed: Collection[int]) -> Cost:
    """Return the cost of moving every slice that has a failed chip to healthy chips, as a whole."""
    moved = [each for each in wirings if set(each.chips) & set(failed)]
    return Cost(sum(len(each.chips) for each in moved), _in_use(wirings, failed))


def server_replacement(torus: Torus, wirings: Sequence[Wiring], failed: Collection[int]) -> Cost:
    """Return the cost of replacing whole servers with failed chips, as Kubernetes does nodes."""
    down = {server_of(torus, chip) for each in wirings for chip in set(each.chips) & set(failed)}
    x, y, z = torus.server
    return Cost(len(down) * x * y * z, _in_use(wirings, failed))


def ideal(wirings: Sequence[Wiring], failed: Collection[int]) -> Cost:
    """Return the cost on an ideal switch, which puts any chip in the place of any other."""
    return Cost(_in_use(wirings, failed), _in_use(wirings, failed))


@dataclass(frozen=True, slots=True)
class Repair:
    """What in-rack replacement came to: its cost, and failed chips for which there was no spare."""

    cost: Cost
    refused: int
    wirings: tuple[Wiring, ...]


def in_rack(
    torus: Torus, wirings: Sequence[Wiring], failed: Sequence[int], spares: Collection[int]
) -> Repair:
    """Replace failed chips one after the other by spares of the rack, over fibres that are left.

    A slice for whose chip no spare has the fibres is moved as a whole, with all its chips: it is
    gone from the rack. The answer has passed the independent check.
    """
    there, left = list(wirings), [chip for chip in spares if chip not in failed]
    used = refused = 0
    for chip in failed:
        which = next((i for i, each in enumerate(there) if chip in each.chips), None)
        if which is None:
            continue
        found = replace_chip(torus, there[which], chip, left, fibres_left(torus, there))
        if isinstance(found, Refusal):
            refused += 1
            used += len(there.pop(which).chips)
        else:
            used += 1
            left.remove(found.spare)
            there[which] = found.wiring
    check_wiring(torus, there, failed)
    return Repair(Cost(used, _in_use(wirings, failed)), refused, tuple(there))


def _in_use(wirings: Sequence[Wiring], failed: Collection[int]) -> int:
    return sum(len(set(each.chips) & set(failed)) for each in wirings)
