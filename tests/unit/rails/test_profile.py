"""Profiles of jobs on rails: their stages, their files, and what is refused."""

import json

import pytest

from testbed.rails.profile import Group, Operation, Profile, RankIteration, stages_of
from testbed.rails.profile_json import from_json, to_json
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.workload import workload_of

from .profiles import two_stages

GROUPS = {"dp": Group((0, 1), "rail0"), "pp": Group((0, 1), "rail0"), "tp": Group((0, 1))}


def row(*names):
    """Return operations of a rank, one in each of the named groups, a second each."""
    counts = {}
    operations = []
    for at, name in enumerate(names):
        number = counts[name] = counts.get(name, -1) + 1
        operations.append(Operation(name, number, (0, 1), at, at, at + 1.0))
    return RankIteration(0.0, float(len(names)), tuple(operations))


def profile(*ranks, groups=GROUPS):
    return Profile(groups, (ranks,))


def test_a_stage_is_what_one_group_does_before_another_does_anything_on_the_rail():
    found = list(stages_of(row("dp", "tp", "dp", "pp", "dp").operations, GROUPS))
    assert [(one.stage.group, one.stage.place, one.first, one.last) for one in found] == [
        ("dp", 0, 0, 2),
        ("pp", 0, 3, 3),
        ("dp", 1, 4, 4),
    ]


def test_a_profile_is_the_same_after_it_was_kept():
    given = two_stages(0.2, 0.0011)
    assert from_json(json.loads(json.dumps(to_json(given)))) == given


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": 2}, "it is no profile of format 1"),
        ({"groups": {}}, "iteration 0, rank 0, pp0 0: there is no group pp0"),
        ({"control": {"answers": 1}}, "it does not have the fields of a profile: TypeError"),
        ({"iterations": []}, "a profile has at least one iteration of one rank"),
        ({"iterations": [[{"begin": 0}]]}, r"fields of a profile: KeyError\('operations'\)"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(change, text):
    with pytest.raises(ValueError, match=text):
        from_json(to_json(two_stages(0.2, 0.1)) | change)


def test_an_operation_that_waits_for_nothing_known_is_refused():
    value = to_json(two_stages(0.2, 0.1))
    value["iterations"][0][0]["operations"][0]["waits"] = "none"
    with pytest.raises(ValueError, match="pp0 0 waits for 'none': no such thing"):
        from_json(value)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        (
            [RankIteration(0.0, 1.0, row("dp", "pp").operations)],
            "it ends before its last operation",
        ),
        (
            [RankIteration(0.5, 9.0, row("dp").operations)],
            "it begins before the one before it ends",
        ),
        ([row("ep")], "there is no group ep"),
    ],
)
def test_times_that_go_back_and_unknown_groups_are_refused(ranks, text):
    with pytest.raises(ValueError, match=text):
        profile(*ranks)


def test_ranks_outside_a_group_are_refused():
    outside = Operation("dp", 0, (0, 2), 0.0, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"ranks \(0, 2\) are not all in the group"):
        profile(RankIteration(0.0, 1.0, (outside,)))


def test_iterations_of_other_ranks_are_refused():
    with pytest.raises(ValueError, match="all iterations of a profile have the same ranks"):
        Profile(GROUPS, ((row("dp"), row("dp")), (row("dp"),)))


def test_an_operation_without_the_part_of_a_rank_is_refused():
    with pytest.raises(ValueError, match="dp 0: the part of rank 1 is missing"):
        workload_of(profile(row("dp"), row()))


def test_a_receive_without_a_send_is_refused():
    alone = Operation("pp", 0, (0, 1), 0.0, 0.0, 1.0, waits="receive")
    one = RankIteration(0.0, 1.0, (alone,))
    with pytest.raises(ValueError, match="pp 0: rank 0 receives and no rank sends"):
        workload_of(profile(one, row()))


def test_several_iterations_are_replayed_one_after_the_other():
    once = profile(row("dp", "pp"), row("dp", "pp"))
    later = [
        RankIteration(
            2.5,
            4.5,
            tuple(
                Operation(one.group, 1, one.ranks, one.begin + 2.5, one.lit + 2.5, one.end + 2.5)
                for one in row("dp", "pp").operations
            ),
        )
    ] * 2
    twice = Profile(GROUPS, (*once.iterations, tuple(later)))
    assert replay(workload_of(once), Rails(0.0)).iteration == pytest.approx(2.0)
    assert replay(workload_of(twice), Rails(0.0)).iteration == pytest.approx(2.25)


def test_ranks_that_wait_for_each_other_for_ever_are_named():
    crossed = profile(row("dp", "pp"), row("pp", "dp"))
    with pytest.raises(ValueError, match="rank 0 waits for ever at dp 0"):
        replay(workload_of(crossed), Rails(0.0))
