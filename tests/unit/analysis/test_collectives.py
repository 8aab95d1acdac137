"""Collectives written by hand, whose times are known by arithmetic."""

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.metric_definitions import meaning
from testbed.analysis.trial import analyse_trial
from testbed.analysis.trial_events import TrialEvents
from tests.unit.analysis.logs_by_hand import Log


class Collectives(Log):
    """A trial of a job `collective` on four hosts."""

    def run(self, step, at, algorithm, total, late=0.0, size=1 << 20, counted=False):
        """Write one collective: all but the last rank arrive at `at`, the last one `late` later."""
        for rank in range(4):
            host = f"h{rank}"
            ahead = self.ahead[host]
            begin = at + (late if rank == 3 else 0.0)
            end = at + total - 0.001 * rank
            stamps = {"begin": begin + ahead, "end": end + ahead}
            data = {"rank": rank, "generation": 1, "step": step, "iteration": step // 2}
            about = {"size": size, "algorithm": algorithm}
            about |= {"counted": [1_000_000 + rank, 500]} if counted else {}
            self.on(host, end, "sample", f"rank {rank}", **data, **about, **stamps)

    def analysed(self):
        return analyse_trial(0, TrialEvents(self.events), Clocks(self.events, slew=0.0))


@pytest.fixture
def log():
    log = Collectives(ahead=100.0)
    log.measure(-1.0)
    log.begin()
    return log


def test_total_and_exposed_time_are_distinguished(log):
    log.run(0, 0.0, "ring", 1.0, late=0.4)
    log.run(1, 2.0, "stragglar", 0.8, late=0.4)
    log.end(5.0)
    values = log.analysed().values
    assert values["total_ring_1mib"] == pytest.approx(1.0)
    assert values["exposed_ring_1mib"] == pytest.approx(0.6)
    assert values["total_stragglar_1mib"] == pytest.approx(0.8)
    assert values["speedup"] == pytest.approx(1.25)
    assert values["exposed_speedup"] == pytest.approx(0.6 / 0.4)
    assert values["skew"] == pytest.approx(0.4)
    assert values["straggler"] == 3
    assert "time_1mib" not in values


def test_metrics_are_medians_over_runs_and_compare_algorithms_at_the_largest_size(log):
    for number, total in enumerate((1.0, 9.0, 2.0)):
        log.run(3 * number, 20.0 * number, "ring", total)
        log.run(3 * number + 1, 20.0 * number + 10, "stragglar", 4.0)
        log.run(3 * number + 2, 20.0 * number + 15, "rhd", 3.0)
    log.run(90, 90.0, "ring", 50.0, size=4096)
    log.end(200.0)
    values = log.analysed().values
    assert values["total_ring_1mib"] == pytest.approx(2.0)
    assert values["total_ring_4kib"] == pytest.approx(50.0)
    assert values["speedup"] == pytest.approx(0.5)
    assert values["speedup_over_rhd"] == pytest.approx(0.75)


def test_a_library_is_compared_at_every_size_and_left_out_of_the_speedup(log):
    for number, (size, ours, theirs) in enumerate(((4096, 0.25, 1.0), (1 << 20, 3.0, 2.0))):
        log.run(2 * number, 20.0 * number, "ring", ours, size=size)
        log.run(2 * number + 1, 20.0 * number + 10, "gloo", theirs, size=size)
    log.run(90, 60.0, "stragglar", 1.0)
    log.end(100.0)
    values = log.analysed().values
    assert values["over_gloo_ring_4kib"] == pytest.approx(0.25)
    assert values["over_gloo_ring_1mib"] == pytest.approx(1.5)
    assert values["over_gloo_stragglar_1mib"] == pytest.approx(0.5)
    assert values["busbw_gloo_1mib"] == pytest.approx(8 * 2**20 * 1.5 / 2.0)
    assert "speedup_over_gloo" not in values
    assert all(meaning(name) for name in values)


def test_bytes_of_the_busiest_port_exclude_headers_and_need_the_counters_of_all_ports(log):
    log.run(0, 0.0, "ring", 1.0, counted=True)
    log.run(1, 2.0, "rhd", 1.0)
    log.end(5.0)
    values = log.analysed().values
    assert values["sent_ring_1mib"] == 1_000_003 - 500 * (14 + 20 + 32)
    assert "sent_rhd_1mib" not in values


def test_the_critical_delay_is_known_only_from_trials_without_a_delay(log):
    log.run(0, 0.0, "ring", 1.0)
    log.run(1, 2.0, "stragglar", 1.2)
    log.end(5.0)
    assert log.analysed().values["critical_delay_model"] == pytest.approx(0.2)
    log.write(-0.5, "fault.inject", "h3", sent=-0.5, done=-0.4, fault="straggler", breaks=False)
    assert "critical_delay_model" not in log.analysed().values


def test_trials_with_a_straggler_count_collectives_from_its_effect_on_and_need_no_recovery(log):
    log.run(0, 0.0, "ring", 7.0)
    log.write(8.0, "fault.inject", "h3", sent=7.9, done=8.0, fault="straggler", breaks=False)
    log.on("h0", 9.0, "fault.receipt", "h0 waited 0.400 s")
    log.run(1, 8.5, "ring", 1.0, late=0.4)
    log.end(12.0)
    trial = log.analysed()
    assert trial.valid
    assert trial.recovered is None
    assert trial.marks is None
    assert trial.receipt == {"observer": "h0 waited 0.400 s", "at": pytest.approx(1.1)}
    assert trial.values["total_ring_1mib"] == pytest.approx(1.0)


def test_a_collective_that_not_every_rank_reported_is_left_out(log):
    log.run(0, 0.0, "ring", 1.0)
    log.run(1, 2.0, "stragglar", 1.0)
    log.events = [e for e in log.events if (e.subject, e.data.get("step")) != ("rank 2", 1)]
    log.end(5.0)
    values = log.analysed().values
    assert "total_ring_1mib" in values
    assert "total_stragglar_1mib" not in values
    assert "speedup" not in values


def test_predictions_are_paired_with_their_metrics(log):
    log.write(0.0, "prediction", "n8", values={"speedup": 1.3}, alpha=1e-3, beta=8e-8)
    log.run(0, 1.0, "ring", 1.0)
    log.end(5.0)
    assert log.analysed().predicted == {"speedup": 1.3}


@pytest.mark.parametrize(
    "metric", ["total_ring_7mib", "exposed_stragglar_64kib", "speedup", "skew"]
)
def test_every_metric_of_a_collective_has_a_definition(metric):
    assert meaning(metric).what


@pytest.mark.parametrize(
    "metric", ["total_7mib", "total_tree_7mib", "total_ring", "time_ring_1mib"]
)
def test_an_unknown_collective_metric_has_no_definition(metric):
    with pytest.raises(KeyError):
        meaning(metric)


def test_the_model_is_compared_with_all_totals_and_its_choice_with_both_alternatives(log):
    """At 1 MiB forwarding was expected to be faster, and was; at 2 MiB it was so against that."""
    mib = 1 << 20
    times = {("repointed", mib): 0.5, ("forwarded", mib): 0.4}
    times |= {("repointed", 2 * mib): 0.8, ("forwarded", 2 * mib): 0.75}
    for step, ((way, size), total) in enumerate(times.items()):
        log.run(step, 2.0 * step, f"rhd_{way}", total, size=size)
    expected = {"repointed_1mib": 0.5, "forwarded_1mib": 0.4}
    expected |= {"repointed_2mib": 0.7, "forwarded_2mib": 0.75}
    values = {f"total_rhd_{name}": seconds for name, seconds in expected.items()}
    log.write(-0.5, "prediction", values=values)
    found = log.analysed().values
    assert found["right_choices"] == 50
    assert found["model_error"] == pytest.approx(100 * 0.1 / 0.7, rel=1e-3)


def test_without_a_prediction_no_error_of_the_model_is_reported(log):
    log.run(0, 0.0, "rhd_repointed", 1.0)
    log.run(1, 2.0, "rhd_forwarded", 1.0)
    assert not {"right_choices", "model_error"} & log.analysed().values.keys()
