"""Where stages begin and end among the operations of a rank on its rail."""

from __future__ import annotations

import pytest

from testbed.onhost.errors import ProtocolError
from testbed.onhost.jobs.stages import Stage, StageOrder

PP, DP, NEXT = ("pp0", (0, 2)), ("dp0", (0, 4)), ("pp0", (2, 4))


class Noted:
    """What a rank was told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple] = []

    def reached(self, stage: Stage) -> float:
        self.told.append(("reached", *stage))
        return 7.0

    def left(self, stage: Stage, following: Stage | None) -> None:
        self.told.append(("left", *stage, "then", *(following or ())))


def run(order: StageOrder, *keys: tuple, noted: Noted) -> list[tuple]:
    """Run an iteration; return what happened, operations included."""
    noted.told.clear()
    for key in keys:
        order.before(key)
        noted.told.append(("ran", key[0]))
        order.after()
    order.end_iteration()
    return list(noted.told)


def test_a_stage_is_left_right_after_its_last_operation_once_the_iteration_is_known():
    noted = Noted()
    order = StageOrder(noted)
    first = run(order, PP, PP, DP, noted=noted)
    assert first == [
        ("reached", "pp0", 0, (0, 2), 0),
        ("ran", "pp0"),
        ("ran", "pp0"),
        ("left", "pp0", 0, (0, 2), 0, "then", "dp0", 0, (0, 4), 0),
        ("reached", "dp0", 0, (0, 4), 0),
        ("ran", "dp0"),
        ("left", "dp0", 0, (0, 4), 0, "then", "pp0", 1, (0, 2), 0),
    ]
    assert run(order, PP, PP, DP, noted=noted) == [
        ("reached", "pp0", 1, (0, 2), 0),
        ("ran", "pp0"),
        ("ran", "pp0"),
        ("left", "pp0", 1, (0, 2), 0, "then", "dp0", 1, (0, 4), 0),
        ("reached", "dp0", 1, (0, 4), 0),
        ("ran", "dp0"),
        ("left", "dp0", 1, (0, 4), 0, "then", "pp0", 2, (0, 2), 0),
    ]


def test_two_stages_of_the_same_ranks_in_an_iteration_have_two_places():
    noted = Noted()
    order = StageOrder(noted)
    for turn in range(2):
        told = run(order, PP, NEXT, PP, noted=noted)
        reached = [what[1:] for what in told if what[0] == "reached"]
        assert reached == [
            ("pp0", 2 * turn, (0, 2), 0),
            ("pp0", turn, (2, 4), 0),
            ("pp0", 2 * turn + 1, (0, 2), 1),
        ]
        assert [what[-4:] for what in told if what[0] == "left"][-1] == (
            *("pp0", 2 * turn + 2, (0, 2), 0),
        )


def test_what_is_on_its_way_is_waited_for_before_a_stage_is_left():
    noted = Noted()
    order = StageOrder(noted)
    for key in (PP, DP):
        order.before(key, lambda key=key: noted.told.append(("drained", key[0])))
        order.after()
    order.end_iteration()
    assert [what[:2] for what in noted.told] == [
        ("reached", "pp0"),
        ("drained", "pp0"),
        ("left", "pp0"),
        ("reached", "dp0"),
        ("drained", "dp0"),
        ("left", "dp0"),
    ]


def test_an_iteration_ends_its_last_stage():
    noted = Noted()
    order = StageOrder(noted)
    run(order, PP, noted=noted)
    assert [what[:3] for what in run(order, PP, noted=noted)] == [
        ("reached", "pp0", 1),
        ("ran", "pp0"),
        ("left", "pp0", 1),
    ]


def test_the_instant_since_when_circuits_are_known_to_be_lit_is_passed_on():
    assert StageOrder(Noted()).before(PP) == 7.0


@pytest.mark.parametrize("other", [(PP, NEXT), (PP, DP, DP), (PP,), ()])
def test_an_iteration_with_other_operations_is_refused(other):
    noted = Noted()
    order = StageOrder(noted)
    run(order, PP, DP, noted=noted)
    with pytest.raises(ProtocolError):
        run(order, *other, noted=noted)


def test_a_rank_without_operations_on_a_rail_has_no_stages():
    noted = Noted()
    order = StageOrder(noted)
    assert run(order, noted=noted) == run(order, noted=noted) == []
