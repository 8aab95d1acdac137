"""Opening and closing a line a thousand times leaves no descriptor, no thread and no memory."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from testbed.contract.family import families
from testbed.contract.rig import Rig, soon
from testbed.errors import InstrumentError, LinkLost

FAMILIES = families()
BOXES = {
    "visa-tcp": "polatis",
    "tcp": "polatis",
    "visa-serial": "polatis",
    "serial": "polatis",
    "http": "polatis-restconf",
    "https": "polatis-restconf",
    "ssh": "sonic-ocs",
}
"""A box for each wire."""

WARM = 5
PER_OPEN = 40
"""Bytes of memory that an open and a close may leave behind: less than any object."""
ONCE = 40_000
"""Bytes that caches and the measurement itself may take on top."""


def counts(sample, *wires):
    """Return a sample for each wire, shorter where keys are agreed on, and the full count."""
    few = [pytest.param(w, 5 if w == "ssh" else sample, id=f"{w}-sample") for w in wires]
    full = [pytest.param(w, 1000, id=f"{w}-full", marks=pytest.mark.soak) for w in wires]
    return pytest.mark.parametrize(("wire", "count"), few + full)


@pytest.fixture
def rig(tmp_path):
    made = []

    def rig(wire):
        made.append(Rig(FAMILIES[BOXES[wire]], wire, tmp_path))
        return made[-1]

    yield rig
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def set_aside():
    """Set aside what the tests of other modules hold: no count goes through it, now or later."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def traced(set_aside):
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held():
    """Return how many descriptors and threads this process has."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def at_rest():
    """Return what is held once nothing of it comes or goes any more."""
    seen = [held()]
    while len(seen) < 10 or len(set(seen[-10:])) > 1:
        time.sleep(0.005)
        seen.append(held())
    return seen[-1]


def memory():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def expect_no_more_than(before):
    """Wait until the far end, too, has noticed the last close; fail when something stays."""
    deadline = time.monotonic() + 60
    while any(now > then for now, then in zip(held(), before, strict=True)):
        assert time.monotonic() < deadline, (held(), before, threading.enumerate())
        time.sleep(0.005)


def grown_since(before, limit):
    """Return how much more memory is held once the threads of the last line are done with it."""
    deadline = time.monotonic() + 60
    while (grown := memory() - before) >= limit and time.monotonic() < deadline:
        time.sleep(0.05)
    return grown


def expect_flat(use, count):
    for _ in range(WARM):
        use()
    at_first = tracemalloc.take_snapshot()
    before, bytes_before = at_rest(), memory()
    for _ in range(count):
        use()
    expect_no_more_than(before)
    grown = grown_since(bytes_before, ONCE + PER_OPEN * count)
    print(f"\n{count} times: {held()} after {before}, {grown} bytes more")
    if grown >= ONCE + PER_OPEN * count:
        print(*tracemalloc.take_snapshot().compare_to(at_first, "lineno")[:9], sep="\n")
    assert grown < ONCE + PER_OPEN * count


@counts(25, *BOXES)
def test_opening_and_closing_an_instrument_leaks_no_descriptor_or_thread(rig, traced, wire, count):
    place = rig(wire)
    driver = place.driver()

    def use():
        driver.close()
        driver.open(soon())
        place.sent.clear()

    expect_flat(use, count)


@counts(8, *BOXES)
def test_refusing_another_device_leaks_no_descriptor_or_thread(rig, traced, wire, count):
    """The box is there, but it is another one: the line is opened, greeted and given up."""
    place = rig(wire)
    driver = place.driver()
    place.cut(place.build("S2"))

    def use():
        with pytest.raises(InstrumentError, match="S2"):
            driver.open(soon())
        place.sent.clear()

    expect_flat(use, count)


@counts(8, *BOXES)
def test_failing_to_open_a_device_leaks_no_descriptor_or_thread(rig, traced, wire, count):
    place = rig(wire)
    driver = place.driver()
    place.unplug()

    def use():
        with pytest.raises(LinkLost):
            driver.open(soon())

    expect_flat(use, count)


@counts(8, "ssh")
def test_a_refused_host_key_leaks_no_descriptor_or_thread(rig, traced, tmp_path, wire, count):
    driver = rig(wire).driver()
    driver.close()
    (tmp_path / ".ssh" / "known_hosts").write_text("")

    def use():
        with pytest.raises(InstrumentError, match="host key"):
            driver.open(soon())

    expect_flat(use, count)
