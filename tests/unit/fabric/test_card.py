"""Characterisation cards: out to a file and back, and what counts as drift."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.card import Card, Timing, drift

SECONDS = st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=50)
AGAIN = "connect what is connected"
BOX = Card(
    "measured-hw",
    "2026-11-21T12:00:00Z",
    "polatis",
    {"maker": "Polatis", "model": "16x16", "serial": "S1", "firmware": "6.5"},
    {AGAIN: "done"},
    {"answer": Timing.of([0.001, 0.0012]), "light": Timing.of([0.020, 0.025, 0.03])},
)


def with_light(seconds):
    return replace(BOX, timings={**BOX.timings, "light": Timing.of([seconds])})


def test_a_card_reads_back_as_it_was_written():
    assert Card.from_json(json.loads(json.dumps(BOX.to_json()))) == BOX


@given(SECONDS)
def test_the_percentiles_of_a_timing_are_in_order(seconds):
    timing = Timing.of(seconds)
    assert timing.n == len(seconds)
    assert timing.min <= timing.median <= timing.max
    assert timing.min <= timing.p95 <= timing.max
    assert sum(second <= timing.p95 for second in seconds) >= 0.95 * len(seconds)


def test_a_card_does_not_differ_from_itself_nor_from_one_of_a_like_switch():
    other = replace(BOX, identity={**BOX.identity, "serial": "S2"}, made="later")
    assert not list(drift(BOX, BOX))
    assert not list(drift(BOX, other))


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (replace(BOX, identity={**BOX.identity, "firmware": "7.0"}), "firmware"),
        (replace(BOX, manners={AGAIN: "refused"}), AGAIN),
        (replace(BOX, manners={}), AGAIN),
        (with_light(0.032), "light"),
        (with_light(0.019), "light"),
        (replace(BOX, timings={"answer": BOX.timings["answer"]}), "light"),
    ],
)
def test_differences_between_cards_are_named(other, what):
    assert [difference.what for difference in drift(BOX, other)] == [what]
    assert [difference.what for difference in drift(other, BOX)] == [what]


def test_differences_within_the_accuracy_of_the_probe_are_ignored():
    assert not list(drift(BOX, with_light(0.0251)))
    fast = replace(BOX, timings={"answer": Timing.of([0.0001])})
    slow = replace(BOX, timings={"answer": Timing.of([0.0009])})
    assert not list(drift(fast, slow))


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"card": 2}', '{"card": 1}', '{"card": 1, "timings": {"light": {}}}', "null"],
)
def test_an_invalid_card_is_refused(text):
    with pytest.raises(ValueError, match=r"card|format|NoneType|list"):
        Card.from_json(json.loads(text))


LIGHT = {"n": 1, "median": 0.02, "p95": 0.03, "min": 0.01, "max": 0.04}


@pytest.mark.parametrize(
    "wrong",
    [
        {"identity": None},
        {"identity": {"maker": 3}},
        {"manners": [AGAIN]},
        {"manners": {AGAIN: None}},
        {"timings": {"light": LIGHT | {"median": "20 ms"}}},
        {"timings": {"light": LIGHT | {"median": float("nan")}}},
        {"timings": {"light": LIGHT | {"max": float("inf")}}},
        {"timings": {"light": LIGHT | {"p95": 0.0}}},
        {"timings": {"light": LIGHT | {"min": -0.01}}},
        {"timings": [LIGHT]},
    ],
)
def test_a_card_with_impossible_content_is_refused_as_a_whole(wrong):
    Card.from_json(BOX.to_json() | {"timings": {"light": LIGHT}})
    with pytest.raises(ValueError, match=r"card|contradict"):
        Card.from_json(BOX.to_json() | wrong)


def test_an_unknown_label_is_refused():
    with pytest.raises(ValueError, match="label"):
        Card.from_json({**BOX.to_json(), "label": "measured"})
