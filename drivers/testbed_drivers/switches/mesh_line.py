"""The one line of a photonic mesh, for both ends of the wire.

A Python list of pairs of cell and gate, such as `[(0, '='), (1, 'x')]`; it is read with a grammar,
never evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from testbed.fabric.mesh import Gate

_PAIR = r"\(\s*(\d+)\s*,\s*['\"]([=x])['\"]\s*,?\s*\)"
_LIST = re.compile(rf"\s*\[\s*(?:{_PAIR}\s*(?:,\s*{_PAIR}\s*)*,?)?\s*\]\s*")


def written(gates: Mapping[int, Gate]) -> str:
    """Return the line, without its end, that sets some cells."""
    return f"[{', '.join(f'({cell}, {gate.value!r})' for cell, gate in sorted(gates.items()))}]"


def read(line: str) -> dict[int, Gate]:
    """Return the cells that a line sets; ValueError for what is no such list."""
    if not _LIST.fullmatch(line):
        raise ValueError("not a list of cells with '=' or 'x'")
    rows = [(int(cell), Gate(gate)) for cell, gate in re.findall(_PAIR, line)]
    gates = dict(rows)
    if len(gates) != len(rows):
        raise ValueError("a cell is listed twice")
    return gates
