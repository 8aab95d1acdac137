"""The table of arms, and the short names by which it calls them."""

from __future__ import annotations

import re

import pytest

from testbed.analysis.checks import CheckResult
from testbed.report.arms import arm_tables, print_arms
from testbed.report.last_page import print_page
from testbed.report.markdown import markdown
from testbed.report.short_arm_names import shortened
from testbed.schema.arm_names import short_keys, short_names
from tests.unit.report.runs_by_hand import lost, recovery, summary, trial

SETTLE = ("lab.twin.settle=1 ms", "lab.twin.settle=10 ms")


def rows(page):
    """Return the cells of each line between the headings and the next empty line or note."""
    lines = page.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("metric"))
    return [re.split(r"\s{2,}", line.strip()) for line in lines[start:] if line]


@pytest.fixture
def table(text):
    return lambda found, width=100: rows(text(lambda console: print_arms(found, console), width))


def several(arm, count, **changes):
    return [recovery(n, arm, n / 1000, **changes) for n in range(count)]


def test_each_arm_has_its_count_median_interval_and_prediction(table):
    warm = several("warm", 8, predicted={"recovery_time": 0.48})
    found = table(summary(*warm, *several("cold", 3)))
    assert found[:3] == [
        ["metric", "arm", "n", "median", "95 % interval", "predicted"],
        ["recovery_time", "cold", "3", "501 ms", "n < 6"],
        ["warm", "8", "503.5 ms", "500–507 ms", "480 ms"],
    ]


def test_the_number_of_trials_without_a_value_is_beside_the_median_of_the_others(table):
    found = table(summary(*several("warm", 3), lost(3), lost(4), *[lost(5, "cold")]))
    assert found[0][:4] == ["metric", "arm", "n", "no value"]
    assert found[1][:4] == ["recovery_time", "cold", "0", "1"]
    assert found[2][:4] == ["warm", "3", "2", "501 ms"]


def test_an_arm_without_any_value_still_has_a_row():
    (recovered, _) = arm_tables(summary(*several("warm", 2), lost(2, "cold")))
    assert [(row.arm, row.n, row.without) for row in recovered.rows] == [
        ("cold", 0, 1),
        ("warm", 2, 0),
    ]


def test_metrics_of_the_checks_are_shown_beside_the_headline_metrics():
    values = {"loss": 2.0, "steps": 9, "busbw_4kib": 1e6, "busbw_16mib": 4e8, "algbw_4kib": 1e6}
    check = CheckResult("warm.loss max", "< 3", 2.0, "passed")
    tables = arm_tables(summary(trial(0, values=values), checks=(check,)))
    assert [table.name for table in tables] == ["loss", "busbw_16mib"]


def test_without_headline_or_checked_metrics_all_are_shown():
    assert [t.name for t in arm_tables(summary(trial(0, values={"steps": 9})))] == ["steps"]


def test_the_table_of_arms_comes_first_on_the_last_page(text, tmp_path):
    check = CheckResult("warm.recovery_time every", "< 1 s", 0.5, "passed")
    found = summary(*several("warm", 2), checks=(check,))
    page = text(lambda console: print_page(found, tmp_path, console))
    titles = [line for line in page.splitlines() if line in ("Arms", "Checks", "Recovery")]
    assert titles == ["Arms", "Checks", "Recovery"]


def test_the_table_of_arms_keeps_the_medians_on_a_narrow_terminal(table):
    assert table(summary(*several("warm", 8)), 60)[1] == ["recovery_time", "warm", "8", "503.5 ms"]


def test_a_dotted_key_is_shortened_to_its_last_part():
    assert short_names(SETTLE) == {SETTLE[0]: "settle=1 ms", SETTLE[1]: "settle=10 ms"}
    assert short_names(["splice/jobs.main.ranks=4,lab.twin.rate=1 Gbit/s"]) == {
        "splice/jobs.main.ranks=4,lab.twin.rate=1 Gbit/s": "splice/ranks=4,rate=1 Gbit/s"
    }


def test_two_keys_with_the_same_last_part_stay_distinct():
    keys = ["jobs.a.ranks", "jobs.b.ranks"]
    assert short_keys(f"{key}=4" for key in keys) == {keys[0]: "a.ranks", keys[1]: "b.ranks"}
    assert short_names([",".join(f"{key}=4" for key in keys)]).popitem()[1] == "a.ranks=4,b.ranks=4"


@pytest.mark.parametrize("name", ["only", "splice-warm", "n=16", "a/b=1", "v1.5=2"[:4], "x=[1,2]"])
def test_an_arm_name_without_dots_is_not_shortened(name):
    assert short_names([name]) == {name: name}


def test_an_arm_is_not_shortened_to_the_full_name_of_another_arm():
    arms = ["settle=1 ms", SETTLE[0]]
    assert short_names(arms) == {arm: arm for arm in arms}


def test_the_page_explains_each_short_name(text, tmp_path):
    trials = [recovery(n, arm) for n, arm in enumerate(SETTLE)]
    check = CheckResult(f"{SETTLE[1]}.recovery_time every", "< 1 s", 0.5, "passed")
    found = summary(*trials, checks=(check,), reason=f"{SETTLE[1]}.recovery_time is not < 1 s")
    page = text(lambda console: print_page(found, tmp_path, console))
    assert "settle is lab.twin.settle" in page
    assert "settle=10 ms.recovery_time every" in page
    assert "reason  settle=10 ms.recovery_time is not < 1 s" in page
    assert page.count("lab.twin.settle") == 1


def test_an_arm_name_that_begins_like_another_is_not_replaced_in_text():
    trials = [recovery(n, arm) for n, arm in enumerate(SETTLE)]
    assert set(shortened(summary(*trials)).metrics) >= {
        "settle=1 ms.recovery_time",
        "settle=10 ms.recovery_time",
    }


def test_markdown_has_the_arms_and_the_checks_as_tables():
    held = {"reason": "8 of 8 trials", "unit": "s"}
    check = CheckResult("warm.recovery_time every", "< 1 s", 0.5, "passed", **held)
    lines = markdown(summary(*several("warm", 8), lost(8), checks=(check,))).splitlines()
    assert lines[0].startswith("**lumion on rack (measured-twin)**: passed, ")
    assert lines[2] == "| metric | arm | n | no value | median | 95 % interval | predicted |"
    assert lines[3] == "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    assert lines[4] == "| recovery_time | warm | 8 | 1 | 503.5 ms | 500–507 ms |  |"
    assert lines[-1] == (r"| passed | warm.recovery_time every | \< 1 s | 500 ms | 8 of 8 trials |")


def test_markdown_has_the_flags_of_metrics():
    found = markdown(summary(*several("warm", 8), flags={"warm.busbw": "above the rate of a port"}))
    assert "warm.busbw: above the rate of a port" in found.splitlines()


def test_names_of_arms_are_not_interpreted_as_markup():
    found = markdown(summary(trial(0, "a|b*c", values={"loss": 1.0}), reason="see\n<b>`x`"))
    assert r"a\|b\*c" in found and r"see \<b>\`x\`" in found
