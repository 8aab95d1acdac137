"""Files as bytes: what is a file of ours at all."""

from __future__ import annotations

import pytest

from testbed.errors import FileError, UsageError
from testbed.schema import Experiment, Lab, load, load_lab
from testbed.schema.load import MAX_BYTES


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "f"


@pytest.mark.parametrize(
    ("raw", "where", "words"),
    [
        (b"", "1:1", "it holds no data"),
        (b"lab: a\nhosts: \xff\n", "2:8", "byte 0xff is not UTF-8"),
        ("lab: é".encode("utf-16"), "1:1", "save the file as UTF-8"),
        (b"- lab\n", "1:1", "expected keys with values, got a list"),
        (b"just a word\n", "1:1", "expected keys with values, got 'just a word'"),
        (b"# " + b"x" * MAX_BYTES, "1:1", "larger than 1 MiB"),
    ],
)
def test_a_special_or_binary_file_is_refused_as_a_lab_file(file, raw, where, words):
    file.write_bytes(raw)
    with pytest.raises(FileError) as refusal:
        load_lab("f")
    assert refusal.value.where == f"f:{where}"
    assert words in str(refusal.value)


@pytest.mark.parametrize("path", ["absent", "."])
def test_a_file_that_cannot_be_read_is_a_usage_error_with_the_reason(file, path):
    with pytest.raises(
        UsageError, match=r"cannot be read: (No such file|it is not a regular file but a directory)"
    ):
        load_lab(path)


def test_a_byte_order_mark_at_the_beginning_of_a_file_is_ignored(file, lab_text):
    file.write_text(lab_text, "utf-8-sig")
    lab = load_lab("f")
    assert lab.source.text == lab_text
    assert lab.source.where("lab") == "f:1:6"


def test_a_file_with_the_key_experiment_is_read_as_an_experiment(file, lab_text, experiment_text):
    file.write_text(lab_text)
    assert isinstance(load(file), Lab)
    file.write_text(experiment_text)
    assert isinstance(load(file), Experiment)
