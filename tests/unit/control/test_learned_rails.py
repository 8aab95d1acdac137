"""The controller of rails in the mode `learned`, while the windows of its job change."""

import pytest

from testbed.control import protocol
from testbed.control.controller import TimerExpired
from testbed.control.rail_moves import RecordHeld
from testbed.rails.stage import Stage
from tests.unit.control.test_rails import GROUPS, TAKES, moved_all, said, two_rails

NARROW, WIDE = 0.02, 0.3
"""Seconds of a window, which is too short for a change of circuits, or hides it."""


def iteration(controller, state, now, number, window, more):
    """Have the ranks of two groups take turns; return the state, the time, and what was held.

    `more` are the seconds by which a stage that was asked for early is longer.
    """
    held = []
    for place, name in enumerate(("dp0", "pp0")):
        stage = Stage(name, number, tuple(GROUPS[name]), place)
        for rank in (*stage.ranks, 4 if name == "dp0" else 2):
            following = stage if rank in stage.ranks else None
            left = said("main", protocol.StageLeft, rank, following)
            state, commands = controller.step(state, now, left)
            held += [one for one in commands if isinstance(one, RecordHeld)]
        now += window
        state, _ = controller.step(state, now - TAKES, TimerExpired())
        state = moved_all(controller, state, now)
        for rank in stage.ranks:
            reached = said("main", protocol.StageReached, rank, stage)
            state, _ = controller.step(state, now, reached)
        now += TAKES * bool(state.moves) + more * bool(held)
        state = moved_all(controller, state, now)
    return state, now, held


@pytest.mark.parametrize("ends", [0, 1])
def test_stages_are_asked_for_early_as_soon_as_windows_hide_a_change_and_no_longer(ends):
    controller, state = two_rails("learned")
    now, early = 0.0, []
    phases = [(NARROW, 0.1), (WIDE, 0.0)][:: -1 if ends else 1]
    for number in range(52):
        window, more = phases[number >= 30]
        state, now, held = iteration(controller, state, now, number, window, more)
        early.append(len(held) == 2)
    settled = early[22:30], early[44:52]
    assert [*map(sum, settled)] == ([8, 0] if ends else [0, 8])
    assert any(early[30:44]) and not all(early[30:44])
