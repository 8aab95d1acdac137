"""The job `fleet-model`: its metrics against those of the study, and its options."""

from statistics import mean

import pytest

from testbed.jobs.fleet_descriptors import FleetModelOptions
from testbed.jobs.fleet_model import FleetModel
from testbed.rack.fleet_study import case


@pytest.mark.parametrize(
    ("racks", "text"),
    [(0, "racks must be at least 1, not 0"), (1025, "racks must be at most 1024, not 1025")],
)
def test_impossible_options_are_refused(racks, text):
    with pytest.raises(ValueError, match=text):
        FleetModelOptions(racks=racks)


def test_the_metrics_are_those_of_the_study_of_the_same_seed():
    options = FleetModelOptions("equal-chips", racks=8, load="balanced")
    found, study = FleetModel(options).values(3), case("equal-chips", 3, 8)
    assert {*found} == {*options.measures()}
    assert found["static_ports"] == mean(study.bandwidth.static_ports)
    assert found["best_rack_gain"] == max(study.bandwidth.gain["balanced"])
    assert found["worst_fragmentation"] == max(study.fragmentation)
    asked = study.mixed_16_32
    assert found["placed_16_32_sipac"] == asked.placed["sipac-like"].slices / asked.requested
    assert found["admission_gain_16_32"] == (
        asked.placed["morphlux"].throughput["balanced"]
        / asked.placed["static"].throughput["balanced"]
    )
    costs = study.failures.costs["ideal-switch"]
    assert found["over_provisioning_ideal"] == mean(cost.over for cost in costs) == 0


def test_another_seed_is_another_cluster():
    one, two = (FleetModel(FleetModelOptions(racks=4)).values(seed) for seed in (0, 1))
    assert one != two
