"""Faults that no policy repairs: what the job did, and what may be said of its recovery."""

import random
from itertools import accumulate, pairwise

import pytest

from tests.unit.analysis.logs_by_hand import Log, recovery

ZERO = 3.45
"""When every fault here is injected: half-way into the step that ends at 3.5 s."""


def about(expected):
    return pytest.approx(expected, abs=2e-6)


def baseline(steps=25, first=0.1, **clocks):
    """Return a log of steps of 0.1 s, the last of which ends at 3.4 s; the first takes `first`."""
    log = Log(**clocks)
    log.begin()
    log.measure(0.5)
    # The second is a nanosecond longer than the others: what equals what is not left to rounding.
    log.step(3.4 - (steps - 1) / 10 - 1e-9, 0, length=first)
    log.steps(3.4 - (steps - 2) / 10, range(1, steps))
    return log


def attenuated(steps=25, lost=3.9, **clocks):
    """Return a log of light that is lost for 3 s, 0.45 s after the attenuator was commanded.

    It is commanded at 3.45 s, light is lost at 3.9 s or `lost` and back at 6.9 s; the step that
    waits for it ends at 7.1 s, and the next ones take 0.1 s again.
    """
    log = baseline(steps, **clocks)
    log.fault(ZERO, 3.5, fault="attenuate", held=True)
    log.steps(3.5, range(steps, steps + 4))
    log.carrier(lost, up=False)
    log.receipt(lost)
    log.undo(6.5, 6.55)
    log.carrier(6.9, up=True)
    log.step(7.1, steps + 4, length=3.3)
    log.steps(7.2, range(steps + 5, steps + 12))
    log.measure(8.0)
    log.end(8.1)
    return log


def test_steps_that_end_before_the_light_is_lost_do_not_count_as_a_recovery():
    trial = attenuated().trial()
    assert trial.response == "recovered"
    assert trial.recovered is True
    assert trial.values["recovery_time"] == about(7.1 - ZERO)
    assert trial.marks.relative() == about(
        {"t0": 0.0, "t1": 3.9 - ZERO, "t10": 7.1 - ZERO, "t11": 7.2 - ZERO}
    )


def test_an_unrepaired_fault_took_effect_between_injection_and_first_observation():
    zero = attenuated().trial().marks.at["t0"]
    assert (zero.early, zero.late) == (ZERO, about(3.9))


def test_a_step_that_is_late_before_a_carrier_is_lost_says_nothing_of_when_light_went():
    # the step that began at 3.8 s would have ended at 3.9 s
    zero = attenuated(lost=3.98).trial().marks.at["t0"]
    assert (zero.early, zero.late) == (ZERO, about(3.98))


def test_clock_uncertainty_never_shortens_an_unrepaired_recovery():
    loose = attenuated(ahead=1000.0, bound=0.002).trial()
    assert loose.values["recovery_time"] == about(7.1 + 0.002 - ZERO)
    assert loose.marks.at["t0"].early == ZERO


def test_work_lost_is_the_time_of_the_steps_that_were_not_made():
    # until t11 five steps were finished, and the one before them was half done
    assert attenuated().trial().values["dip"] == about(7.2 - ZERO - 6 * 0.1)


def freeze(longest=0.1, steps=25, **clocks):
    """Return a log of a freeze of 0.1 s, in which one step takes `longest`."""
    log = baseline(steps, **clocks)
    log.fault(ZERO, fault="rank-freeze", held=True)
    log.receipt(ZERO + 0.01)
    log.undo(ZERO + 0.1)
    end = 3.4 + longest
    log.step(end, steps, length=longest)
    log.steps(end + 0.1, range(steps + 1, steps + 8))
    log.measure(8.0)
    log.end(8.1)
    return log


def test_a_fault_without_a_step_longer_than_before_was_ridden_out_and_has_no_recovery_time():
    trial = freeze().trial()
    assert trial.response == "ridden out"
    assert trial.recovered is None
    assert not trial.job_failed
    assert trial.marks.relative() == about({"t0": 0.0, "t1": 0.01})
    assert trial.values["dip"] == about(0.0)
    assert not trial.values.keys() & {"recovery_time", "return_to_service", "first_step"}


def test_a_step_that_is_longer_than_any_before_has_a_recovery_time():
    trial = freeze(0.12).trial()
    assert trial.response == "recovered"
    assert trial.values["recovery_time"] == about(3.52 + 0.1 - ZERO)  # held until 3.55 s
    assert freeze(0.19).trial().values["recovery_time"] == about(0.14)


def test_a_first_step_in_which_ranks_wait_for_each_other_to_start_does_not_say_how_long_one_takes():
    assert freeze(0.12, first=0.3).trial().response == "recovered"


@pytest.mark.parametrize(("longest", "response"), [(0.1035, "ridden out"), (0.105, "recovered")])
def test_a_step_longer_only_within_clock_uncertainty_does_not_count_as_long(longest, response):
    assert freeze(longest, bound=0.001).trial().response == response


@pytest.mark.parametrize(("steps", "response"), [(21, "ridden out"), (20, "not known")])
def test_fewer_than_twenty_steps_after_the_first_give_no_usual_step_time(steps, response):
    trial = freeze(steps=steps).trial()
    assert trial.response == response
    assert trial.recovered is None
    assert "recovery_time" not in trial.values


@pytest.mark.parametrize("longest", [0.1, 0.12])
def test_the_probability_of_a_long_step_by_chance_is_reported(longest):
    """Two steps began before the fault was undone, and the one after them counts too."""
    assert freeze(longest).trial().marks.by_chance == pytest.approx(3 / 27)
    assert freeze(longest, steps=21).trial().marks.by_chance == pytest.approx(3 / 23)
    assert freeze(longest, steps=20).trial().marks.by_chance is None
    assert recovery().trial().marks.by_chance is None  # a policy repaired it


def test_long_steps_by_chance_are_as_frequent_as_reported():
    chance, told, long = random.Random(7), [], 0
    for _ in range(300):
        log = Log()
        log.begin()
        log.measure(0.5)
        ends = list(accumulate((chance.lognormvariate(-2.3, 0.2) for _ in range(45)), initial=1.0))
        for number, (begin, end) in enumerate(pairwise(ends)):
            log.step(end, number, length=end - begin, ranks=1)
        zero = ends[30] + chance.random() * 0.1
        log.fault(zero, fault="attenuate", held=True)
        log.undo(zero + 0.3)
        trial = log.trial()
        told.append(trial.marks.by_chance)
        long += trial.response == "recovered"
    expected = sum(told)
    assert long == pytest.approx(expected, abs=4 * expected**0.5)


def test_without_a_usual_step_time_no_recovery_time_is_reported():
    trial = attenuated(steps=5).trial()
    assert trial.response == "not known"
    assert "t10" not in trial.marks.at
    assert trial.marks.relative()["t1"] == about(3.9 - ZERO)


def test_an_attenuation_that_leaves_enough_light_is_ridden_out():
    log = baseline()
    log.fault(ZERO, 3.47, fault="attenuate", held=True)
    log.write(3.48, "fault.receipt", "opm.1 meter")
    log.steps(3.5, range(25, 45))
    log.undo(4.45, 4.47)
    log.end(6.0)
    trial = log.trial()
    assert trial.response == "ridden out"
    assert trial.marks.relative() == about({"t0": 0.0, "t1": 0.03})
    assert trial.values["dip"] == about(0.0)


def test_a_permanent_fault_without_effect_is_ridden_out():
    log = baseline()
    log.fault(ZERO, 3.47, fault="attenuate")
    log.steps(3.5, range(25, 45))
    log.undo(5.0)
    log.end(6.0)
    assert log.trial().response == "ridden out"


def test_a_fault_that_stays_and_stops_the_job_for_good_is_not_recovered():
    log = baseline()
    log.fault(ZERO, 3.5, fault="attenuate")
    log.steps(3.5, range(25, 29))
    log.carrier(3.85, up=False)
    log.receipt(3.85)
    log.end(60.0, recovered=False, reason="not recovered within 60 s")
    trial = log.trial()
    assert trial.response == "not recovered"
    assert "recovery_time" not in trial.values


def test_a_record_that_breaks_off_before_light_is_back_has_no_recovery():
    log = attenuated()
    log.events = [event for event in log.events if event.t < 6.0 or event.kind == "clock.offset"]
    trial = log.trial()
    assert trial.response == "not recovered"
    assert "t10" not in trial.marks.at


def test_a_short_loss_of_light_without_a_report_shows_in_the_stalled_step():
    log = baseline()
    log.fault(ZERO, 3.46, fault="dark-circuit", held=True)
    log.undo(3.47, 3.49)
    log.step(3.7, 25, length=0.3)
    log.steps(3.8, range(26, 33))
    log.end(6.0)
    trial = log.trial()
    assert trial.response == "recovered"
    assert trial.marks.relative()["t1"] == about(3.4 + 0.1 - ZERO)  # it should have ended then
    assert trial.marks.at["t0"].late == about(3.5)
    assert trial.values["recovery_time"] == about(0.25)


def test_a_straggler_that_is_slow_for_a_time_recovers_when_it_is_not():
    log = baseline()
    log.fault(ZERO, fault="straggler", breaks=False, held=True)
    log.receipt(3.55)
    log.steps(3.6, range(25, 30), every=0.2)  # up to 4.4 s
    log.undo(4.35)
    log.steps(4.5, range(30, 38))
    log.end(6.0)
    trial = log.trial()
    assert trial.response == "recovered"
    assert trial.values["recovery_time"] == about(4.4 - ZERO)
    assert trial.values["dip"] == about(4.5 - ZERO - 6 * 0.1)


def test_a_job_that_ends_while_it_is_slowed_down_has_nothing_to_recover_from():
    log = baseline()
    log.fault(ZERO, fault="straggler", breaks=False, held=True)
    log.steps(3.6, range(25, 30), every=0.2)
    log.undo(6.0)
    log.end(6.1)
    assert log.trial().response is None


def test_a_straggler_that_stays_slow_is_nothing_to_recover_from():
    log = baseline()
    log.fault(ZERO, fault="straggler", breaks=False, held=False)
    log.steps(3.6, range(25, 30), every=0.2)
    log.end(6.0)
    trial = log.trial()
    assert (trial.response, trial.recovered, trial.marks) == (None, None, None)


def test_a_step_with_a_wrong_sum_delays_the_recovery_to_the_next_right_step():
    log = baseline()
    log.fault(ZERO, fault="attenuate", held=True)
    log.undo(3.46)
    log.step(3.5, 25, verified=False)
    log.steps(3.6, range(26, 33))
    log.end(6.0)
    trial = log.trial()
    assert trial.response == "recovered"
    assert trial.values["recovery_time"] == about(3.6 - ZERO)
    assert trial.marks.relative()["t1"] == about(3.5 - ZERO)


def test_a_decision_before_the_fault_is_not_a_recovery_of_it():
    log = attenuated()
    log.write(2.0, "recovery.decided", "h1")
    trial = log.trial()
    assert trial.values["recovery_time"] == about(7.1 - ZERO)
    assert "t2" not in trial.marks.at


def timed(*sizes, count=25):
    """Return a log of collectives of alternating sizes, each 0.1 s after the one before."""
    log = Log()
    log.begin()
    log.measure(0.5)
    for number in range(count):
        log.sample(1.0 + number / 10, number, sizes[number % len(sizes)])
    return log


def test_a_stalled_timed_collective_counts_as_a_long_step():
    log = timed(65536)  # up to 3.4 s
    log.fault(ZERO, fault="attenuate", held=True)
    log.carrier(3.46, up=False)
    log.undo(3.8, 3.81)
    log.carrier(3.85, up=True)
    log.sample(4.0, 25)
    for number in range(26, 34):
        log.sample(4.0 + (number - 25) / 10, number)
    log.end(6.0)
    trial = log.trial()
    assert trial.response == "recovered"
    assert trial.values["recovery_time"] == about(4.0 - ZERO)
    assert trial.values["dip"] == about(4.1 - ZERO - 2 * 0.1)
    assert trial.values["steps"] == 34


def test_timed_collectives_recover_in_a_new_generation_too():
    log = timed(65536)
    log.fault(ZERO)
    log.splice(ZERO)
    for number in range(25, 33):
        log.sample(4.0 + (number - 25) / 10, number, generation=2)
    log.end(6.0)
    trial = log.trial()
    assert trial.response == "recovered"
    assert trial.values["recovery_time"] == about(4.0 - ZERO)
    assert trial.marks.relative()["t11"] == about(4.1 - ZERO)


def test_a_collective_counts_as_long_only_compared_with_those_of_its_size():
    """Each is held against its own kind: the large one takes three times as long."""
    log = Log()
    log.begin()
    log.measure(0.5)
    end = 0.0
    for number in range(60):
        end += 0.3 if number % 2 else 0.1
        log.sample(1 + end, number, 65536 * (1 + 9 * (number % 2)))
    log.fault(1 + end - 0.05, fault="attenuate", held=True)
    log.undo(1 + end - 0.04)
    for number in range(60, 64):
        end += 0.3 if number % 2 else 0.1
        log.sample(1 + end, number, 65536 * (1 + 9 * (number % 2)))
    log.end(20.0)
    trial = log.trial()
    assert trial.response == "ridden out"
    assert trial.marks.by_chance == pytest.approx(2 / 30)  # one of each kind after 29


def test_a_message_size_with_too_few_collectives_gives_no_verdict_on_the_fault():
    log = timed(65536)
    log.fault(ZERO, fault="attenuate", held=True)
    log.undo(3.46)
    log.sample(3.9, 25, 1 << 20)
    log.sample(4.0, 26, 1 << 20)
    log.end(6.0)
    assert log.trial().response == "not known"
