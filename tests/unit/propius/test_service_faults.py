"""Faults that programs have: what cannot be done is said, and calls are repeated."""

import pytest

from testbed.errors import LabError
from testbed.propius.calls import Repeated
from testbed.propius.service_faults import cut_line


def test_a_line_that_is_not_there_is_not_cut_and_said():
    with pytest.raises(LabError, match=r"^`ip -4 route show dev nowhere` failed: .*nowhere"):
        cut_line("nowhere", 1.0)


def test_a_call_is_repeated_until_it_is_answered_or_its_time_is_over():
    asked = []

    def answer(method, request):
        asked.append((method, request))
        if len(asked) < 3:
            raise LabError("nobody is there")
        return "here"

    assert Repeated(answer, 60.0)("Hear", 7) == "here"
    assert asked == [("Hear", 7)] * 3
    asked.clear()
    with pytest.raises(LabError, match="nobody is there"):
        Repeated(answer, 0.0)("Hear", 7)
    assert len(asked) == 1
