"""Lines between the ranks of a program, and what goes over them."""

import json
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from testbed.errors import LabError
from testbed.propius.binding_load import Findings, told_otherwise
from testbed.propius.rank_lines import RankLine, line_to_first, lines_to_ranks
from testbed.tenancy.replies import Reply


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return f"127.0.0.1:{found.getsockname()[1]}"


def test_ranks_that_call_in_any_order_are_told_apart_and_heard():
    address, has_called = free_address(), Event()

    def be(rank):
        if rank == 1:  # it calls last
            assert has_called.wait(20.0)
        with line_to_first(address, rank, 20.0) as line:
            has_called.set()
            line.say([line.hear(20.0), rank])

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(be, rank) for rank in (2, 1)]
        with lines_to_ranks(address, 3, 20.0) as lines:
            for rank, line in lines.items():
                line.say(f"for {rank}")
            assert lines[1].hear(20.0) == ["for 1", 1]
            assert lines[2].hear(20.0) == ["for 2", 2]
            with pytest.raises(LabError, match=r"was heard of .*: the line was closed"):
                lines[1].hear(20.0)
        for each in running:
            each.result()


def test_what_does_not_come_is_said_after_its_time():
    address = free_address()
    late = pytest.raises(LabError, match=r"ranks \[1, 2\] did not call within 0.01 s")
    with late, lines_to_ranks(address, 3, 0.01):
        pass
    with (
        pytest.raises(LabError, match="rank 0 was not reached at"),
        line_to_first(address, 1, 0.01),
    ):
        pass


def test_findings_of_several_ranks_are_added_as_they_come_over_a_line():
    one = Findings(answers=Counter({Reply.OK: 2}), tried_twice=3, bound_twice=1, lost=4)
    one.told["a", 1] |= {"x", "y"}
    both = Findings()
    for _ in range(2):
        both.add(json.loads(json.dumps(one.fields())))
    assert both.told == {("a", 1): {"x", "y"}}
    assert (both.accepts, both.answers[Reply.OK]) == (4, 4)
    assert (both.tried_twice, both.bound_twice, both.lost) == (6, 2, 8)


def test_told_otherwise_counts_what_one_side_alone_knows():
    told = {("a", 1): {"x", "y"}, ("a", 2): set()}
    assert told_otherwise(told, {("a", 1): {"y", "x"}}) == 0
    assert told_otherwise(told, {("a", 1): {"x", "z"}, ("b", 1): {"v"}}) == 3


def test_a_line_says_whether_something_has_come():
    near, far = socket.socketpair()
    line, other = RankLine(near, "here"), RankLine(far, "there")
    assert not line.is_there(0.0) and not line.is_there(-1.0)
    other.say("end")
    assert line.is_there(20.0) and line.hear(20.0) == "end"
    assert not line.is_there(0.0)
    other.close()
    assert line.is_there(20.0), "its end is something, too"
    line.close()
