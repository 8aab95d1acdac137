"""What the model expects with switches and links as they are reported."""

from __future__ import annotations

from functools import partial

import pytest

from testbed.bench.characterisation import presets
from testbed.run.planning.prediction import LinkRate, Physics, predict
from testbed.run.planning.profiles import expectations
from testbed.run.reported_profiles import reported_profiles

HERE = Physics(loss_of_signal=0.002, settle=0.025, link_up=0.01)
EXPECT = partial(
    predict,
    heartbeat=0.2,
    state_bytes=16_000_000,
    link=LinkRate(480e6, 0.0),
    step=0.25,
    start=0.0,
)


REPORTED = {
    "pic": (1.1, 0.0),
    "polatis-6000": (0.2, 3.0),
    "polatis-6000-slow-link": (0.2, 6.0),
    "mems-sota": (0.025, None),
    "calient-s320": (0.2, None),
}
"""The settle and link-up times that publications and manuals have, in seconds."""


def test_profiles_are_the_preset_cards_of_switches_with_a_settle_time():
    found = {one.name: (one.settle, one.link_up) for one in reported_profiles()}
    assert found.items() >= REPORTED.items()
    assert found.keys() == presets().keys() - {"opus-emulated"}
    assert all(one.source for one in reported_profiles())


def test_the_card_of_the_emulated_switch_leaves_the_settle_time_to_the_twin():
    card = presets()["opus-emulated"]
    assert card.settle() is None
    assert card.link_up().median == 0.0
    assert card.source


def test_the_link_up_delay_of_a_profile_is_reported_or_that_of_the_run():
    rows = list(expectations(reported_profiles(), HERE, partial(EXPECT, "power-cut")))
    found = {(row["name"], row["link_up"]): row["link_up_reported"] for row in rows}
    assert found[("polatis-6000", 3.0)] and found[("polatis-6000-slow-link", 6.0)]
    assert found[("pic", 0.0)]
    assert found[("piezo", 0.01)] is False


@pytest.mark.parametrize("fault", ["power-cut", "rank-freeze", "dark-circuit"])
def test_only_the_delays_of_switch_and_link_differ_between_predictions(fault):
    here = EXPECT(fault, HERE)["total"]
    for row in expectations(reported_profiles(), HERE, partial(EXPECT, fault)):
        beyond = row["settle"] + row["link_up"] - HERE.settle - HERE.link_up
        assert row["total"] == pytest.approx(here + beyond)


def test_the_predicted_start_of_a_cold_spare_overlaps_with_a_slow_link_up():
    cold = partial(EXPECT, "power-cut", start=2.0)
    rows = {
        (row["name"], row["link_up"]): row["total"]
        for row in expectations(reported_profiles(), HERE, cold)
    }
    warm = EXPECT("power-cut", Physics(0.002, 0.2, 3.0))["total"]
    assert rows[("polatis-6000", 3.0)] == pytest.approx(warm)
    assert rows[("piezo", 0.01)] > EXPECT("power-cut", Physics(0.002, 0.012, 0.01))["total"] + 1.9
