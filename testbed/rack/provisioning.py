"""The cost of replacing failed chips under each policy, in chips.

Over-provisioning is the number of chips used for replacement minus that of failed chips (Morphlux,
section 7).
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
    """The number of chips that were used as replacements, and the number that failed."""

    used: int
    failed: int

    @property
    def over(self) -> int:
        """Return the over-provisioning: replacement chips minus failed chips."""
        return self.used - self.failed


def migration(wirings: Sequence[Wiring], failed: Collection[int]) -> Cost:
    """Return the cost of moving every slice with a failed chip, as a whole, to healthy chips."""
    moved = [each for each in wirings if set(each.chips) & set(failed)]
    return Cost(sum(len(each.chips) for each in moved), _in_use(wirings, failed))


def server_replacement(torus: Torus, wirings: Sequence[Wiring], failed: Collection[int]) -> Cost:
    """Return the cost of replacing whole servers with failed chips, as Kubernetes does."""
    down = {server_of(torus, chip) for each in wirings for chip in set(each.chips) & set(failed)}
    x, y, z = torus.server
    return Cost(len(down) * x * y * z, _in_use(wirings, failed))


def ideal(wirings: Sequence[Wiring], failed: Collection[int]) -> Cost:
    """Return the cost on an ideal switch, where any chip can replace any other."""
    return Cost(_in_use(wirings, failed), _in_use(wirings, failed))


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of in-rack replacement: its cost, and the failed chips without a spare."""

    cost: Cost
    refused: int
    wirings: tuple[Wiring, ...]


def in_rack(
    torus: Torus, wirings: Sequence[Wiring], failed: Sequence[int], spares: Collection[int]
) -> Repair:
    """Replace failed chips one after the other by spares of the rack, over the free fibres.

    A slice whose failed chip no spare can replace is moved to another rack as a whole. The result
    is verified by the independent check.
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
