"""The verifier: accepts what is right and lean, refuses every planted mistake."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from testbed.collectives.broadcasts import chain
from testbed.collectives.exchanges import all_to_all
from testbed.collectives.halving import folded_halving_doubling, halving_doubling
from testbed.collectives.rings import all_gather, reduce_scatter, ring
from testbed.collectives.schedule import Round, Schedule, Send
from testbed.collectives.stragglar import direct, stragglar
from tests.unit.collectives import oracle
from tests.unit.collectives.verifier import Problem, Trouble, problems, verify

WASTE: set[Trouble] = {"redundant", "unused", "double"}
SMALL = [
    ring(3),
    reduce_scatter(4),
    all_gather(4),
    halving_doubling(4),
    halving_doubling(3),
    folded_halving_doubling(3),
    direct(4),
    stragglar(2),
    stragglar(4),
    stragglar(4, 1),
    all_to_all(4),
    chain(3, 2),
]
LARGER = [
    ring(5),
    halving_doubling(7),
    halving_doubling(8),
    direct(6),
    stragglar(6),
    stragglar(8),
    all_to_all(6),
]


def name(schedule: Schedule) -> str:
    return f"{schedule.name}-{schedule.ranks}"


def judge(schedule: Schedule, label: str, sends: oracle.Sends) -> bool:
    """Hold the verifier's word on a mutant against the oracle's; return whether it was refused."""
    found = problems(oracle.with_sends(schedule, sends))
    fair = oracle.is_right(schedule, sends) and not oracle.crowded(sends)
    fair = fair and not oracle.breaks_word(schedule, sends)
    if not found:
        assert fair, f"{label}: accepted, and wrong"
        assert not oracle.needless(schedule, sends), f"{label}: accepted, and wasteful"
    elif fair:
        # What gives the right values without a conflict may only be refused as waste: there is a
        # send that brings nothing, or spoils what a copy then replaces, and can be left out.
        assert {problem.trouble for problem in found} <= WASTE, f"{label}: {found[0]}"
        assert oracle.needless(schedule, sends), f"{label}: {found[0]}, but nothing is needless"
    return bool(found)


@pytest.mark.parametrize("schedule", SMALL, ids=name)
def test_every_schedule_with_one_mutated_send_is_refused_or_still_correct(
    schedule: Schedule,
) -> None:
    every = oracle.mutants(schedule)
    refused = sum(judge(schedule, label, sends) for label, sends in every)
    print(f"{name(schedule)}: {refused} of {len(every)} mutations refused, the rest harmless")
    assert refused > 0.8 * len(every)


@pytest.mark.parametrize("schedule", LARGER, ids=name)
def test_a_sample_of_mutated_schedules_is_refused_or_still_correct(schedule: Schedule) -> None:
    every = oracle.mutants(schedule)
    sample = random.Random(1).sample(every, 60)
    assert sum(judge(schedule, label, sends) for label, sends in sample) > 0.8 * len(sample)


@pytest.mark.soak
@pytest.mark.parametrize("schedule", LARGER, ids=name)
def test_every_mutation_of_larger_schedules_is_refused_or_still_correct(schedule: Schedule) -> None:
    every = oracle.mutants(schedule)
    assert sum(judge(schedule, label, sends) for label, sends in every) > 0.8 * len(every)


@pytest.mark.parametrize("schedule", [*SMALL, *LARGER], ids=name)
def test_verification_detects_any_missing_send(schedule: Schedule) -> None:
    original = oracle.sends_of(schedule)
    assert oracle.is_right(schedule, original)
    for number, step in enumerate(original):
        for place in range(len(step)):
            left = oracle.without(original, number, place)
            assert not oracle.is_right(schedule, left)
            assert problems(oracle.with_sends(schedule, left))


@pytest.mark.parametrize("schedule", [*SMALL, *LARGER], ids=name)
def test_verification_by_fingerprints_detects_a_missing_send(schedule: Schedule) -> None:
    assert not problems(schedule, exact=False)
    original = oracle.sends_of(schedule)
    for number, step in enumerate(original):
        for place in range(len(step)):
            left = oracle.with_sends(schedule, oracle.without(original, number, place))
            assert problems(left, exact=False, seed=number)


@pytest.mark.parametrize("schedule", [stragglar(4), ring(3), direct(4)], ids=name)
def test_verification_by_fingerprints_accepts_no_wrong_schedule(schedule: Schedule) -> None:
    for label, sends in oracle.mutants(schedule):
        if not problems(oracle.with_sends(schedule, sends), exact=False):
            assert oracle.is_right(schedule, sends), label
            assert not oracle.crowded(sends), label


@pytest.mark.parametrize("number", [0, 700])
@pytest.mark.parametrize("column", ["source", "destination", "chunk", "reduces"])
def test_one_mistake_among_a_quarter_of_a_million_sends_is_found(number: int, column: str) -> None:
    schedule = ring(514)
    step = schedule.rounds[number]
    changed = getattr(step, column).copy()
    changed[100] = not changed[100] if column == "reduces" else changed[101]
    rounds = list(schedule.rounds)
    rounds[number] = replace(step, **{column: changed})
    assert problems(replace(schedule, rounds=tuple(rounds)))


def test_an_all_to_all_too_large_for_sets_is_verified_by_fingerprints() -> None:
    verify(all_to_all(208))


def of(*rounds: list[Send], ranks: int = 3, chunks: int = 1) -> Schedule:
    return Schedule("made", "all-reduce", ranks, chunks, tuple(Round.of(step) for step in rounds))


def only(schedule: Schedule) -> Problem:
    (found,) = problems(schedule)
    return found


def test_a_rank_that_sends_twice_in_a_round_conflicts() -> None:
    found = only(of([Send(0, 1, 0, "reduce"), Send(0, 2, 0, "reduce")]))
    assert found == Problem("conflict", 0, "rank 0 sends 2 times")


def test_a_rank_that_receives_twice_in_a_round_conflicts() -> None:
    found = only(of([Send(1, 0, 0, "reduce"), Send(2, 0, 0, "reduce")]))
    assert found == Problem("conflict", 0, "rank 0 receives 2 times")


def test_adding_a_contribution_twice_is_reported_as_double() -> None:
    found = only(of([Send(0, 1, 0, "reduce")], [Send(1, 0, 0, "reduce")]))
    assert found.trouble == "double"
    assert str(found) == (
        "in round 1, rank 1 sends chunk 0 to rank 0, which has part of it already"
    )


def test_a_contribution_overwritten_by_a_copy_is_reported_missing_at_the_end() -> None:
    steps = [Send(0, 1, 0, "copy")], [Send(1, 2, 0, "reduce")]
    assert {found.trouble for found in problems(of(*steps))} == {"incomplete"}


def test_a_copy_of_equal_data_is_reported_redundant() -> None:
    steps = [Send(0, 1, 0, "reduce")], [Send(1, 0, 0, "copy")], [Send(1, 0, 0, "copy")]
    assert only(of(*steps, ranks=2)).trouble == "redundant"


def test_a_copy_of_a_part_of_the_receivers_data_is_reported_redundant() -> None:
    steps = [Send(0, 1, 0, "reduce")], [Send(0, 1, 0, "copy")]
    assert only(of(*steps, ranks=2)).trouble == "redundant"


def along(*rounds: list[Send], ranks: int = 3) -> Schedule:
    return Schedule("made", "chain", ranks, 1, tuple(Round.of(step) for step in rounds))


def test_sending_a_chunk_not_held_is_reported_missing() -> None:
    assert only(along([Send(1, 2, 0, "copy")])).trouble == "missing"


def test_adding_to_an_empty_chunk_is_reported_missing() -> None:
    found = only(along([Send(0, 2, 0, "reduce")]))
    assert found.text == "rank 0 sends chunk 0 to rank 2, which has nothing to add it to"


def test_sends_of_a_round_read_the_data_held_at_its_beginning() -> None:
    found = only(along([Send(0, 1, 0, "copy"), Send(1, 2, 0, "copy")]))
    assert found.text == "rank 1 sends chunk 0 to rank 2, which it does not hold"


def test_missing_contributions_at_the_end_are_listed() -> None:
    found = problems(of([Send(0, 1, 0, "reduce")], ranks=2))
    assert found == (Problem("incomplete", None, "rank 0 lacks some of chunk 0, or has it twice"),)


def test_a_send_whose_data_is_never_used_is_reported() -> None:
    assert not problems(along([Send(0, 2, 0, "copy")]))
    aside = along([Send(0, 1, 0, "copy")], [Send(0, 2, 0, "copy")])
    assert only(aside) == Problem(
        "unused", 0, "rank 0 sends chunk 0 to rank 1, where it is never used"
    )


@pytest.mark.parametrize(
    "send",
    [
        Send(0, 0, 0, "copy"),
        Send(0, 3, 0, "copy"),
        Send(-1, 1, 0, "copy"),
        Send(0, 1, 1, "copy"),
        Send(0, 1, 0, "copy", 2),
        Send(0, 1, 0, "copy", 0),
    ],
)
def test_verification_reports_an_invalid_send(send: Send) -> None:
    assert only(of([send])).trouble == "shape"


def test_the_error_of_verify_names_the_schedule_and_counts_the_problems() -> None:
    broken = replace(stragglar(4), rounds=stragglar(4).rounds[:-1])
    with pytest.raises(ValueError, match=r"stragglar of 4 ranks: in the end, rank . lacks"):
        verify(broken)
    verify(stragglar(4))


def test_a_schedule_that_uses_its_named_straggler_in_early_rounds_is_refused() -> None:
    found = problems(replace(ring(4), straggler=3))
    assert str(found[0]) == "in round 0, rank 3 takes part, which is expected last"
    assert found[0].trouble == "straggler"
    verify(replace(ring(2), straggler=1))


def test_two_peers_of_a_rank_in_a_round_after_the_stragglers_arrival_are_refused() -> None:
    early = [Send(0, 1, 0, "reduce")], [Send(1, 2, 0, "reduce")]
    both = [Send(2, 3, 0, "reduce"), Send(3, 1, 0, "copy")]
    found = problems(replace(of(*early, both, ranks=4), straggler=3))
    assert [str(problem) for problem in found] == ["in round 2, rank 3 has 2 peers"]


def test_verification_refuses_a_round_without_sends() -> None:
    assert str(only(of([Send(0, 1, 0, "reduce")], []))) == "in round 1, no rank sends anything"
