from __future__ import annotations

import numpy as np
import pytest

from testbed.onhost.errors import Refused
from testbed.onhost.jobs.state import State


def advanced(steps):
    """Return a state whose numbers after each step are the number of the step."""
    state = State(5)
    for step in range(steps):
        state.draft[:] = step + 1
        state.commit()
    return state


def test_a_new_state_is_that_before_step_0():
    assert State(3).step == 0


def test_an_uncommitted_step_does_not_change_the_current_state():
    state = advanced(2)
    before = state.sha256()
    state.draft[:] = 99
    assert (state.step, state.sha256()) == (2, before)


def test_one_step_can_be_taken_back_and_done_again():
    state, digest = advanced(3), advanced(2).sha256()
    state.rewind(2)
    assert state.step == 2
    assert state.sha256() == digest
    state.draft[:] = 3
    state.commit()
    assert state.sha256() == advanced(3).sha256()


def test_rewind_to_the_current_step_changes_nothing():
    state = advanced(3)
    state.rewind(3)
    assert state.step == 3
    assert (state.numbers == 3).all()


@pytest.mark.parametrize("step", [0, 1, 4])
def test_rewind_by_more_than_one_step_is_refused(step):
    with pytest.raises(Refused, match=f"the state before step {step} is not stored"):
        advanced(3).rewind(step)


def test_once_a_step_has_begun_the_state_cannot_be_rewound():
    state = advanced(3)
    state.draft[0] = 7
    with pytest.raises(Refused):
        state.rewind(2)


def test_a_received_state_is_valid_only_when_all_of_it_is_there():
    source, newcomer = advanced(4), State(5)
    room = newcomer.incoming()
    room[:40] = source.outgoing()[:40]  # the step's number has arrived, the numbers have not
    assert newcomer.step is None
    room[:] = source.outgoing()
    newcomer.adopt(4)
    assert newcomer.step == 4
    assert newcomer.sha256() == source.sha256()
    assert (newcomer.numbers == 4).all()


def test_a_received_state_of_another_step_is_refused():
    source, newcomer = advanced(4), State(5)
    newcomer.incoming()[:] = source.outgoing()
    with pytest.raises(Refused, match="the state before step 4, expected that before 3"):
        newcomer.adopt(3)
    assert newcomer.step is None


def test_the_digest_of_a_state_covers_step_and_numbers():
    one, other = State(5), State(5)
    other.numbers[4] = np.float32(1e-30)
    assert len({one.sha256(), other.sha256(), advanced(1).sha256()}) == 3
