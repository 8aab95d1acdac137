"""A file with its overrides set, written so that it reads as the same data."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.schema import effective_text, lab_source, load_lab
from testbed.schema.yaml12 import parse, written

ROOT = Path(__file__).parents[3]
RATE = "lab.twin.rate=100 Mbit/s"

words = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12),
    st.sampled_from(["on", "no", "12:30", "0o17", "1e3", ".5", "~", "null", "true", "2026-01-01"]),
)
keys = words.filter(lambda word: word and "<" not in word)
scalars = st.one_of(words, st.integers(-(2**63), 2**63), st.floats(-1e9, 1e9), st.booleans())
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner), st.dictionaries(keys, inner)), max_leaves=8
)


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_any_data_written_as_yaml_reads_back(count):
    @settings(max_examples=count)
    @given(st.dictionaries(keys, values, min_size=1))
    def reads_back(data):
        assert parse("file", written(data))[0] == data

    reads_back()


@pytest.mark.parametrize("file", sorted(ROOT.glob("configs/*.yaml")), ids=lambda file: file.stem)
def test_a_file_written_with_its_overrides_reads_as_the_same_lab(file, tmp_path):
    source = lab_source(file, [RATE])
    again = tmp_path / "lab.yaml"
    again.write_text(effective_text(source, [RATE]))
    assert lab_source(again, [RATE]).data == lab_source(again).data == source.data
    assert load_lab(again).twin == load_lab(file, [RATE]).twin


def test_without_an_override_the_text_is_that_of_the_file():
    file = ROOT / "configs" / "rack.yaml"
    assert effective_text(lab_source(file), []) == file.read_text()
