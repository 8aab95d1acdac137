"""One event as one line, and back."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.events import Event
from testbed.events.kinds import KINDS
from testbed.events.origin import NOWHERE, Origin

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
origins = st.builds(
    Origin,
    job=st.text(),
    owner=st.text(),
    controller=st.text(),
    cause=st.none() | st.integers(0, 10**10),
)
events = st.builds(
    Event,
    seq=st.integers(0, 10**10),
    t=st.floats(-10, 1e6).map(lambda t: round(t, 6)),
    kind=st.sampled_from(sorted(KINDS)),
    subject=st.text(),
    trial=st.none() | st.integers(0, 10**10),
    data=st.dictionaries(st.text(), plain),
    origin=origins,
)


@given(events, st.data())
def test_an_event_is_one_line_that_reads_back_unless_it_is_truncated(event, data):
    line = event.to_json()
    assert "\n" not in line
    assert Event.from_json(line) == event
    cut = data.draw(st.integers(0, len(line) - 1))
    with pytest.raises(ValueError):
        Event.from_json(line[:cut])


def test_an_event_outside_any_trial_does_not_name_one():
    assert "trial" not in json.loads(Event(0, 0.0, "note").to_json())
    assert json.loads(Event(0, 0.0, "note", trial=0).to_json())["trial"] == 0


def test_an_event_names_only_what_is_known_of_its_origin():
    plain = json.loads(Event(5, 0.0, "note").to_json())
    assert plain.keys() == {"seq", "t", "kind", "subject", "data"}
    origin = Origin(job="main", controller="splice", cause=0)
    told = json.loads(Event(5, 0.0, "note", origin=origin).to_json())
    assert told == plain | {"job": "main", "controller": "splice", "cause": 0}
    assert Event.from_json(json.dumps(plain)).origin is NOWHERE


def test_an_origin_takes_from_another_what_it_leaves_open():
    outer = Origin(job="main", controller="splice", cause=7)
    assert Origin(owner="main", cause=0).over(outer) == Origin("main", "main", "splice", 0)
    assert NOWHERE.over(outer) == outer


BROKEN = [
    ("seq", None),
    ("seq", True),
    ("seq", 10**400),
    ("t", "0"),
    ("t", 1e300),
    ("kind", 7),
    ("subject", ["ocs"]),
    ("trial", "0"),
    ("job", 7),
    ("owner", None),
    ("controller", ["splice"]),
    ("cause", "0"),
    ("cause", True),
    ("data", None),
    ("data", []),
]


@pytest.mark.parametrize(("name", "value"), BROKEN)
def test_an_event_with_a_field_of_a_wrong_type_is_refused(name, value):
    row = json.loads(Event(0, 0.0, "note", trial=0).to_json()) | {name: value}
    with pytest.raises(ValueError, match=r"not (an event|the origin of an event)"):
        Event.from_json(json.dumps(row))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "-Infinity"])
def test_the_instant_of_an_event_is_a_number(value):
    with pytest.raises(ValueError):
        Event.from_json(f'{{"seq": 0, "t": {value}, "kind": "note", "subject": "", "data": {{}}}}')


def test_an_infinite_value_is_written_to_an_event_as_null():
    event = Event(0, 0.0, "step", data={"loss": math.nan, "of": [math.inf, 1.5]})
    assert Event.from_json(event.to_json()).data == {"loss": None, "of": [None, 1.5]}


@pytest.mark.parametrize("line", ["null", "5", '"step"', "[]", "{}", '{"seq": 1, "t": 0.0}'])
def test_other_json_is_not_read_as_an_event(line):
    with pytest.raises(ValueError, match="not an event"):
        Event.from_json(line)


def test_every_event_kind_has_a_description():
    assert all(kind.what and kind.what[0].islower() for kind in KINDS.values())


@pytest.mark.parametrize(
    ("number", "written"), [(1e-7, "1e-7"), (2**64, "18446744073709551616"), (math.inf, "null")]
)
def test_an_event_is_written_without_spaces_and_read_alike_from_an_earlier_line_with_them(
    number, written
):
    line = Event(7, 1.25, "note", "h2", 3, {"text": "é", "of": [0.5, number, None]}).to_json()
    assert line == (
        '{"seq":7,"t":1.25,"kind":"note","subject":"h2","trial":3,'
        f'"data":{{"text":"é","of":[0.5,{written},null]}}}}'
    )
    assert Event.from_json(line) == Event.from_json(json.dumps(json.loads(line)))
    assert Event.from_json(line).data["of"][1] == (number if written != "null" else None)
