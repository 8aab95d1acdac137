"""Faults of all hosts in one rack, or on one feed: who is struck, and what is refused."""

import io

import pytest

from testbed.report.plan_page import print_plan

FIRST = "{kind: power-cut, target: random, at: {step: 8}}"


@pytest.fixture
def racked(desk):
    """Both ranks are in one rack, on two feeds; the spare is in another, and on the first feed."""
    for host, rack, feed in (("h0", "r1", "a"), ("h1", "r1", "b"), ("h2", "r2", "a")):
        desk.change(
            "lab", f"    ssh: {host}\n", f"    ssh: {host}\n    rack: {rack}\n    feed: {feed}\n"
        )
    desk.change("experiment", "topology: ring", "topology: ring, steps: 30")
    desk.change("experiment", 'checks:\n  warm.recovery_time: {every: "< 1 s"}\n', "")
    return desk


def aimed(desk, target, fault="power-cut", more=""):
    entry = f"{{kind: {fault}, target: {target}, at: {{step: 8}}{more}}}"
    return desk.change("experiment", FIRST, entry)


def test_every_rank_in_a_rack_is_struck_right_after_the_one_before(racked):
    for trial in aimed(racked, "rack r1").plan().trials:
        assert [(one.rank, one.after, one.entry) for one in trial.faults] == [
            (0, None, 0),
            (1, 0.0, 0),
        ]
        assert {(one.kind, one.step) for one in trial.faults} == {("power-cut", 8)}


def test_the_page_of_the_plan_lists_every_victim(racked):
    page = io.StringIO()
    print_plan(aimed(racked, "rack r1").plan(), page, 120)
    rows = [row for row in page.getvalue().splitlines() if "power-cut" in row]
    assert len(rows) == 2 * 2 * 3  # victims, arms, trials
    assert [row.split()[1:4] for row in rows if "later" in row] == [["1", "0", "ms"]] * 6


def test_a_feed_that_one_rank_hangs_on_is_one_fault(racked):
    for trial in aimed(racked, "feed b").plan().trials:
        assert [one.rank for one in trial.faults] == [1]


def test_a_fault_that_follows_a_rack_draws_none_of_its_ranks(racked):
    racked.change("experiment", "ranks: 2, spares: 1", "ranks: 3")
    racked.change("experiment", "policy: {kind: splice}\n", "")
    racked.change(
        "experiment",
        "variants:\n  warm: {policy.standby: warm}\n  cold: {policy.standby: cold}\n",
        "",
    )
    more = "{kind: power-cut, target: rack r1, at: {step: 8}}\n"
    racked.change(
        "experiment", FIRST, f"{more}  - {{kind: rank-kill, target: random, at: {{after: 5 ms}}}}"
    )
    for trial in racked.plan().trials:
        assert [(one.rank, one.entry) for one in trial.faults] == [(0, 0), (1, 0), (2, 1)]


@pytest.mark.parametrize(
    ("target", "fault", "complaint"),
    [
        ("rack r3", "power-cut", "lab bench has no rack r3; known: r1, r2"),
        ("rack r2", "power-cut", "no rank of job main is in rack r2; its hosts are h0, h1"),
        (
            "feed a",
            "power-cut",
            "feed a has h2, too, a spare of job main, which would fail as well",
        ),
        (
            "rack r1",
            "dark-circuit",
            "dark-circuit is no failure of a host, and rack r1 names hosts",
        ),
    ],
)
def test_racks_that_cannot_fail_as_asked_are_refused(racked, target, fault, complaint):
    said = aimed(racked, target, fault).refusal()
    assert complaint in said
    assert "experiment.yaml:7:" in said


def test_a_lab_without_racks_is_told_how_to_name_them(desk):
    said = aimed(desk, "rack r1").refusal()
    assert "lab bench has no rack r1" in said


def test_a_job_that_lives_on_has_no_fixed_hosts_in_a_rack(racked):
    racked.change("experiment", ", steps: 30", "")
    said = aimed(racked, "rack r1").refusal()
    assert "hosts in rack r1 may be spares in later trials" in said


def test_a_rank_in_a_rack_is_not_struck_twice(racked):
    more = "{kind: power-cut, target: rack r1, at: {step: 8}}\n"
    racked.change(
        "experiment", FIRST, f"{more}  - {{kind: rank-kill, target: rank 1, at: {{after: 5 ms}}}}"
    )
    assert "more faults than job main has ranks" in racked.refusal()


def test_nothing_is_predicted_of_hosts_that_fail_together(racked):
    checks = "checks:\n  warm.recovery_time: {near_prediction: 10 %}\n"
    aimed(racked, "rack r1").experiment += checks
    assert "recovery_time" in racked.refusal()
