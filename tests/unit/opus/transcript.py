"""What was recorded between the authors' own controller, shims and rail workers.

DP 2 x PP 2 x TP 2 in two iterations, from commit 53f8d514 of github.com/opusfabric/Opus. Rank r
is on node r / 2 and rail r % 2. `{A0}` stands for A0 and 62 zeros; `>` is to the controller.
"""

import re
from dataclasses import dataclass
from pathlib import Path

TEXT = Path(__file__).parent / "data" / "transcript.txt"
NODES = [f"127.0.1.{node}" for node in range(1, 5)]
HOST_AT = {address: host for host, address in enumerate(NODES)}
RANKS, RAILS = 8, 2


@dataclass(frozen=True)
class Exchange:
    """Who sends, or gets, the same line one after the other."""

    who: tuple[str, ...]
    to_controller: bool
    line: bytes


def address_of(rank):
    return NODES[rank // 2]


def transactions():
    """Yield the exchanges of each line of the transcript."""
    for row in TEXT.read_text().splitlines():
        if row and not row.startswith("#"):
            found = re.findall(r'([a-z0-9,]+) ([<>]) "([^"]*)\\n"', row)
            yield [
                Exchange(tuple(who.split(",")), way == ">", _line(text)) for who, way, text in found
            ]


def _line(text):
    whole = re.sub(r"\{(\w+)\}", lambda found: found[1] + "0" * 62, text)
    return whole.encode() + b"\n"
