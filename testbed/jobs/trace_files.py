"""Client traces in files of FedScale's form; each mistake is said with file, line and column."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import FileError, UsageError
from testbed.tenancy.fedscale import Misshapen, read
from testbed.tenancy.json_places import place_of
from testbed.tenancy.traces import RANGES, Trace

BEST = {name: float(most) for name, (_, most) in RANGES.items()}
"""The attributes of clients of a file: FedScale has none, so all constraints are met."""


def read_trace(paths: Sequence[str]) -> Trace:
    """Return the trace of one file with both mappings, or of one of capacity, one of availability.

    Raise UsageError for what cannot be read, FileError with the place of what is not of the form; a
    pickle has no lines.
    """
    if not 1 <= len(paths) <= 2:
        raise UsageError(
            f"a trace is one file, or one of capacity and one of availability, not {len(paths)}",
            hint="name one or two",
        )
    contents = [_bytes(path) for path in paths]
    for path, data in zip(paths, contents, strict=True):
        _check_json(path, data)
    try:
        trace = read(contents[0], contents[-1], lambda client: BEST)
    except Misshapen as error:
        which = min(error.which, len(paths) - 1)
        raise FileError(_place(paths[which], contents[which], error.path), str(error)) from None
    except ValueError as error:
        raise FileError(" and ".join(paths), f"it is no trace of FedScale: {error}") from None
    if not trace.clients:
        raise FileError(
            " and ".join(paths), "no client is in both mappings", hint="are they of one trace?"
        )
    return trace


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"the trace {path} cannot be read: {error.strerror or error}", hint="check its name"
        ) from error


def _is_pickle(data: bytes) -> bool:
    return data[:1] == b"\x80" or data[:2] in (b"(d", b"}q")


def _check_json(path: str, data: bytes) -> None:
    """Raise FileError for what is no JSON, unless it is a pickle."""
    if _is_pickle(data):
        return
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        raise FileError(
            f"{path}:{error.lineno}:{error.colno}",
            f"this is no JSON: {error.msg}",
            hint="a trace of FedScale is JSON or a pickle of plain data",
        ) from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}:1:1", f"this is no JSON: {error}") from None


def _place(path: str, data: bytes, keys: Sequence[str]) -> str:
    if _is_pickle(data):
        return path
    line, column = place_of(data.decode(json.detect_encoding(data)), keys)
    return f"{path}:{line}:{column}"
