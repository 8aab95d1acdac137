"""How soon the kernel tells of a carrier: what `told_at_once` rests on, with real links."""

import os
import select
import subprocess

import pytest

from testbed.onhost.agent.ports import CarrierWatch

PROMPT = 0.7
"""Seconds within which a message counts as not delayed; the kernel's own delay is a second."""


def ip(*words):
    subprocess.run(["ip", "link", *words], check=True, capture_output=True)


@pytest.fixture
def pair():
    if os.geteuid():
        pytest.skip("only root makes links")
    here, there = f"tw{os.getpid()}a", f"tw{os.getpid()}b"
    ip("add", here, "type", "veth", "peer", "name", there)
    ip("set", here, "up")
    yield here, there
    ip("del", here)


def test_each_of_several_changes_within_a_second_is_told_at_once_of_a_veth(pair):
    here, there = pair
    watch = CarrierWatch({"p0": here})
    try:
        assert watch.told_at_once
        watch.changes()
        for state in ("up", "down", "up", "down", "up"):
            ip("set", there, state)
            changed = []
            while not changed:
                ready, _, _ = select.select([watch], [], [], PROMPT)
                assert ready, f"no message that {there} went {state}"
                changed = watch.changes()
            assert changed == [("p0", state == "up")]
    finally:
        watch.close()


def test_a_port_that_depends_on_no_other_link_must_be_looked_at():
    watch = CarrierWatch({"p0": "lo"})
    assert not watch.told_at_once
    watch.close()
