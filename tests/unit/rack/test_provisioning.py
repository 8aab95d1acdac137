"""What replacement takes under each policy, on cases that were worked by hand."""

from __future__ import annotations

from testbed.rack.check_wiring import wiring_mistakes
from testbed.rack.contiguous import block
from testbed.rack.provisioning import Cost, ideal, in_rack, migration, server_replacement
from testbed.rack.replacement import wired
from testbed.rack.torus import Torus, blocks, server_of

RACK = Torus()
HALF = wired(RACK, block(RACK, (2, 4, 4), blocks(RACK, (2, 4, 4))[0]))
"""32 chips on servers 0 to 7."""
PAIR = wired(RACK, block(RACK, (2, 2, 2), (8, 9)))
SPARES = [chip for chip in range(64) if server_of(RACK, chip) == 15]


def test_repair_costs_of_two_failures_in_32_chips_equal_those_by_hand() -> None:
    """Morphlux, section 7: migration takes 32 chips for 2, which is 30 too many."""
    failed = [HALF.chips[0], HALF.chips[31]]
    assert migration([HALF, PAIR], failed).over == 30
    assert server_replacement(RACK, [HALF, PAIR], failed) == Cost(used=8, failed=2)
    assert ideal([HALF, PAIR], failed).over == 0
    repair = in_rack(RACK, [HALF, PAIR], failed, SPARES)
    assert repair.cost == Cost(used=2, failed=2)
    assert repair.refused == 0
    assert wiring_mistakes(RACK, repair.wirings, failed) == []


def test_repair_costs_of_failures_in_several_slices_equal_those_by_hand() -> None:
    failed = [HALF.chips[0], HALF.chips[4], PAIR.chips[0]]
    assert server_of(RACK, failed[0]) == server_of(RACK, failed[1])
    assert migration([HALF, PAIR], failed) == Cost(used=40, failed=3)
    assert server_replacement(RACK, [HALF, PAIR], failed) == Cost(used=8, failed=3)


def test_an_unused_failed_chip_costs_nothing() -> None:
    assert migration([HALF], SPARES) == ideal([HALF], SPARES) == Cost(0, 0)
    assert in_rack(RACK, [HALF], SPARES, []).cost == Cost(0, 0)


def test_without_a_spare_the_whole_slice_is_moved() -> None:
    """One spare for three: the pair is moved with its 8 chips, then the half with its 32."""
    failed = [PAIR.chips[0], PAIR.chips[1], HALF.chips[0]]
    repair = in_rack(RACK, [HALF, PAIR], failed, [63])
    assert (repair.cost, repair.refused) == (Cost(used=1 + 8 + 32, failed=3), 2)
    assert repair.wirings == ()
