"""The job `clients-model`: its metrics against those of the simulation, and its options."""

from dataclasses import replace

import pytest

from testbed.jobs.clients_descriptors import LOADS, ClientsModelOptions
from testbed.jobs.clients_model import ClientsModel
from testbed.jobs.contracts import PREDICTED
from testbed.plugins import kinds
from testbed.tenancy.scale import SCALE
from testbed.tenancy.studies import COMPLETION, MANY_JOBS, ONE_JOB, UTILISATION


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
@pytest.mark.parametrize("study", ["completion", "many-jobs"])
def test_completion_times_are_compared_as_the_baseline_over_the_policy(study):
    own = ClientsModelOptions(study, "alone", "srsf", "random", clients=1_500)
    found = ClientsModel(own).values(1)
    other = ClientsModel(ClientsModelOptions(study, "alone", "random", clients=1_500)).values(1)
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
    studies = {
        "utilisation": UTILISATION,
        "completion": COMPLETION,
        "many-jobs": MANY_JOBS,
        "one-job": ONE_JOB,
        "scale": SCALE,
    }
    assert {name: (*study.loads,) for name, study in studies.items()} == LOADS


def test_every_scheduling_policy_is_known():
    for name in kinds("scheduling_policies"):
        assert options(name).policy == name


def scale(clients=600, **more):
    return ClientsModelOptions("scale", "light", "fifo", clients=clients, **more)


def test_a_formula_stands_beside_a_simulation_of_the_study_of_scale_or_alone():
    beside, alone = ClientsModel(scale()).values(1), ClientsModel(scale(by="formula")).values(1)
    expected = beside[PREDICTED]
    assert {*beside} == {*scale().measures(), PREDICTED}
    assert {*expected} == {*scale().predicts()}
    assert {*alone} == {*scale(by="formula").measures()}
    assert not {*scale(by="formula").predicts()} | {*options().predicts()}
    assert alone == {"inputs": beside["inputs"], **expected}
    assert alone["clients_bound"] == beside["clients_bound"]
    assert alone["completion_time"] != beside["completion_time"]


def test_the_parts_of_a_study_of_scale_give_the_values_of_the_whole(monkeypatch):
    monkeypatch.setattr("testbed.tenancy.scale.PART", 1)
    for by in ("formula", "simulation"):
        model = ClientsModel(scale(2_200, by=by))
        assert model.parts() == 3
        parts = [model.part(1, number) for number in (2, 1, 0)][::-1]
        assert all(bool(part.clients) == (by == "simulation") for part in parts)
        found = model.values_of_parts(1, parts)
        assert found == model.values(1)
        other = [replace(parts[0], digest="another"), *parts[1:]]
        assert model.values_of_parts(1, other)["inputs"] != found["inputs"]
    assert ClientsModel(options()).parts() == 0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("completion", "some", "fifo", "", None, "formula"), "the formula is for the study scale"),
        (("scale", "light", "fifo", "irs"), "takes no `against`"),
        (("scale", "light", "fifo", "", 1_000_001, "formula"), "at most 1000000 by formula"),
        (
            ("utilisation", "alone", "fifo"),
            "has the loads half, published, double, and not 'alone'",
        ),
        (("utilisation", "half", "fofi"), "'fofi' is no scheduling policy; there are fifo"),
        (("utilisation", "half", "fifo", "best"), "'best' is no scheduling policy"),
        (("utilisation", "half", "fifo", "", 0), "clients must be at least 1, not 0"),
        (
            ("utilisation", "half", "fifo", "", 100_001),
            "clients must be at most 100000 by simulation",
        ),
    ],
)
def test_impossible_options_are_refused(given, text):
    with pytest.raises(ValueError, match=text):
        ClientsModelOptions(*given)
