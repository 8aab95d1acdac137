"""Every AllReduce by name, and what is known of it before its schedule is made.

Files, jobs, metrics and reports ask for these properties. `catalogue` makes the schedules, for
which it imports NumPy; nothing here does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

Algorithm = Literal["ring", "rhd", "fold", "direct", "stragglar"]
Library = Literal["gloo", "nccl"]
"""What torch.distributed can be told to carry bytes with; each has an AllReduce of its own."""

LIBRARIES: tuple[Library, ...] = get_args(Library)

REFERENCE: Final[Literal["ring"]] = "ring"
"""The algorithm that metrics of comparison, as `speedup` and `critical_delay`, divide by."""
COMPARED: Final[Literal["stragglar"]] = "stragglar"
"""The algorithm that these metrics are about."""


@dataclass(frozen=True, slots=True)
class AlgorithmProperties:
    """State what must be known of an AllReduce to check options and to name metrics."""

    generator: str
    """The function that makes its schedule, as `module:function`, of the number of ranks, and of
    the rank that comes late where it `expects_straggler`."""
    least: int = 2
    """The fewest ranks that a job may have with it."""
    pairs_ranks: bool = False
    """It serves even numbers of ranks only."""
    expects_straggler: bool = False
    """It is made for one rank that comes last; the others begin without it."""
    is_built_in: bool = False
    """The ranks do it without a schedule, and each is connected to its neighbours only."""
    is_candidate: bool = True
    """It is among those that the cost model chooses from; another is never slower if not."""


ALL_REDUCES: Mapping[str, AlgorithmProperties] = {
    "ring": AlgorithmProperties("testbed.collectives.rings:ring", least=1, is_built_in=True),
    "rhd": AlgorithmProperties("testbed.collectives.halving:halving_doubling"),
    "fold": AlgorithmProperties(
        "testbed.collectives.halving:folded_halving_doubling", is_candidate=False
    ),
    "direct": AlgorithmProperties("testbed.collectives.stragglar:direct", expects_straggler=True),
    "stragglar": AlgorithmProperties(
        "testbed.collectives.stragglar:stragglar", pairs_ranks=True, expects_straggler=True
    ),
}
"""The properties of every `Algorithm`, in the order in which metrics and reports name them."""

UNKNOWN: Final = AlgorithmProperties("")
"""The properties of what is no algorithm of ours: a library's own, or a choice left open."""
