"""The line between a script and its rank: what is passed on, and what its end tells."""

from __future__ import annotations

import socket
from functools import cache

import pytest

from testbed.onhost.communication.control import Control
from testbed.onhost.communication.rails import OWN_STAGES, RailStages
from testbed.onhost.communication.script_line import RailLine, RailRelay
from testbed.onhost.communication.stages import Stage
from testbed.onhost.errors import PeerLost
from testbed.onhost.frames import Decoder, encode

GREETING = {"generation": 3, "rank": 1, "hosts": ["h0", "h1"], "groups": {"dp0": [0, 1]}}
STAGE = Stage("dp0", 0, (0, 1), -1)
NUMBERED = ["dp0", OWN_STAGES, [0, 1], -1]


class Agent:
    """The agent's end of a rank's channel."""

    def __init__(self):
        self.line, self.theirs = socket.socketpair()
        self.line.settimeout(20.0)
        self._decoder, self._heard = Decoder(), []

    def hear(self):
        """Return the next event of the rank but that it is alive."""
        while True:
            while not self._heard:
                self._heard += self._decoder.feed(self.line.recv(65536))
            if (said := self._heard.pop(0))["event"] != "alive":
                return said

    def tell(self, **message):
        self.line.sendall(encode(message))


@cache
def ends():
    """Return an agent and the rank's end of one channel, whose end would end this process."""
    agent = Agent()
    return agent, Control(agent.theirs)


@pytest.fixture
def agent():
    return ends()[0]


@pytest.fixture
def control():
    return ends()[1]


@pytest.fixture
def relay(control):
    found = RailRelay(control, GREETING)
    yield found
    found.close()


@pytest.fixture
def line(relay):
    found = RailLine(relay.name)
    yield found
    found.close()


def test_a_script_asks_for_circuits_and_hears_that_they_are_lit(agent, line):
    assert line.greeting == GREETING
    stages = RailStages(line, 3, OWN_STAGES)
    links = [[[0, 0], [1, 0]]]
    lit = {"generation": 3, "group": "dp0", "ranks": [0, 1], "number": OWN_STAGES}
    stages.left(STAGE, None)
    assert agent.hear().items() >= {"event": "stage-left", "stage": NUMBERED}.items()
    agent.tell(do="stage-lit", links=links, **lit)
    stages.reached(STAGE)
    said = agent.hear()
    assert said.items() >= {"event": "stage-reached", "stage": NUMBERED, "generation": 3}.items()
    assert stages.links(STAGE) == links


def test_a_script_whose_rank_is_gone_waits_no_longer(relay, line):
    relay.close()
    with pytest.raises(PeerLost, match="the rank"):
        RailStages(line, 3).reached(STAGE)


def test_a_script_that_says_anything_else_loses_its_line(line):
    line.emit("sample", step=1)
    with pytest.raises(PeerLost):
        line.wait_until(lambda: False, 3)


def test_a_relay_that_nobody_connects_to_ends(control):
    RailRelay(control, GREETING).close()
