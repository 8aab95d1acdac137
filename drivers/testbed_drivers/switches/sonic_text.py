"""Parse and format the text of SONiC's command line for optical circuit switches.

Tables follow its high-level design (sonic-net/SONiC, OCS HLD, section 9.2): a line of column names,
a line of dashes, one line a row, columns of words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Circuit = tuple[int, int]
"""Numbers of an A-side and of a B-side port."""

_CIRCUIT_COLUMNS = ("id", "a_side", "b_side")
_STATUS_COLUMNS = (*_CIRCUIT_COLUMNS, "a_side_status", "b_side_status")

_ID = re.compile(r"(\d+)A-(\d+)B")
_PORT = re.compile(r"(\d+)([AB])")


def circuit_id(circuit: Circuit) -> str:
    """Return the name of a circuit, such as `29A-1B`."""
    return "{}A-{}B".format(*circuit)


def circuit(name: str) -> Circuit:
    """Parse the name of a circuit; raise ValueError if it is none."""
    match = _ID.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a circuit from an A-side to a B-side port")
    return int(match[1]), int(match[2])


def configured_circuits(text: str) -> list[Circuit]:
    """Parse the circuits in the output of `show ocs cross-connect config`."""
    return [_circuit_of(row) for row in _rows(text, _CIRCUIT_COLUMNS)]


def circuit_statuses(text: str) -> dict[Circuit, tuple[str, str]]:
    """Parse A-side and B-side status of circuits in `show ocs cross-connect status`."""
    return {_circuit_of(row): (row[3], row[4]) for row in _rows(text, _STATUS_COLUMNS)}


def port_counts(text: str) -> tuple[int, int]:
    """Return the number of A-side and B-side ports in the output of `show ocs port config`."""
    sides: dict[str, set[int]] = {"A": set(), "B": set()}
    for line in text.splitlines():
        word = line.split()[0] if line.split() else ""
        if match := _PORT.fullmatch(word):
            sides[match[2]].add(int(match[1]))
    if not all(numbers == set(range(1, len(numbers) + 1)) for numbers in sides.values()):
        raise ValueError("its ports are not numbered from 1 on each side")
    if not all(sides.values()):
        raise ValueError("it lists ports on one side only")
    return len(sides["A"]), len(sides["B"])


def facts(text: str) -> dict[str, str]:
    """Parse the lines `name: value` of `show version`."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _rows(text: str, columns: Sequence[str]) -> list[list[str]]:
    """Return the rows of a table; ValueError for a line that is none.

    Where nothing is printed there are no rows.

    What stands before the column names was written by others: warnings of Python and of sudo.
    """
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    if list(columns) not in lines:
        raise ValueError(f"{text[:80]!r} is not a table with the columns {', '.join(columns)}")
    below = lines[lines.index(list(columns)) + 1 :]
    rows = [line for line in below if set("".join(line)) != {"-"}]
    if wrong := [row for row in rows if len(row) != len(columns)]:
        raise ValueError(
            f"{' '.join(wrong[0])!r} is not a row with the columns {', '.join(columns)}"
        )
    return rows


def _circuit_of(row: Sequence[str]) -> Circuit:
    """Return the circuit of a row, which says it twice."""
    if row[0] != f"{row[1]}-{row[2]}":
        raise ValueError(f"{' '.join(row)!r} has columns that contradict each other")
    return circuit(row[0])
