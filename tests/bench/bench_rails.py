"""What the control of rails itself takes for a change of circuits.

Run with `make bench ARGS='-k rails'`. From the last request that a stage needs to the answer, with
a switch that answers on a real line and whose circuits settle at once: the median of 200 changes
is at most 5 ms.
"""

import time
from statistics import median, quantiles

from testbed.control import protocol
from testbed.control.controller import JobObserved
from testbed.rails.stage import Stage
from tests.unit.run.conftest import inbox
from tests.unit.run.test_rail_commands import GROUPS, RailsAtWork, lab

__all__ = ["inbox", "lab"]

CHANGES = 200
CLAIM = 0.005


def test_a_change_of_circuits_takes_the_control_five_milliseconds_at_most(lab, inbox):
    rails = RailsAtWork(lab, inbox, "on-demand")
    try:
        took = [_change(rails, number) for number in range(CHANGES)]
    finally:
        rails.executor.end()
        rails.lease.release()
        lab.put_back(rails.bench)
    p95 = quantiles(took, n=20)[-1]
    print(f"\nrails: {CHANGES} changes, median {median(took) * 1e3:.2f} ms, p95 {p95 * 1e3:.2f} ms")
    assert median(took) <= CLAIM


def _change(rails, number):
    """Have two ranks meet that did not before; return the seconds from request to answer."""
    name = ("dp0", "pp0")[number % 2]
    first, last = GROUPS[name]
    stage = Stage(name, number // 2, GROUPS[name])
    rails.told.clear()
    rails.executor.observe(JobObserved("main", protocol.StageReached(first, stage)))
    begin = time.perf_counter()
    rails.executor.observe(JobObserved("main", protocol.StageReached(last, stage)))
    assert rails.are_told(name)
    took = time.perf_counter() - begin
    for rank in stage.ranks:
        rails.executor.observe(JobObserved("main", protocol.StageLeft(rank, None)))
    return took
