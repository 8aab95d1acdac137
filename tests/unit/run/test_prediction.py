"""The model of a recovery, term by term."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.plugins import FaultProperties, RecoveryProperties
from testbed.run.planning.prediction import LinkRate, Physics, on_rails, predict
from tests.unit.schema.conftest import installed

PHYSICS = Physics(loss_of_signal=0.002, settle=0.025, link_up=0.010)
LINK = LinkRate(bits_per_second=400e6, credit=100_000)
SAME = {"heartbeat": 0.2, "state_bytes": 2_100_000, "link": LINK, "step": 0.05}
"""2 000 000 bytes beyond the credit are 40 ms at 50 MB/s."""


def test_a_message_within_the_burst_takes_no_time_and_the_rest_goes_at_line_rate():
    assert LINK.seconds(100_000) == 0.0
    assert LINK.seconds(10) == 0.0
    assert LINK.seconds(2_100_000) == pytest.approx(0.040)
    assert LinkRate(8.0, 0.0).seconds(5) == 5.0


def test_the_prediction_for_a_dead_host_with_a_warm_spare_has_all_its_terms():
    terms = predict("power-cut", PHYSICS, start=0.0, **SAME)
    assert terms == pytest.approx(
        {
            "noticing": 0.002,
            "settle": 0.025,
            "link_up": 0.010,
            "waiting_for_spare": 0.0,
            "state": 0.040,
            "step": 0.05,
            "reconfiguration": 0.035,
            "total": 0.127,
        }
    )


def test_the_predicted_start_of_a_cold_spare_overlaps_with_the_fabric_change():
    slow = predict("power-cut", PHYSICS, start=0.535, **SAME)
    assert slow["waiting_for_spare"] == pytest.approx(0.5)
    assert slow["total"] == pytest.approx(0.627)
    assert predict("power-cut", PHYSICS, start=0.03, **SAME)["waiting_for_spare"] == 0.0


@pytest.mark.parametrize(
    ("fault", "noticing"),
    [("power-cut", 0.002), ("dark-circuit", 0.002), ("rank-kill", 0.0), ("rank-freeze", 0.2)],
)
def test_the_predicted_detection_time_depends_on_the_fault(fault, noticing):
    assert predict(fault, PHYSICS, start=0.0, **SAME)["noticing"] == noticing


def test_on_rails_each_group_is_joined_in_turn_and_the_state_takes_circuits_of_its_own():
    still = Physics(PHYSICS.loss_of_signal, 0.0, 0.0)
    terms = on_rails(predict("power-cut", still, start=0.3, **SAME), PHYSICS, groups=2)
    assert terms["reconfiguration"] == pytest.approx(2 * 0.035)
    assert terms["state"] == pytest.approx(0.035 + 0.040)
    assert terms["waiting_for_spare"] == 0.3, "nothing moves meanwhile"
    assert terms["total"] == pytest.approx(0.002 + 0.3 + 3 * 0.035 + 0.040 + 0.05)
    named = ("noticing", "settle", "link_up", "waiting_for_spare", "state", "step")
    assert terms["total"] == pytest.approx(sum(terms[name] for name in named))


def test_on_rails_nothing_is_added_where_nothing_is_repaired():
    held = predict("rank-freeze", PHYSICS, start=0.0, hold=0.1, **SAME)
    assert on_rails(held, PHYSICS, groups=2) == held


def test_the_prediction_for_a_dark_circuit_has_no_term_for_a_spare():
    terms = predict("dark-circuit", PHYSICS, start=9.0, **SAME)
    assert terms["waiting_for_spare"] == terms["state"] == 0.0
    assert terms["total"] == pytest.approx(0.002 + 0.035 + 0.05)


def test_no_newcomer_is_waited_for_where_the_policy_takes_no_spare():
    for fault in ("power-cut", "rank-kill"):
        alone = predict(fault, PHYSICS, start=9.0, **SAME, recovery=RecoveryProperties("never"))
        assert alone["waiting_for_spare"] == alone["state"] == 0.0
        assert alone["total"] == pytest.approx(alone["noticing"] + 0.035 + 0.05)


def test_a_spare_may_be_needed_only_where_the_host_itself_is_lost():
    only_hosts = RecoveryProperties("host")
    for fault, state in (("power-cut", 0.040), ("rank-kill", 0.0)):
        terms = predict(fault, PHYSICS, start=0.0, **SAME, recovery=only_hosts)
        assert terms["state"] == pytest.approx(state)


OUTSIDE = """
from testbed.plugins import FaultProperties, Kind
FLAP = Kind("a link flaps", "none:none", fault=FaultProperties(symptom="exit", repair="circuit"))
"""


def test_a_fault_of_another_package_is_predicted_by_its_properties(tmp_path):
    entry = "[testbed.faults]\ntoy-flap = outside_fault:FLAP\n"
    with installed(tmp_path, "outside_fault", OUTSIDE, entry):
        terms = predict("toy-flap", PHYSICS, start=9.0, **SAME)
    assert terms["noticing"] == terms["waiting_for_spare"] == terms["state"] == 0.0
    assert terms["total"] == pytest.approx(0.035 + 0.05)


seconds = st.floats(0, 100)


@pytest.mark.parametrize(
    ("hold", "sent_again"), [(0.0, 0.2), (0.15, 0.2), (0.3, 0.6), (0.59, 0.6), (1.0, 1.4)]
)
def test_a_job_after_lost_light_continues_with_the_tcp_retransmission(hold, sent_again):
    terms = predict("attenuate", PHYSICS, start=0.0, hold=hold, **SAME)
    assert terms["total"] == pytest.approx(sent_again + 0.050)
    assert terms["held"] == hold
    assert sum(value for name, value in terms.items() if name != "total") == terms["total"]


def test_a_freeze_below_the_heartbeat_limit_ends_with_its_undo():
    terms = predict("rank-freeze", PHYSICS, start=0.0, hold=0.1, **SAME)
    assert terms == pytest.approx({"held": 0.1, "step": 0.05, "total": 0.15})
    noticed = predict("rank-freeze", PHYSICS, start=0.0, hold=0.3, **SAME)
    assert noticed["noticing"] == SAME["heartbeat"]


FAULTS = ("power-cut", "rank-kill", "rank-freeze", "dark-circuit")


@given(st.sampled_from(FAULTS), seconds, seconds, seconds, seconds, seconds)
def test_the_predicted_total_is_the_sum_of_terms_none_of_which_is_negative(
    fault, loss, settle, up, step, start
):
    physics = Physics(loss, settle, up)
    terms = predict(
        fault, physics, heartbeat=0.2, state_bytes=10, link=LINK, step=step, start=start
    )
    assert min(terms.values()) >= 0
    parts = {k: v for k, v in terms.items() if k not in {"total", "reconfiguration"}}
    assert terms["total"] == pytest.approx(sum(parts.values()))
    assert terms["reconfiguration"] == settle + up


def test_ranks_restarted_in_place_get_circuits_only_where_a_fault_took_some():
    in_place = RecoveryProperties("host", restarts=True)
    for hits in ("rank", "circuit"):
        assert in_place.moves_circuits(FaultProperties(hits=hits, repair="circuit"))
    assert not in_place.moves_circuits(FaultProperties(symptom="exit"))


def test_a_job_that_moves_whole_reads_its_state_from_disk_while_its_circuits_are_made():
    physics = Physics(0.002, 1.0, 0.0)
    common = {"heartbeat": 0.2, "state_bytes": 16_000_000, "link": LINK, "step": 0.5, "start": 0.4}
    moved = RecoveryProperties(restarts=True, moves_all=True)
    terms = predict("rank-kill", physics, **common, recovery=moved)
    assert (terms["state"], terms["total"]) == (0.0, pytest.approx(1.0 + 0.5))
    assert predict("rank-kill", physics, **common)["state"] == LINK.seconds(16_000_000)
