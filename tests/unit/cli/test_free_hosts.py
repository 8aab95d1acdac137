"""Which hosts an experiment takes when it enters a queue: of those that suit it, the free ones."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.bench.lease_resources import named
from testbed.cli.files import read
from testbed.cli.free_hosts import enter_queue
from testbed.cli.lease_stores import leases_of, queue_of
from testbed.record import lease_store, locks
from testbed.record.lab_queue import QueueRequest
from testbed.record.queue_place import QueuePlace
from testbed.run.planning.steps import OpenHosts

RACK = Path(__file__).parents[3] / "configs" / "rack.yaml"
EXPERIMENT = """\
experiment: small
question: On which hosts?
needs: {hosts: 3, fabric: circuit}
jobs: {main: {kind: train, ranks: 2, spares: 1, steps: 9}}
"""

TWO = EXPERIMENT.replace("spares: 1, ", "").replace("hosts: 3", "hosts: 2")


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Return the hosts of a plan, while others hold, or wait for, parts of the lab `rack`."""
    for module in (locks, lease_store):
        monkeypatch.setattr(module, "SHARED", tmp_path / "shared")
    file = tmp_path / "small.yaml"

    def found(held=(), wanted=(), text=EXPERIMENT, lab=(), then=(), locked=(), file_of_lab=RACK):
        """Others hold `held` and wait for `wanted` for 10 min, and hold `then` for an hour.

        A run outside the queue holds `locked`.
        """
        file.write_text(text)
        inputs = read(str(file), str(file_of_lab), list(lab), None, 7)
        with ExitStack() as stack:
            for parts, starts, limit in (
                (held, True, 600),
                (then, True, 3600),
                (wanted, False, 600),
            ):
                if not parts:
                    continue
                request = QueueRequest("fifo", float(limit), 1, "theirs")
                resources = named(inputs.lab, parts)
                place = QueuePlace(queue_of(inputs.lab), resources, "theirs", request)
                stack.callback(place.leave)
                if starts:
                    stack.callback(place.start().release)
            if locked:
                leases = leases_of(inputs.lab)
                stack.callback(leases.take(named(inputs.lab, locked), "theirs", None).release)
            chosen, place = enter_queue(inputs, None, QueueRequest("fifo", 600.0, 1, "ours"))
            stack.callback(place.leave)
            plan = chosen.plan
        (hosts,) = (step.hosts for step in plan.steps if isinstance(step, OpenHosts))
        return hosts

    return found


def test_where_nobody_has_anything_it_takes_the_hosts_in_the_order_of_the_lab(planned):
    assert planned() == ("h0", "h1", "h2")


@pytest.mark.parametrize("parts", [["h1"], ["ocs.3"], ["pdu.2"]])
def test_it_passes_over_a_host_that_somebody_has_a_part_of(planned, parts):
    assert planned(held=parts) == ("h0", "h2", "h3")
    assert planned(wanted=parts) == ("h0", "h2", "h3")


def test_two_experiments_are_on_disjoint_hosts_of_one_rack(planned):
    assert planned(held=["h0", "h1", "h2"]) == ("h3", "h4", "h5")


def test_where_too_few_are_free_it_waits_for_the_hosts_that_it_would_have_anyway(planned):
    assert planned(held=["h0", "h1", "h2", "h4"]) == ("h0", "h1", "h2")


def test_a_job_that_names_its_hosts_keeps_them(planned):
    text = EXPERIMENT.replace("steps: 9", "steps: 9, hosts: [h0, h1, h2]")
    assert planned(held=["h1"], text=text) == ("h0", "h1", "h2")


def test_where_too_few_are_free_it_waits_for_those_that_are_expected_to_be_free_soonest(planned):
    assert planned(held=["h3", "h5"], then=["h0", "h1"]) == ("h2", "h3", "h4")


def test_an_entry_that_waits_for_a_host_is_expected_to_have_it_first(planned):
    """Who waits for h2 has it for 10 min after the hour, and h5 is free after 10 min."""
    held = {"held": ["h5"], "then": ["h1", "h3", "h4"], "wanted": ["h2", "h4"]}
    assert planned(**held, text=TWO) == ("h0", "h5")


def test_of_the_free_hosts_it_takes_those_with_the_attributes_that_it_needs(planned):
    text = EXPERIMENT.replace("fabric: circuit", "fabric: circuit, attributes: {gpus: 8}")
    lab = [f"lab.hosts.{host}.attributes={{gpus: 8}}" for host in ("h0", "h1", "h2", "h4", "h5")]
    assert planned(text=text, lab=lab) == ("h0", "h1", "h2")
    assert planned(held=["h1"], text=text, lab=lab) == ("h0", "h2", "h4")
    assert planned(held=["h1"], then=["h0", "h5"], text=text, lab=lab) == ("h1", "h2", "h4")


def test_a_run_outside_the_queue_is_expected_to_last_longer_than_any_in_it(planned):
    held = {"locked": ["h0", "h1"], "then": ["h2", "h3"]}
    assert planned(**held, text=TWO) == ("h4", "h5")
    assert planned(**held, held=["h4"], text=TWO) == ("h4", "h5")
    assert planned(**held, held=["h4", "h5"], text=TWO) == ("h4", "h5")
    assert planned(locked=["h0"], then=["h1", "h2", "h3", "h4", "h5"], text=TWO) == ("h1", "h2")


def test_a_host_that_does_not_permit_the_fault_is_passed_over(planned):
    text = TWO + "faults: [{kind: power-cut, target: random, at: {step: 5}}]\n"
    text = text.replace("steps: 9", "steps: 20")
    for lab in (["lab.hosts.h2.allow=[]"], ["lab.hosts.h2.power=null"]):
        assert planned(held=["h0", "h1"], lab=lab, text=text) == ("h3", "h4")


def test_a_host_behind_an_attenuator_that_somebody_has_is_not_free(planned):
    example = RACK.with_name("example-lab.yaml")
    free = {"file_of_lab": example, "text": TWO}
    assert planned(**free) == ("gpu-1", "gpu-2")
    assert planned(**free, held=["voa"]) == ("gpu-2", "gpu-3")


@pytest.mark.parametrize("taken", ["h0", "h1", "h2", "h3"])
def test_on_a_rack_of_servers_the_hosts_are_those_that_fibres_can_join_without_it(planned, taken):
    slices = RACK.with_name("slices.yaml")
    text = TWO.replace("ranks: 2", "ranks: 2, topology: ring")
    hosts = planned(held=[taken], file_of_lab=slices, text=text)
    assert taken not in hosts and len(hosts) == 2


def test_runs_that_enter_at_the_same_moment_are_on_different_hosts(tmp_path, planned):
    planned()  # writes the file
    one = tmp_path / "one.yaml"
    one.write_text(EXPERIMENT.replace("ranks: 2, spares: 1", "ranks: 1").replace(": 3,", ": 1,"))
    together, chosen = threading.Barrier(6), list[str]()

    def enter(number):
        inputs = read(str(one), str(RACK), [], None, 7)
        together.wait(60.0)
        found, place = enter_queue(inputs, None, QueueRequest("fifo", 600.0, 1, f"run {number}"))
        (hosts,) = (step.hosts for step in found.plan.steps if isinstance(step, OpenHosts))
        chosen.extend(hosts)
        return place

    with ThreadPoolExecutor(6) as pool:
        places = list(pool.map(enter, range(6)))
    for place in places:
        place.leave()
    assert sorted(chosen) == [f"h{number}" for number in range(6)]
