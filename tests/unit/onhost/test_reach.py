"""Ranks of the job `reach` as processes over loopback, where everybody reaches everybody."""

from __future__ import annotations

import json
import socket
import time

import pytest

from testbed.jobs.reach import Reach
from testbed.jobs.reach_descriptors import ReachOptions
from testbed.onhost.communication.reach import ReachPort, median_of_each
from testbed.onhost.communication.sockets import LOOPBACK
from testbed.onhost.errors import Left, Refused
from tests.unit.onhost.test_circuit_group import all_said, serve


def nothing():
    pass


@pytest.fixture
def numbers():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((LOOPBACK.address, 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind((LOOPBACK.address, 0))
            found = {0: one.getsockname()[1], 1: other.getsockname()[1]}
    return found


@pytest.fixture
def ports(numbers):
    made = [ReachPort(rank, LOOPBACK, numbers) for rank in numbers]
    yield made
    for port in made:
        port.close()


def test_every_rank_asks_all_others_on_every_matching(gang):
    told = Reach(ReachOptions(ranks=4, probes=5)).for_rank()["options"]
    members = gang("reach", told, 4)
    members.join(1)
    asked = serve(members, all_said(members, "done"))
    everybody = [0, 1, 2, 3]
    tour = [(number, everybody) for number in (1, 2, 3, 0)]
    assert asked == tour + tour  # to connect, and to ask
    for rank, member in enumerate(members.members):
        reports = member.of_kind("reach")
        others = {str(other) for other in everybody if other != rank}
        assert [report["step"] for report in reports] == [0, 1, 2]
        assert {report["peer"] for report in reports} == {*everybody} - {rank}
        for report in reports:
            assert report["answered"] == report["heard"] == dict.fromkeys(others, 5)
            assert report["rtt"].keys() == others
            assert all(0 < seconds < 1 for seconds in report["rtt"].values())


def test_a_rank_that_does_not_answer_has_lost_all_and_one_that_does_none(ports, numbers):
    one, other = ports
    assert len(one.ask(1, 5, 0.001, 1, nothing)[1]) == 5
    assert (other.heard(1), other.heard(2)) == ({0: 5}, {0: 0})
    other.close()
    assert one.ask(2, 5, 0.001, None, nothing) == {1: []}
    assert median_of_each({1: [], 2: [0.3, 0.1, 0.2]}) == {"2": 0.2}


def test_datagrams_for_others_and_of_strangers_are_not_answered(ports, numbers):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.settimeout(0.3)
        question = {"ask": 7, "from": 0, "to": 9, "matching": 1}
        wrong = (b"", b"[]", b"null", b'{"to": 1}', b'{"to": 1, "answer": 3}', b"[" * 400)
        for data in (json.dumps(question).encode(), *wrong):
            stranger.sendto(data, (LOOPBACK.address, numbers[1]))
        with pytest.raises(TimeoutError):
            stranger.recv(512)
    assert ports[1].heard(1) == {0: 0}
    assert len(ports[0].ask(1, 3, 0.001, 1, nothing)[1]) == 3  # it goes on


def test_an_order_to_leave_ends_the_questions(ports):
    def leave():
        raise Left

    begin = time.monotonic()
    with pytest.raises(Left):
        ports[0].ask(1, 1000, 0.01, 1, leave)
    assert time.monotonic() - begin < 5


def test_a_port_in_use_is_refused(ports, numbers):
    with pytest.raises(Refused, match=f"UDP port {numbers[0]} cannot be used"):
        ReachPort(0, LOOPBACK, numbers)
