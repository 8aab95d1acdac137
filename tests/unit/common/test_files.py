"""Files that somebody else wrote: regular, bounded, never waited for, no link followed."""

import os
import socket
import sys

import pytest

from testbed.files import (
    MAX_DEPTH,
    is_directory,
    is_file,
    open_file,
    parse_json,
    read_file,
    read_lines,
    replace_file,
)

LIMIT = 1000


def fifo(path):
    os.mkfifo(path)


def listening(path):
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(path.parent)
        server.bind(path.name)


@pytest.mark.parametrize(
    "plant",
    [
        fifo,
        listening,
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path.name),
        lambda path: None,
    ],
    ids=["fifo", "socket", "directory", "link", "loop", "nothing"],
)
@pytest.mark.parametrize("follow", [False, True])
def test_a_special_file_is_refused_without_blocking(tmp_path, monkeypatch, plant, follow):
    monkeypatch.chdir(tmp_path)
    plant(tmp_path / "planted")
    for mode in ("rb", "r+b", "ab"):
        with pytest.raises(OSError):
            open_file(tmp_path / "planted", LIMIT, mode, follow=follow)


def test_a_link_is_followed_only_where_the_user_named_the_file(tmp_path):
    (tmp_path / "kept").write_bytes(b"words")
    (tmp_path / "link").symlink_to("kept")
    assert read_file(tmp_path / "link", LIMIT, follow=True) == b"words"
    with pytest.raises(OSError, match="it is a link"):
        read_file(tmp_path / "link", LIMIT)
    assert read_file(tmp_path / "kept", LIMIT) == b"words"


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_a_file_is_read_up_to_its_limit(tmp_path, size):
    (tmp_path / "file").write_bytes(b"x" * size)
    if size == LIMIT:
        assert len(read_file(tmp_path / "file", LIMIT)) == size
        return
    for read in (read_file, lambda *given: list(read_lines(*given))):
        with pytest.raises(OSError, match="larger than 0 KiB"):
            read(tmp_path / "file", LIMIT)


def test_a_file_larger_than_its_stated_size_is_read_up_to_the_limit():
    """The kernel says that files of /proc have no bytes."""
    from pathlib import Path

    with pytest.raises(OSError, match="larger"):
        read_file(Path("/proc/self/environ"), 1)


def test_a_line_longer_than_the_limit_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"one\n" + b"x" * (17 << 20))
    lines = read_lines(tmp_path / "file", 1 << 30)
    assert next(lines) == b"one"
    with pytest.raises(OSError, match="a line of the file is longer than 16 MiB"):
        next(lines)


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000, "a\0b", "\udc80", ""])
def test_an_invalid_file_name_counts_as_not_existing(tmp_path, name):
    assert not is_file(name) and not is_directory(name)
    with pytest.raises(OSError):
        open_file(tmp_path / name, LIMIT)


def test_writing_replaces_a_planted_link_and_keeps_its_target(tmp_path):
    for planted in ("summary.json", ".summary.json.tmp"):
        (tmp_path / f"victim of {planted}").write_bytes(b"precious")
        (tmp_path / planted).symlink_to(f"victim of {planted}")
    replace_file(tmp_path / "summary.json", b"new")
    assert (tmp_path / "summary.json").read_bytes() == b"new"
    assert not (tmp_path / "summary.json").is_symlink()
    for planted in ("summary.json", ".summary.json.tmp"):
        assert (tmp_path / f"victim of {planted}").read_bytes() == b"precious"


def test_a_failed_write_leaves_no_temporary_file(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError):
        replace_file(tmp_path / "report.html", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def nested(depth, opening="[", closing="]"):
    return opening * depth + "1" * (opening != "[") + closing * depth


@pytest.mark.parametrize("shape", [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 900, 100_000, 3_000_000])
def test_json_nested_deeper_than_the_limit_is_refused(depth, shape):
    if depth <= MAX_DEPTH:
        assert parse_json(nested(depth, *shape)) is not None
        return
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        parse_json(nested(depth, *shape))


def test_brackets_in_strings_and_side_by_side_do_not_count_as_nesting():
    text = "[" * 500
    assert parse_json(f'{{"a": "{text}", "b": [{"[]," * 500} []]}}')["a"] == text


@pytest.mark.parametrize(
    "text", ["NaN", "[-Infinity]", "", "{", "\ufeff{}", "1" * (sys.get_int_max_str_digits() + 1)]
)
def test_invalid_json_raises_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)
    with pytest.raises(ValueError):
        parse_json(text.encode() + b"\xff")
