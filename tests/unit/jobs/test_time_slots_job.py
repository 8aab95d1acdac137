"""The job `all-to-all`: its time slots, what its ranks are told, and what a slot carries."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.collectives.cost import Links
from testbed.control.descriptors import RotateSlot
from testbed.fabric.matchings import what_is_wrong
from testbed.jobs.contracts import CircuitRequestingJob, PredictableJob
from testbed.jobs.time_slot_descriptors import AllToAllOptions
from testbed.jobs.time_slots import GUARD, AllToAll
from testbed.onhost.jobs import all_to_all
from testbed.run.planning.controllers import specs_of
from testbed.schema import load_experiment

OPTIONS = AllToAllOptions(ranks=4, sizes=(4096, 65536), hold=0.4)
EXPERIMENT = Path(__file__).parents[3] / "experiments" / "rotor.yaml"
LINKS = Links(1e-4, 8e-8, 0.1)


def test_every_pair_of_ranks_has_one_slot_on_their_first_ports():
    for ranks in (4, 6, 8):
        _, *slots = AllToAll(replace(OPTIONS, ranks=ranks)).circuits
        ends = [end for slot in slots for joint in slot for end in joint]
        assert {port for _, port in ends} == {0}
        pairs = [[(a, b) for (a, _), (b, _) in sorted(slot)] for slot in slots]
        assert what_is_wrong(pairs, ranks) is None


def test_of_three_ranks_one_pauses_in_each_slot():
    _, *slots = AllToAll(replace(OPTIONS, ranks=3)).circuits
    assert [len(slot) for slot in slots] == [1, 1, 1]
    assert len(frozenset.union(*slots)) == 3


def test_ranks_are_told_the_circuits_that_the_controller_rotates_through():
    job = AllToAll(OPTIONS)
    (spec,) = specs_of(load_experiment(EXPERIMENT), {"main": job})
    assert (spec.name, spec.kind, spec.job, spec.is_written) == ("rotate", "rotate", "main", False)
    assert spec.options.slots[0] == RotateSlot(links=((0, 3), (1, 2)), hold=0.4)
    told = json.loads(json.dumps(job.for_rank()))["options"]
    assert all_to_all.Job(told, 7, 4).state.step == 0
    links = [sorted([(a, 0), (b, 0)] for a, b in one.links) for one in spec.options.slots]
    assert told["circuits"]["circuits"][1:] == json.loads(json.dumps(links))


def test_a_slot_carries_what_the_rate_makes_of_its_light():
    job = AllToAll(OPTIONS)
    assert isinstance(job, PredictableJob)
    assert isinstance(job, CircuitRequestingJob)
    expected = job.predict(LINKS, {})
    assert expected == {
        "cycle_time": pytest.approx(1.2),
        "slot_bytes": pytest.approx((0.4 - 0.1 - GUARD) / 8e-8),
    }
    of_slots = {"slot_dark", "time_4kib", "time_64kib"}
    assert (
        set(OPTIONS.predicts())
        == expected.keys() | of_slots
        == expected.keys() | job.predict_slots(LINKS, 0.0).keys()
    )
    assert job.predict(replace(LINKS, reconfiguration=0.5), {})["slot_bytes"] == 0.0
    assert job.predict(replace(LINKS, reconfiguration=0.0), {}) == {}  # it was not seen yet


def test_an_exchange_ends_when_its_last_slot_has_been_dark_and_carried_one_block():
    """The rest of the slot in which it began, but for the guard, it has used before."""
    job, size = AllToAll(replace(OPTIONS, sizes=(1 << 20, 64 << 20))), 1 << 20
    found = job.predict_slots(LINKS, 0.035)
    last = 0.035 + size * 8e-8 + GUARD
    assert found == {"slot_dark": 0.035, "time_1mib": pytest.approx(2 * 0.4 + last)}
    assert "time_64mib" not in found, "it takes several cycles"


def exchanges(hold, dark, block, count):
    """Return how long exchanges of three slots take, one right after the other, by the rules."""
    slot, place, seconds = 0, 0.0, []  # the slot under way, and how far in it
    for _ in range(count):
        begun, left = slot * hold + place, dict.fromkeys(range(3), block)
        while any(left.values()):
            light = min(hold - GUARD - max(place, dark), left[slot % 3])
            if light > 0:
                left[slot % 3] -= light
                place = max(place, dark) + light
            if any(left.values()):
                slot, place = slot + 1, 0.0
        seconds.append(slot * hold + place - begun)
    return seconds


@pytest.mark.parametrize(("hold", "dark", "block"), [(0.8, 0.035, 0.527), (0.5, 0.1, 0.3)])
def test_exchanges_one_after_the_other_take_as_long_as_is_predicted(hold, dark, block):
    """Those that follow another and end in their last slot; block is in seconds of light."""
    options = replace(OPTIONS, sizes=(4096,), hold=hold)
    links = Links(1e-4, block / 4096)
    expected = AllToAll(options).predict_slots(links, dark)["time_4kib"]
    first, *others = exchanges(hold, dark, block, 4)
    assert first == pytest.approx(expected - GUARD)
    assert others[:2] == pytest.approx([expected] * 2)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"ranks": 2}, "ranks must be at least 3, not 2"),
        ({"hold": 0.01}, "hold must be at least 20 ms, not 10 ms"),
        ({"sizes": (10,)}, "10 bytes are not a whole number of float32 values"),
        ({"iterations": 0}, "iterations must be at least 1, not 0"),
        ({"warmup": -1}, "warmup must be at least 0, not -1"),
    ],
)
def test_impossible_options_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        replace(OPTIONS, **options)
