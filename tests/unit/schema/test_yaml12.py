"""YAML text: what its scalars mean, and how everything we do not allow is refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from testbed.errors import FileError
from testbed.schema.yaml12 import MAX_ALIASED, MAX_DEPTH, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("on", "off", "yes", "No", "y")),
        *((word, word) for word in ("12:30", "1:30:00", "2026-01-01", "1_000", ".inf", ".nan")),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("Null", None),
        ("017", 17),
        ("-4", -4),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("1-32", "1-32"),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text, value):
    data, _ = parse("f", f"key: {text}")
    assert data == {"key": value}
    assert type(data["key"]) is type(value)


def test_yaml_keys_are_kept_as_text():
    assert parse("f", "on: 1\n0042: 2\nnull: 3")[0] == {"on": 1, "0042": 2, "null": 3}


def test_the_place_of_every_key_and_value_in_yaml_is_known():
    _, marks = parse("f", "a:\n  b: [x, {c: y}]\n")
    places = {steps: (str(mark.key), str(mark.value)) for steps, mark in marks.items()}
    assert places == {
        (): ("f:1:1", "f:1:1"),
        ("a",): ("f:1:1", "f:2:3"),
        ("a", "b"): ("f:2:3", "f:2:6"),
        ("a", "b", 0): ("f:2:7", "f:2:7"),
        ("a", "b", 1): ("f:2:10", "f:2:10"),
        ("a", "b", 1, "c"): ("f:2:11", "f:2:14"),
    }


def test_an_alias_is_placed_where_it_is_used():
    data, marks = parse("f", "a: &x {p: 1}\nb: *x\n")
    assert data == {"a": {"p": 1}, "b": {"p": 1}}
    assert str(marks["b",].value) == "f:2:4"


def test_own_keys_override_merged_keys_and_earlier_merges_override_later_ones():
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {z: 3, <<: [*a, *b]}\n"
    data, _ = parse("f", text)
    assert data["c"] == {"x": 1, "y": 1, "z": 3}
    assert list(data["c"]) == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "1:1", "it holds no data"),
        ("# only a comment\n", "1:1", "it holds no data"),
        ("a: 1\nb: 2\na: 3\n", "3:1", "key 'a' is given twice; first at f:1:1"),
        ("a: {<<: {b: 1}, <<: {c: 1}}", "1:17", "'<<' is given twice"),
        ("a: 1\n--- \nb: 2\n", "2:1", "second '---'"),
        ("a:\n\t- b\n", "2:1", "indent with spaces"),
        ("a: \0", "1:4", r"character '\x00' is not allowed"),
        ("ok: 1\na: é\x07", "2:5", r"character '\x07' is not allowed"),
        ("a: \ud800", "1:4", r"character '\ud800' is not allowed"),
        ('a: "x\\0"', "1:4", "NUL"),
        ('a: "\\ud800"', "1:7", "invalid Unicode"),
        ('a: "\\UFFFFFFFF"', "1:7", "invalid Unicode"),
        ("a: !!python/name:os.system x", "1:4", "tag '!!python/name:os.system' is not allowed"),
        ("!!python/object:os.system {}", "1:1", "plain data only"),
        ("a: !!timestamp 2026-01-01", "1:4", "!!timestamp"),
        ("a: !!binary aGk=", "1:4", "!!binary"),
        ("a: !!set {b}", "1:4", "!!set"),
        ("a: !own b", "1:4", "'!own'"),
        ("a: !!seq {b: 1}", "1:4", "!!seq"),
        ("a: !!int foo", "1:4", "not a number"),
        ("a: " + "9" * 5000, "1:4", "too large"),
        ("a: 1e999", "1:4", "too large"),
        ("a: &x [*x]", "1:8", "contains its own alias"),
        ("a: &x {<<: *x}", "1:12", "contains its own alias"),
        ("a: *nobody", "1:4", "undefined alias 'nobody'"),
        ("a: {<<: 5}", "1:9", "merges mappings"),
        ("? [a, b]\n: 1", "1:3", "a key must be plain text and not empty"),
        ("'': 1", "1:1", "a key must be plain text and not empty"),
        ("a: > 5 s\n", "1:6", "put text that begins with > or | in quotes"),
        ("a: {b: 1\nc: 2\n", "2:2", "it began on line 1"),
        ("%YAML 1." + "9" * 5000 + "\n--- a", "1:18", "extremely long version number"),
    ],
)
def test_unsupported_yaml_is_refused_at_its_place(text, where, words):
    with pytest.raises(FileError) as refusal:
        parse("f", text)
    assert refusal.value.where == f"f:{where}"
    assert words in str(refusal.value)


def test_nesting_is_limited_whether_written_out_or_through_aliases():
    deepest = "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH
    parse("f", deepest)
    with pytest.raises(FileError, match=f"f:1:{MAX_DEPTH + 2}: nested deeper"):
        parse("f", f"[{deepest}]")
    with pytest.raises(FileError, match="nested deeper"):
        parse("f", "[" * 100_000)
    chain = "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, MAX_DEPTH + 1))
    with pytest.raises(FileError, match="nested deeper"):
        parse("f", "a0: &a0 [1]\n" + chain)


def test_exponential_expansion_of_aliases_is_refused():
    laughs = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
    )
    with pytest.raises(FileError, match=f"aliases add more than {MAX_ALIASED} values"):
        parse("f", laughs)


def test_a_long_chain_of_merges_is_refused_and_not_followed():
    chain = "".join(f"m{n}: &m{n} {{<<: *m{n - 1}, k{n}: 1}}\n" for n in range(1, 2000))
    with pytest.raises(FileError, match="aliases add more than"):
        parse("f", "m0: &m0 {k0: 1}\n" + chain)


@given(st.text(alphabet="ab:-[]{}&*!%|>?#'\"\\\n\t ,<~0x9.", max_size=60))
@example('"\\x')
@example("a: !<%")
@example("&a")
def test_any_text_is_parsed_or_refused_with_a_place_inside_it(text):
    try:
        parse("f", text)
    except FileError as error:
        _, line, column = error.where.rsplit(":", 2)
        lines = text.split("\n")
        assert 1 <= int(line) <= len(lines)
        assert 1 <= int(column) <= len(lines[int(line) - 1]) + 1
