"""Agents that end with the test."""

import pytest

from tests.unit.bench.agent_on_pipes import Agent
from tests.unit.bench.private_host import Host


@pytest.fixture
def agents():
    """Start agents; each ends with the test, and its ranks with it."""
    started = []

    def start(wrapper=""):
        started.append(Agent(wrapper))
        return started[-1]

    yield start
    for agent in started:
        agent.link.close()
        agent.channel.end()


@pytest.fixture
def agent(agents):
    """An agent that was greeted."""
    agent = agents()
    agent.hello()
    return agent


@pytest.fixture
def host():
    host = Host()
    yield host
    host.close()


@pytest.fixture
def agent_of(host, agents):
    """Start an agent on the host, greeted on behalf of a run, which may call it another one."""

    def start(run, called="h0"):
        agent = agents(f"exec {host.enter} sh -c")
        agent.leftovers = agent.hello(run=run, host=called, p0="eth1")["leftovers"]
        return agent

    return start
