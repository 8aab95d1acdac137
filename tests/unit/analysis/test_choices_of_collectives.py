"""Training with a straggler, on logs written by hand."""

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.trial import analyse_trial
from testbed.analysis.trial_events import TrialEvents
from tests.unit.analysis.logs_by_hand import RANKS, Log


@pytest.fixture
def log():
    log = Log(ahead=100.0)
    log.measure(-1.0)
    log.begin()
    for number in range(4):
        steps(log, [number], every=1.0, collective=0.5)
    host = {"host": "h3", "mono": [4.1 + log.ahead["h3"]] * 2}
    log.write(4.1, "fault.inject", "h3", fault="straggler", breaks=False, rank=3, **host)
    log.receipt(4.2)
    return log


def steps(log, numbers, *, every, collective, late=0.0, choice=0, before=0.0):
    """Write steps; all but the last rank enter a collective `collective` seconds before its end."""
    for count, number in enumerate(numbers):
        end = before + every * (count + 1) if before else every * (number + 1)
        for rank in range(RANKS):
            host = f"h{rank}"
            ahead = log.ahead[host]
            entry = end - collective + (late if rank == 3 else 0.0)
            data = {
                "rank": rank,
                "generation": 1,
                "step": number,
                "begin": end - every + 0.15 + ahead,
                "end": end + ahead,
                "collective": [entry + ahead, end + ahead],
                "choice": choice,
                "verified": True,
                "loss": 1.0,
                "digest": f"{number}",
                "bytes": 1000,
            }
            log.on(host, end, "step", f"rank {rank}", **data)


def analysed(log):
    return analyse_trial(0, TrialEvents(log.events), Clocks(log.events))


def test_steps_before_and_after_the_straggler_are_distinguished(log):
    steps(log, range(4, 9), every=1.4, collective=0.9, late=0.4, before=4.0)
    log.end(12.0)
    values = analysed(log).values
    assert values["step_time"] == pytest.approx(1.0)
    assert values["straggling_step_time"] == pytest.approx(1.4)
    assert "step_gain" not in values and "recovery_time" not in values


def test_the_gain_of_a_choice_is_the_product_of_its_parts(log):
    steps(log, range(4, 9), every=2.0, collective=1.6, late=0.4, before=4.0)
    steps(log, range(9, 14), every=1.6, collective=1.2, late=0.4, choice=1, before=14.0)
    log.end(22.0)
    values = analysed(log).values
    assert values["straggling_step_time"] == pytest.approx(1.6)
    assert values["communication_share"] == pytest.approx(80)
    assert values["collective_gain"] == pytest.approx(25)
    assert values["step_gain"] == pytest.approx(20)
    assert values["gain_agreement"] == pytest.approx(1.0)


def test_of_several_predictions_the_last_one_of_each_value_is_used(log):
    log.write(4.0, "prediction", values={"straggling_step_time": 1.4, "step_gain": 0.1})
    log.write(5.0, "prediction", values={"straggling_step_time": 1.3})
    log.end(6.0)
    assert analysed(log).predicted == {"straggling_step_time": 1.3, "step_gain": 10}
