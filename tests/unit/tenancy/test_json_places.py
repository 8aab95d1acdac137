"""The place of an entry in a text of JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.tenancy.json_places import place_of

TEXT = """{
  "a": {"x": [1, {"b": 0}],
        "y" : -3.5},
  "b": "a", "a\\"": {}
 }"""


@pytest.mark.parametrize(
    ("path", "begins"),
    [
        ((), "{\n"),
        (("a",), '{"x"'),
        (("a", "x"), "[1"),
        (("a", "x", "b"), "[1"),
        (("a", "y"), "-3.5"),
        (("b",), '"a",'),
        (('a"',), "{}"),
        (("c", "x"), "{\n"),
    ],
)
def test_the_value_of_a_path_begins_at_its_place(path, begins):
    line, column = place_of(TEXT, path)
    assert "\n".join(
        [TEXT.split("\n")[line - 1][column - 1 :], *TEXT.split("\n")[line:]]
    ).startswith(begins)


def test_of_a_key_that_is_there_twice_the_last_counts():
    assert place_of('{"a": 1,\n "a": 2}', ["a"]) == (2, 7)


KEYS = st.text(max_size=3)
DATA = st.recursive(
    st.integers() | KEYS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner)
)


@given(data=st.dictionaries(KEYS, DATA, min_size=1), key=st.data(), indent=st.none() | st.just(3))
def test_what_is_read_from_its_place_is_the_value(data, key, indent):
    name = key.draw(st.sampled_from(sorted(data)))
    text = json.dumps(data, indent=indent)
    line, column = place_of(text, [name])
    rest = "\n".join([text.split("\n")[line - 1][column - 1 :], *text.split("\n")[line:]])
    assert json.JSONDecoder().raw_decode(rest)[0] == data[name]
