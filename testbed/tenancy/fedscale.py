"""Read client traces in the format of FedScale: two mappings by client, as JSON or pickle.

    {1: {"computation": 162.0, "communication": 5648.1}, ...}                        capacity
    {1: {"active": [0, 90], "inactive": [50, 120], "finish_time": 518400, ...}, ...}  availability

`computation` is in ms a sample, `communication` in kbit/s; a client is available from each instant
of `active` to the one of `inactive` at the same place, in seconds, and all repeats every
`finish_time` (github.com/SymbioticLab/FedScale, "Device Trace File Formats").

What comes with FedScale is pickled. Unpickling runs what a file says; here its opcodes are read,
those that make plain data are followed, and any other is an error.
"""

from __future__ import annotations

import json
import pickletools
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from testbed.tenancy.attributes import Attributes
from testbed.tenancy.traces import ClientTrace, Trace

MOST_REPEATS = 1000
"""How often the availability of a client may repeat within the period of the trace."""


def read(
    capacity: bytes,
    availability: bytes,
    attributes: Callable[[str], Attributes] = lambda client: {},
    samples: Callable[[str], int] = lambda client: 1,
) -> Trace:
    """Return the clients that are in both mappings, sorted by name.

    FedScale knows neither attributes nor data sizes; the callables give them. The period is the
    longest `finish_time`; clients with a shorter one repeat within it. One mapping may have the
    fields of both, and be given twice. Raise ValueError for what is not of the form, Misshapen
    where it is known which entry is not.
    """
    speeds, spans = plain_data(capacity), plain_data(availability)
    for which, data in enumerate((speeds, spans)):
        if not isinstance(data, Mapping):
            raise Misshapen("a FedScale trace is a mapping by client", which, ())
    named = {str(key): value for key, value in spans.items()}
    rows = {str(key): value for key, value in speeds.items() if str(key) in named}
    period = max((_finish(name, named[name]) for name in rows), default=0)
    order = sorted(rows, key=lambda name: (len(name), name))
    return Trace(
        period,
        tuple(
            ClientTrace(
                name,
                _intervals(name, named[name], period),
                _positive(name, rows[name], "computation"),
                _positive(name, rows[name], "communication"),
                samples(name),
                attributes(name),
            )
            for name in order
        ),
    )


class Misshapen(ValueError):
    """An entry of a trace is not of the form of FedScale."""

    def __init__(self, message: str, which: int, path: Sequence[str]) -> None:
        super().__init__(message)
        self.which = which
        """0 where it is in the mapping of capacity, 1 where in that of availability."""
        self.path = tuple(path)
        """The keys that lead to it; what is missing has none of its own."""


def _finish(name: str, row: Any) -> int:
    return round(_positive(name, row, "finish_time", 1) * 1000)


def _positive(name: str, row: Any, key: str, which: int = 0) -> float:
    value = row.get(key) if isinstance(row, Mapping) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
        return float(value)
    path = (name, key) if isinstance(row, Mapping) and key in row else (name,)
    raise Misshapen(f"{key} of {name} is {value!r}, and must be a positive number", which, path)


def _intervals(name: str, row: Mapping[str, Any], period: int) -> tuple[tuple[int, int], ...]:
    """Return when a client is available in the period, in ms; what touches is one interval."""
    starts, ends = row.get("active", ()), row.get("inactive", ())
    at = (name, "active") if "active" in row else (name,)
    try:
        pairs = [
            (round(a * 1000), round(b * 1000)) for a, b in zip(starts, ends, strict=True) if b > a
        ]
    except (TypeError, ValueError, OverflowError) as error:
        said = f"active and inactive of {name} do not form pairs of instants"
        raise Misshapen(said, 1, at) from error
    if any(later[0] < earlier[1] for earlier, later in pairwise(pairs)):
        raise Misshapen(f"the availability of {name} is not in order", 1, at)
    own = _finish(name, row)
    if own * MOST_REPEATS < period:
        said = f"finish_time of {name} is less than a {MOST_REPEATS}th of the longest"
        raise Misshapen(said, 1, (name, "finish_time"))
    spans: list[tuple[int, int]] = []
    for shift in range(0, period, own):
        for start, end in pairs:
            first = max(shift + start, 0)
            last = min(shift + end, shift + own, period)
            if spans and spans[-1][1] == first:
                spans[-1] = spans[-1][0], last
            elif first < last:
                spans.append((first, last))
    return tuple(spans)


def plain_data(data: bytes) -> Any:
    """Return plain data from JSON or a pickle; raise ValueError for anything else."""
    if data[:1] == b"\x80" or data[:2] in (b"(d", b"}q"):
        return _Pickle().read(data)
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested deeper than a FedScale trace") from error


_MARK = object()


class _Pickle:
    """A machine for the opcodes of plain data; every other one is refused."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def read(self, data: bytes) -> Any:
        """Return the plain data in a pickle; no code of it is imported or called."""
        try:
            with warnings.catch_warnings():
                # A text of old pickles with an escape that Python has not: refused, not guessed at.
                warnings.simplefilter("error", DeprecationWarning)
                for opcode, argument, _ in pickletools.genops(data):
                    self._do(opcode.name, argument)
            (result,) = self._stack
        except (IndexError, KeyError, TypeError, AttributeError, DeprecationWarning) as error:
            raise ValueError(f"this is not a pickle of plain data: {error}") from error
        return result

    def _do(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _MAKERS:
            self._stack.append(_MAKERS[name]())
        elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            place = len(self._memo) if name == "MEMOIZE" else int(argument)
            self._memo[place] = self._stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[int(argument)])
        elif name in ("SETITEM", "SETITEMS", "APPEND", "APPENDS", "DICT", "LIST"):
            self._fill(name)
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise ValueError(f"a pickle of plain data has no opcode {name}; it was not executed")

    def _fill(self, name: str) -> None:
        """Put what lies on the stack into the container below it."""
        single = {"SETITEM": 2, "APPEND": 1}.get(name)
        at = len(self._stack) - single if single else _last(self._stack) + 1
        items = self._stack[at:]
        del self._stack[at if single else at - 1 :]
        if name in ("DICT", "LIST"):
            self._stack.append({} if name == "DICT" else [])
        target = self._stack[-1]
        if isinstance(target, dict):
            target.update(zip(items[::2], items[1::2], strict=True))
        else:
            target.extend(items)


def _last(stack: list[Any]) -> int:
    """Return where the topmost mark is."""
    return max(at for at, value in enumerate(stack) if value is _MARK)


_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "SHORT_BINSTRING"),
    "BINSTRING",
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": _MARK}
_MAKERS: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list}
