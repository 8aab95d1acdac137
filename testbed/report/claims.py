"""What papers claim of the recovery that an experiment repeats.

A claim is registered under the entry-point group `testbed.claims`. Its name there is the first word
of the names of the experiments that repeat it; packages register the claims of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from testbed.plugins import registered


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper claims of a recovery, in seconds, and what its clock stops at, in words."""

    seconds: float
    text: str


LUMION = Claim(
    1.0,
    "LUMION (arXiv 2505.23105) claims that a failed accelerator is swapped and the job "
    "restarted within about 1 s; its clock stops at the relaunch. Ours stops later: when "
    "the last rank has finished the first verified step (t10).",
)


def claim_of(experiment: str) -> Claim | None:
    """Return the paper's claim about the recovery that an experiment repeats."""
    return registered("claims", Claim).get(re.split(r"[-_]", experiment)[0])
