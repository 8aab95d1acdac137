"""The operations of a script on its rail: in which order stages are asked for, begun and left."""

from __future__ import annotations

import threading

import pytest

from testbed.onhost.communication.stages import Stage
from testbed.onhost.errors import Refused
from testbed.onhost.script.operations import Operations

PATIENCE = 20.0
DP, PP = ("dp0", (0, 2)), ("pp0", (0, 1))


class Rail:
    """What is told of stages, in order; circuits are there at once, or refused."""

    def __init__(self, refused=""):
        self.told, self.refused = [], refused

    def reached(self, stage):
        self.told.append(f"reached {stage.group} {stage.number}")
        if self.refused:
            raise Refused(self.refused)
        return 0.0

    def left(self, stage, following):
        then = "" if following is None else f" for {following.group} {following.number}"
        self.told.append(f"left {stage.group} {stage.number}{then}")

    def drain(self):
        self.told.append("drained")


class Operation:
    """An operation that ends when it is told to."""

    def __init__(self, name, rail):
        self.name, self.rail = name, rail
        self.begun, self.may_end, self.over = (threading.Event() for _ in range(3))
        self.error = None
        self.fails_with = None

    def begin(self, stage):
        assert isinstance(stage, Stage)
        self.rail.told.append(f"begun {self.name}")
        self.begun.set()
        return self.wait

    def wait(self):
        assert self.may_end.wait(PATIENCE)
        if self.fails_with is not None:
            raise self.fails_with

    def finish(self, error):
        self.error = error
        self.over.set()

    def end(self):
        assert self.begun.wait(PATIENCE)
        self.may_end.set()
        assert self.over.wait(PATIENCE)


@pytest.fixture
def rail():
    return Rail()


@pytest.fixture
def operations(rail):
    found = Operations(rail, rail.drain)
    yield found
    found.close()


def submit(operations, rail, key, name, **how):
    one = Operation(name, rail)
    operations.submit(*key, one.begin, one.finish, **how)
    return one


def test_an_operation_is_begun_in_its_stage_which_is_left_at_its_end(operations, rail):
    submit(operations, rail, DP, "sum").end()
    operations.close()
    assert rail.told == ["reached dp0 0", "begun sum", "drained", "left dp0 0"]


def test_one_of_other_ranks_waits_for_the_end_of_all_before_it(operations, rail):
    first, second = (submit(operations, rail, PP, name) for name in ("send", "receive"))
    third = submit(operations, rail, DP, "sum")
    second.end()
    assert not third.begun.is_set()
    first.end()
    third.end()
    operations.close()
    assert rail.told[:4] == ["reached pp0 0", "begun send", "reached pp0 1", "begun receive"]
    assert rail.told[4:] == [
        *("drained", "left pp0 1 for dp0 0", "reached dp0 0", "begun sum", "drained", "left dp0 0")
    ]


def test_those_of_a_batch_are_under_way_together_whichever_ends_first(operations, rail):
    batch = [submit(operations, rail, PP, name) for name in ("send", "receive")]
    for one in reversed(batch):
        one.end()
    assert [one.error for one in batch] == [None, None]


@pytest.mark.parametrize("turns", [(True, True), (True, False), (False, True)])
def test_one_that_takes_its_turn_is_alone_even_among_those_of_its_ranks(operations, rail, turns):
    first, second = (
        submit(operations, rail, PP, name, takes_turn=turn)
        for name, turn in zip(("one", "other"), turns, strict=True)
    )
    assert first.begun.wait(PATIENCE)
    assert not second.begun.wait(0.05)
    first.end()
    second.end()
    operations.close()
    assert rail.told[:2] == ["reached pp0 0", "begun one"]
    assert rail.told[-4:] == ["reached pp0 1", "begun other", "drained", "left pp0 1"]


def test_what_comes_later_has_the_next_number_of_its_ranks(operations, rail):
    for key in (PP, DP, PP):
        submit(operations, rail, key, "one").end()
    operations.close()
    reached = [said for said in rail.told if said.startswith("reached")]
    assert reached == ["reached pp0 0", "reached dp0 0", "reached pp0 1"]


def test_an_operation_that_fails_is_told_so_and_its_stage_is_left(operations, rail):
    one = submit(operations, rail, PP, "send")
    one.fails_with = RuntimeError("the connection was closed")
    one.end()
    assert one.error is one.fails_with
    submit(operations, rail, DP, "sum").end()
    assert "left pp0 0" in " ".join(rail.told)


def test_without_circuits_every_operation_fails_and_none_is_begun():
    rail = Rail("nobody has made the circuits of dp0 0")
    operations = Operations(rail, rail.drain)
    for key in (DP, PP):
        one = submit(operations, rail, key, "one")
        assert one.over.wait(PATIENCE)
        assert str(one.error) == rail.refused
        assert not one.begun.is_set()
    operations.close()
    assert rail.told == ["reached dp0 0"]
