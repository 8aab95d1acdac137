"""The job `clients-model`: its metrics against those of the simulation, and its options."""

from dataclasses import replace

import pytest

from testbed.jobs.clients_descriptors import LOADS, ClientsModelOptions
from testbed.jobs.clients_model import ClientsModel
from testbed.plugins import kinds
from testbed.tenancy.studies import COMPLETION, UTILISATION


def options(policy="irs", **more):
    return ClientsModelOptions("utilisation", "double", policy, clients=60, **more)


def test_the_metrics_are_those_of_the_simulation_and_gains_are_over_the_other_policy():
    found = ClientsModel(options(against="static-partition")).values(2)
    other = ClientsModel(options("static-partition")).values(2)
    assert {*found} == {*options(against="static-partition").measures()}
    assert found["utilisation_gain"] == found["utilisation"] / other["utilisation"]
    assert found["utilisation"] != other["utilisation"]
    assert "utilisation_gain" not in other


@pytest.mark.soak
def test_completion_times_are_compared_as_the_baseline_over_the_policy():
    own = ClientsModelOptions("completion", "alone", "srsf", "random", clients=1_500)
    found = ClientsModel(own).values(1)
    other = ClientsModel(
        ClientsModelOptions("completion", "alone", "random", clients=1_500)
    ).values(1)
    assert {*found} == {*own.measures()}
    assert found["completion_gain"] == other["completion_time"] / found["completion_time"]
    assert found["jobs_finished"] == 1


def test_all_policies_and_loads_of_a_seed_have_the_same_inputs_and_other_seeds_others():
    inputs = {
        ClientsModel(ClientsModelOptions("utilisation", load, policy, clients=20)).values(1)[
            "inputs"
        ]
        for load in LOADS["utilisation"]
        for policy in ("fifo", "static-partition")
    }
    small = replace(UTILISATION, population=replace(UTILISATION.population, clients=20))
    assert inputs == {small.digest(1)}
    assert small.digest(3) != small.digest(1)


def test_the_loads_are_those_of_the_studies():
    assert {"utilisation": (*UTILISATION.loads,), "completion": (*COMPLETION.loads,)} == LOADS


def test_every_scheduling_policy_is_known():
    for name in kinds("scheduling_policies"):
        assert options(name).policy == name


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            ("utilisation", "alone", "fifo"),
            "has the loads half, published, double, and not 'alone'",
        ),
        (("utilisation", "half", "fofi"), "'fofi' is no scheduling policy; there are fifo"),
        (("utilisation", "half", "fifo", "best"), "'best' is no scheduling policy"),
        (("utilisation", "half", "fifo", "", 0), "clients must be at least 1, not 0"),
        (("utilisation", "half", "fifo", "", 100_001), "clients must be at most 100000"),
    ],
)
def test_impossible_options_are_refused(given, text):
    with pytest.raises(ValueError, match=text):
        ClientsModelOptions(*given)
