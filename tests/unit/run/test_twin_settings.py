"""The settings of a twin that a run follows, and the limits of drivers that follow from them."""

from pathlib import Path

import pytest

from testbed.cli.planning import planned_settings
from testbed.run.twin_settings import lab_for_twin
from testbed.schema import load_experiment, load_lab
from testbed.twin.characterisation import settings_of

ROOT = Path(__file__).parents[3]


class Settings:
    """The part of a twin's control that needs no running twin."""

    settings_of = staticmethod(settings_of)


@pytest.mark.parametrize(("lab", "driver_limit"), [("rack", 0.05), ("serial-rack", 0.05)])
def test_drivers_wait_as_long_as_switches_settle_in_the_slowest_arm(lab, driver_limit):
    found = load_lab(ROOT / "configs" / f"{lab}.yaml")
    assert found.switches["ocs"].options.settle_max == driver_limit
    arms = load_experiment(ROOT / "experiments" / "settle.yaml").arms()
    assert max(arm.of(found).twin.settle for arm in arms) == 1.0
    assert lab_for_twin(found, Settings(), arms).switches["ocs"].options.settle_max == 1.0
    fast = [arm for arm in arms if arm.name in ("settle-0", "settle-25")]
    assert lab_for_twin(found, Settings(), fast).switches == found.switches


def test_the_slowest_link_of_the_cards_counts_for_the_numbers_of_a_twin():
    changes = ["lab.twin.cards={rail0: opus-emulated, rail1: polatis-6000}"]
    lab = load_lab(ROOT / "configs" / "rails.yaml", changes)
    found = settings_of(lab)
    assert found["settle"] == {"rail0": lab.twin.settle, "rail1": 0.2}
    assert found["link_up"] == {"rail0": 0.0, "rail1": 3.0}
    experiment = load_experiment(ROOT / "experiments" / "opus-one-change.yaml")
    (planned, *_) = planned_settings(experiment, lab).values()
    assert (planned["settle"], planned["link_up"]) == (0.2, 3.0)
