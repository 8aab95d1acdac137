"""Agents that end with the test."""

import pytest

from tests.unit.bench.agent_on_pipes import Agent


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
