"""A plan on the terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from testbed.analysis.settings import Profile
from testbed.cli.planning import planned_profiles
from testbed.report.plan_page import print_plan, print_planned
from testbed.run.planning.planner import make_plan
from testbed.schema import load_experiment, load_lab
from tests.unit.report.runs_by_hand import plan

ROOT = Path(__file__).parents[3]


def page(shown, width=100):
    out = io.StringIO()
    print_plan(shown, out, width)
    return out.getvalue().splitlines()


def test_steps_are_numbered_in_the_order_of_the_run():
    titles = [line for line in page(plan()) if line[:2].strip().isdecimal()]
    assert titles == [
        " 1  Lock, open and identify the instruments",
        " 2  Start agents on 5 hosts and set their fabric ports' addresses",
        " 3  Make 4 circuits of 2 cross-connects",
        " 4  Start job main: train on 4 ranks, and probe its links",
        " 5  Run 2 trials",
        " 6  Take everything back, whatever happened",
    ]


def test_circuits_are_listed_with_the_cross_connects_they_add():
    lines = page(plan())
    assert "    circuits: h0.p1–h1.p0, h1.p1–h2.p0, h2.p1–h3.p0, h0.p0–h3.p1" in lines
    assert "    + ocs.2→19  h0.p1 to h1.p0" in lines
    assert "    + ocs.3→18  h1.p0 to h0.p1" in lines


def test_ranks_and_spares_are_listed_by_host():
    lines = page(plan())
    assert "    ranks: 0 on h0, 1 on h1, 2 on h2, 3 on h3" in lines
    assert "    spares: h4" in lines


def test_the_plan_page_shows_fault_victim_and_time_of_every_trial():
    rows = [line.split() for line in page(plan(trials=3)) if "power-cut" in line]
    assert rows == [
        [str(n), arm, "power-cut", "1", "8", "+", "0.25", "until", "recovered"]
        for n, arm in enumerate(("warm", "cold", "warm"))
    ]


def test_the_plan_page_shows_what_is_expected_to_replace_what_fails_beside_the_faults():
    text = ""
    for name in ("two-faults", "shrink", "faults", "restart"):
        lab = load_lab(ROOT / "configs" / "rack.yaml")
        experiment = load_experiment(ROOT / "experiments" / f"{name}.yaml")
        text += "\n".join(page(make_plan(experiment, lab, seed=7), 80))
    for row in (
        "0  only     power-cut  2     8 + 0.95     until recovered  h4 for h1",
        "           power-cut  1     50 ms later  until recovered  h5 for h2",
        "0  only     power-cut  2     8 + 0.95  until recovered  without h2",
        "0  dark-circuit  dark-circuit  0     8 + 0.07  until recovered  lit again",
    ):
        assert row in text
    assert re.search(r"rank-lost .*  h0 again", text)


def test_the_last_line_states_seed_and_digest_and_that_nothing_was_changed():
    shown = plan()
    last = f"Seed 7, plan {shown.digest()}. Nothing was opened or touched."
    assert page(shown)[-1] == last


def test_the_plan_page_states_whether_circuits_are_kept_at_the_end():
    assert any("circuits go back to what was found" in line for line in page(plan()))
    kept = page(plan(keep=True))
    assert any("circuits stay as the last trial leaves them" in line for line in kept)


def test_a_plan_is_wrapped_to_the_width_of_a_narrow_terminal():
    assert max(map(len, page(plan(), width=40))) <= 40


def test_a_plan_for_a_twin_states_settings_and_predictions_for_other_switches():
    out = io.StringIO()
    settings = {"warm": {"settle": 0.025, "heartbeat": 0.2}, "slow": {"settle": 0.2}}
    print_planned(settings, [Profile("box", 0.2, 3.0, True, "a book", {"": 3.202})], out, 100)
    lines = out.getvalue().splitlines()
    assert lines[1] == "What a twin's numbers would rest on"
    assert lines[2:4] == ["    warm: settle 25 ms, heartbeat 200 ms", "    slow: settle 200 ms"]
    assert re.split(r"\s{2,}", lines[-1].strip()) == ["box", "200 ms", "3 s", "3.202 s", "a book"]


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ([], True),
        (["jobs.main.spares=0", "needs.hosts=4"], False),
        (["faults=[]"], False),
        (["jobs.main.spares=0", "needs.hosts=4", "faults.0.kind=dark-circuit"], True),
        (["jobs.main.spares=0", "needs.hosts=4", "faults.0.kind=rank-freeze",
          "faults.0.hold=100 ms"], True),
    ],
)  # fmt: skip
def test_a_plan_without_a_possible_recovery_predicts_none(changed, shown):
    lab = load_lab(ROOT / "configs" / "rack.yaml")
    experiment = load_experiment(ROOT / "experiments" / "lumion.yaml", changed)
    profiles = planned_profiles(experiment, lab)
    assert bool(profiles) is shown
    out = io.StringIO()
    print_planned({"warm": {"settle": 0.025}}, profiles, out, 100)
    assert ("of a recovery" in out.getvalue()) is shown
