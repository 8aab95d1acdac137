"""Read files that other users may have written, without blocking and within size limits.

A directory of records, a lab file or a card may come from any user, and may hold a FIFO, a link to
another file, /dev/zero, or JSON a million levels deep. Every reader of such files uses this module:
only regular files are read, none beyond its limit; inside directories of records no link is
followed, and a file there is written under a new name and renamed.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Any, BinaryIO, Literal

MAX_DEPTH = 64
"""Levels of JSON; experiment files have at most half as many."""

_LINE = 16 << 20
"""Bytes of one line."""
_BLOCK = 1 << 20
"""Bytes that are read at once of what is taken line by line."""

_MODES = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "ab": os.O_WRONLY | os.O_APPEND}


def open_file(
    path: Path, limit: int, mode: Literal["rb", "r+b", "ab"] = "rb", *, follow: bool = False
) -> BinaryIO:
    """Open an existing regular file; raise OSError for anything else, and never block.

    Unless `follow` is set, the last part of its path must not be a link.
    """
    try:
        _check(path.stat(follow_symlinks=follow), limit)  # opening alone makes some devices act
        flags = _MODES[mode] | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(path, flags | (0 if follow else os.O_NOFOLLOW))
    except ValueError:  # a NUL in its name
        raise OSError(errno.EINVAL, "a file cannot have this name") from None
    try:
        _check(os.fstat(descriptor), limit)
        return os.fdopen(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


def is_file(path: str | Path) -> bool:
    """Return whether a path is an existing file; false for an invalid file name."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file() raises for one that is too long


def is_directory(path: str | Path) -> bool:
    """Return whether a path is an existing directory; false for an invalid name."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: str | Path) -> bool:
    """Return whether a path exists, even as a dangling link; false for an invalid name."""
    return os.path.lexists(path)


def read_file(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """Return the contents of a regular file; raise OSError for another kind or a larger file."""
    with open_file(path, limit, follow=follow) as file:
        found = file.read(limit + 1)
    if len(found) > limit:  # it grew
        raise _too_large(limit)
    return found


def read_lines(path: Path, limit: int, *, follow: bool = False) -> Iterator[bytes]:
    """Yield the lines of a regular file without line ends; raise OSError as `read_file`."""
    with open_file(path, limit, follow=follow) as file:
        rest = b""
        while block := file.read(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            if max(len(rest), len(lines[0]) if lines else 0) >= _LINE:  # others are in the block
                raise OSError(errno.EFBIG, f"a line of the file is longer than {_LINE >> 20} MiB")
            yield from lines
        if rest:
            yield rest


def replace_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write a file atomically and sync it; a link with its name is replaced, not followed.

    The directory is opened once, so a concurrent rename of it has no effect on where the file is
    written.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        draft = f".{path.name}.{os.urandom(4).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o666, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines([data] if isinstance(data, bytes) else data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise
        with suppress(OSError):  # not every file system can
            os.fsync(folder)
    finally:
        os.close(folder)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text; raise ValueError for invalid JSON, also if nested too deeply.

    NaN and infinities are invalid, too.
    """
    try:
        text = text if isinstance(text, str) else text.decode()
        value = _decoded(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        check_depth(value)
    return value


_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"


def check_depth(value: Any) -> None:
    """Raise ValueError for a value that is nested too deeply."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [held for one in level for held in _held(one)]
    if any(isinstance(one, (dict, list)) for one in level):
        raise ValueError(_TOO_DEEP)


def _held(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _decoded(text: str) -> Any:
    try:  # a log has a million values with nothing around them
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    except json.JSONDecodeError:
        pass
    return _DECODER.decode(text)


def _check(found: os.stat_result, limit: int) -> None:
    if S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "it is a link, and links are not followed there")
    if not S_ISREG(found.st_mode):
        is_directory = S_ISDIR(found.st_mode)
        raise OSError(errno.EINVAL, "it is not a regular file" + " but a directory" * is_directory)
    if found.st_size > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> OSError:
    size = f"{limit >> 20} MiB" if limit >> 20 else f"{limit >> 10} KiB"
    return OSError(errno.EFBIG, f"it is larger than {size}")
