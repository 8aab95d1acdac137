"""The times of a client that obeys a trace are those of the simulation, over the speed."""

from __future__ import annotations

import pytest

from testbed.propius.devices import Device, device_of
from testbed.tenancy.traces import Population, generate
from testbed.tenancy.workload import JobSpec


@pytest.mark.parametrize("speedup", [1.0, 600.0])
def test_a_task_takes_as_long_as_in_the_simulation(speedup):
    job = JobSpec("j", 0.0, 1, 1, 1, (), (), samples=310, model=112_000.0)
    for client in generate(Population(clients=20), 5).clients:
        device = device_of(client, 14_000_000, speedup)
        took = 2 * device.transfer + job.samples * device.per_sample
        assert took * speedup == pytest.approx(job.task_time(client))
        assert (device.attributes, device.speed) == (client.attributes, client.speed)


def test_a_client_without_a_trace_waits_for_nothing():
    assert (Device().transfer, Device().per_sample) == (0.0, 0.0)
