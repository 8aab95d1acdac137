"""Two runs held against each other."""

from __future__ import annotations

import json
import re

import pytest

from testbed.analysis.comparison import compare_metric
from testbed.errors import UsageError
from testbed.report.compare import comparison_to_json, print_comparison
from testbed.report.setting_differences import ABSENT, Setup, differing
from tests.unit.report.runs_by_hand import lost, recovery, summary, trial


def written(*trials, **changes):
    """Return a run as it is read from its summary.json."""
    return json.loads(json.dumps(summary(*trials, **changes).to_json()))


def recoveries(longer, count=8, arm="warm"):
    """Return recoveries of half a second and `longer`, 1 ms apart from each other."""
    return [recovery(n, arm, longer + n / 1000) for n in range(count)]


def bandwidths(value, count=8):
    return [trial(n, values={"busbw": value + n}) for n in range(count)]


@pytest.fixture
def page(text):
    """Print a comparison into text."""

    def printed(*runs, setups=(), width=120):
        return text(lambda console: print_comparison(runs, setups, console), width)

    return printed


def row(page, name):
    """Return the cells of a metric's line."""
    line = next(line for line in page.splitlines() if line.startswith(name))
    return re.split(r"\s{2,}", line)[1:]


def test_a_recovery_that_takes_twice_as_long_is_worse(page):
    found = compare_metric(
        "warm.recovery_time", written(*recoveries(0.0)), written(*recoveries(0.5035))
    )
    assert found.medians == pytest.approx((0.5035, 1.007))
    assert found.ratio == pytest.approx(2.0)
    assert found.ci95[0] < 2.0 < found.ci95[1]
    assert found.verdict == "worse"
    cells = row(page(written(*recoveries(0.0)), written(*recoveries(0.5035))), "warm.recovery_time")
    assert cells[:3] == ["503.5 ms", "1.007 s", "2.000"]
    assert cells[4] == "worse"


def test_the_json_of_a_comparison_has_the_same_values_as_the_text():
    fast, slow = written(*recoveries(0.0)), written(*recoveries(0.5035))
    found = json.loads(json.dumps(comparison_to_json([fast, slow], [])))
    assert found["first"]["label"] == found["second"]["label"] == fast["label"]
    assert found["metrics"]["warm.recovery_time"]["verdict"] == "worse"
    with pytest.raises(UsageError, match="format 99"):
        comparison_to_json([fast, slow | {"format": 99}], [])


def test_a_comparison_prints_the_flags_of_metrics(page):
    flagged = written(*bandwidths(4e8)) | {"flags": {"warm.busbw": "above the rate of a port"}}
    found = page(written(*bandwidths(2e8)), flagged)
    assert "warm.busbw of the second: above the rate of a port" in found
    told = comparison_to_json([flagged, flagged], [])
    assert told["first"]["flags"] == flagged["flags"]


def test_the_better_direction_in_a_comparison_is_that_of_the_metric(page):
    slow, fast = written(*bandwidths(2e8)), written(*bandwidths(4e8))
    assert row(page(slow, fast), "warm.busbw")[-1] == "better"
    assert row(page(fast, slow), "warm.busbw")[-1] == "worse"


def test_a_ratio_whose_interval_includes_one_is_unclear():
    found = compare_metric(
        "warm.recovery_time", written(*recoveries(0.0)), written(*recoveries(0.001))
    )
    assert found.ci95[0] < 1 < found.ci95[1]
    assert found.verdict == "unclear"


def test_comparing_the_same_two_runs_always_gives_the_same_result(page):
    a, b = written(*recoveries(0.0)), written(*recoveries(0.01))
    assert page(a, b) == page(a, b)


def test_runs_of_fewer_than_six_trials_get_no_verdict_of_better_or_worse():
    found = compare_metric(
        "warm.recovery_time", written(*recoveries(0.0, 5)), written(*recoveries(1.0))
    )
    assert (found.verdict, found.ci95) == ("too few, n < 6", None)


def test_values_that_are_not_all_positive_have_no_ratio():
    trials = [trial(n, values={"dip": n / 10 - 0.1}) for n in range(8)]
    found = compare_metric("warm.dip", written(*trials), written(*trials))
    assert (found.ratio, found.verdict) == (None, "no ratio")


def test_runs_with_different_labels_are_flagged_and_get_no_verdict(page):
    a, b = written(*recoveries(0.0)), written(*recoveries(0.5), label="measured-hw")
    found = page(a, b)
    assert "DIFFERENT LABELS: measured-twin against measured-hw" in found
    assert row(found, "warm.recovery_time")[-1] == "not comparable"
    assert not re.search(r"\b(better|worse)$", found, flags=re.MULTILINE)


def test_runs_of_different_labs_are_flagged(page):
    found = page(written(*recoveries(0.0)), written(*recoveries(0.0), lab="pod"))
    assert "different labs: rack against pod" in found


def test_unrecovered_trials_are_reported_beside_the_medians(page):
    b = written(*recoveries(-0.1), lost(8), lost(9))
    found = page(written(*recoveries(0.0)), b)
    assert (
        "warm of the second: of 10 trials 2 not recovered; its medians are of the others" in found
    )
    assert "of the first:" not in found


def test_a_run_with_more_lost_trials_is_not_called_better():
    """A quarter recovered in a third of the time, and the others never came back."""
    survivors = [*recoveries(-0.33, 6), *[lost(n) for n in range(6, 24)]]
    first = written(*recoveries(0.0, 24))
    found = compare_metric("warm.recovery_time", first, written(*survivors))
    assert found.ratio < 0.5  # of those that came back
    assert (found.verdict, found.ci95) == ("worse", None)
    assert found.n == (24, 6) and found.missing == ({}, {"not recovered": 18})
    read = json.loads(json.dumps(comparison_to_json([first, written(*survivors)], [])))
    told = read["metrics"]["warm.recovery_time"]
    assert (told["n"], told["missing"]) == ([24, 6], [{}, {"not recovered": 18}])
    back = compare_metric("warm.recovery_time", written(*survivors), first)
    assert back.verdict == "better"


def test_runs_with_equally_many_lost_trials_get_no_verdict_of_better():
    half = [*recoveries(0.0, 6), *[lost(n) for n in range(6, 12)]]
    slow = [*recoveries(0.3, 6), *[lost(n) for n in range(6, 12)]]
    found = compare_metric("warm.recovery_time", written(*half), written(*slow))
    assert found.verdict == "unclear"


def test_two_units_of_one_metric_are_not_compared():
    """As of a summary from before percentages were stored in percent."""
    now = written(*[trial(n, values={"wire_overhead": 4.5}) for n in range(8)])
    before = written(*[trial(n, values={"wire_overhead": 0.045}) for n in range(8)])
    before["metrics"]["warm.wire_overhead"]["unit"] = "1"
    found = compare_metric("warm.wire_overhead", before, now)
    assert (found.ratio, found.verdict) == (None, "not comparable: 1 against %")


def test_invalid_trials_do_not_count_in_a_comparison():
    invalid = [recovery(n, longer=9.0, valid=False) for n in range(8, 20)]
    found = compare_metric(
        "warm.recovery_time", written(*recoveries(0.0)), written(*recoveries(0.0), *invalid)
    )
    assert found.ratio == 1.0


def test_equal_and_different_final_states_are_reported(page):
    a, same, other = (
        written(trial(0, values={"digest": d, "loss": 2.0})) for d in ("aa", "aa", "bb")
    )
    assert "warm: final state the same in both, bit for bit" in page(a, same)
    assert "warm: final state NOT the same" in page(a, other)


def test_metrics_of_one_run_only_are_named(page):
    a = written(*recoveries(0.0), *recoveries(0.0, arm="cold"))
    b = written(*recoveries(0.0), trial(8, values={"loss": 2.0}))
    found = page(a, b)
    assert "only in the first: cold" in found
    assert "only in the second: warm.loss" in found


def test_runs_without_a_common_metric_give_no_table(page):
    assert "no metric in common" in page(written(), written())


def test_a_summary_of_another_format_is_refused(page):
    with pytest.raises(UsageError, match="format 2 cannot be compared"):
        page(written(), written() | {"format": 2})


EXPERIMENT = {"experiment": "lumion", "question": "?", "jobs": {"main": {"sizes": ["1 MiB"]}}}
LAB = {"lab": "rack", "twin": {"rate": "500 Mbit/s"}, "safe": [{"port": "ocs.1"}]}
FAST = {**LAB, "twin": {"rate": "500 Mbit/s"}}
SLOW = {**LAB, "twin": {"rate": "100 Mbit/s", "settle": "1 ms"}}


def test_only_settings_that_differ_are_listed(page):
    runs = [written(*bandwidths(4e8)), written(*bandwidths(1e8))]
    found = page(*runs, setups=[Setup(EXPERIMENT, FAST), Setup(EXPERIMENT, SLOW)])
    lines = found.splitlines()
    start = lines.index("Settings that differ")
    assert [re.split(r"\s{2,}", line) for line in lines[start + 1 : start + 4]] == [
        ["setting", "first", "second"],
        ["lab.twin.rate", "500 Mbit/s", "100 Mbit/s"],
        ["lab.twin.settle", ABSENT, "1 ms"],
    ]
    assert lines[start + 4] == ""


def wired(start, settle):
    ports = {"p0": {"tx": f"ocs.{start}", "rx": f"ocs.{start + 16}", "launch": f"{start} dBm"}}
    return {"hosts": {"h0": {"ssh": f"h{start}", "ports": ports}}, "twin": {"settle": settle}} | {
        "switches": {"ocs": {"resource": f"tcp://{start}", "ports": [start], "settle": "1 ms"}}
    }


def test_wiring_differences_are_counted_in_text_and_listed_in_json(page):
    runs = [written(*bandwidths(4e8)), written(*bandwidths(1e8))]
    setups = [Setup({}, wired(1, "1 ms")), Setup({}, wired(2, "2 ms"))]
    lines = page(*runs, setups=setups).splitlines()
    start = lines.index("Settings that differ")
    assert [line.split()[0] for line in lines[start + 2 : start + 4]] == [
        "lab.hosts.h0.ports.p0.launch",
        "lab.twin.settle",
    ]
    assert lines[start + 4] == "and 5 of addresses and wiring; --json lists them"
    settings = comparison_to_json(runs, setups)["settings"]
    assert settings["lab.hosts.h0.ports.p0.tx"] == ["ocs.1", "ocs.2"]
    assert len(settings) == 7


def test_equal_values_are_not_listed_as_different_settings():
    """The question, and what the heads of the runs say already, is none either."""
    other = {**EXPERIMENT, "question": "another?"}
    setups = [Setup(EXPERIMENT, LAB), Setup(other, {**LAB, "lab": "pod"})]
    assert differing(setups) == []


def test_a_setting_in_a_list_is_named_by_its_index_and_a_plain_list_as_a_whole():
    changed = {**EXPERIMENT, "jobs": {"main": {"sizes": ["1 MiB", "2 MiB"]}}}
    moved = {**LAB, "safe": [{"port": "ocs.2"}]}
    rows = differing([Setup(EXPERIMENT, LAB), Setup(changed, moved)])
    assert {row.key: row.values for row in rows} == {
        "jobs.main.sizes": ('["1 MiB"]', '["1 MiB", "2 MiB"]'),
        "lab.safe.0.port": ("ocs.1", "ocs.2"),
    }


def test_the_code_version_and_trial_counts_are_compared_as_settings():
    facts = [
        {"git": {"commit": "a", "dirty": dirty}, "versions": {"numpy": version}, "repeat": "6"}
        for dirty, version in ((False, "1"), (True, "2"))
    ]
    rows = differing([Setup({}, {}, one) for one in facts])
    assert {row.key: row.values for row in rows} == {
        "commit": ("a", "a, with changes"),
        "version of numpy": ("1", "2"),
    }


def test_each_of_several_runs_is_compared_with_the_first(page):
    runs = [written(*bandwidths(value)) for value in (2e8, 4e8, 1e8, 2e8)]
    found = page(*runs, width=200)
    assert [line.split()[0] for line in found.splitlines()[:4]] == [
        "first", "second", "third", "4th",
    ]  # fmt: skip
    assert row(found, "warm.busbw") == [
        "200 Mbit/s",
        "400 Mbit/s × 2.000 better",
        "100 Mbit/s × 0.500 worse",
        "200 Mbit/s × 1.000 unclear",
    ]


def test_json_of_more_than_two_runs_is_a_list():
    runs = [written(*bandwidths(value)) for value in (2e8, 4e8, 1e8)]
    setups = [Setup({}, {"twin": {"rate": rate}}) for rate in ("1 Gbit/s", "2 Gbit/s", "1 Gbit/s")]
    found = json.loads(json.dumps(comparison_to_json(runs, setups)))
    _, *others = found["runs"]
    assert [one["metrics"]["warm.busbw"]["verdict"] for one in others] == ["better", "worse"]
    assert found["settings"] == {"lab.twin.rate": ["1 Gbit/s", "2 Gbit/s", "1 Gbit/s"]}


def test_a_comparison_names_arms_by_their_short_names(page):
    runs = [written(*recoveries(longer, arm="lab.twin.settle=1 ms")) for longer in (0.0, 0.5)]
    assert row(page(*runs), "settle=1 ms.recovery_time")[3].count("–") == 1
