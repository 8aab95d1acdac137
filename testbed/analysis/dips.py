"""How much work is lost in the dip of a recovery, or in the steps that rode a fault out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from testbed.analysis.marks import Marks
from testbed.analysis.steps import Step, kind_of_interval, step_time, usual_intervals


def dip(steps: Sequence[Step], marks: Marks) -> dict[str, float]:
    """Return how deep the dip was: seconds of work lost in it, and the rate after it.

    The area is taken under the staircase of finished steps, from t0 to t11: the time that passed
    less the time that the steps finished in it would have taken undisturbed.
    """
    zero, back = marks.at.get("t0"), marks.at.get("t11")
    if zero is None or back is None:
        return {}
    usual = usual_intervals([step for step in steps if step.end.late < zero.early])
    done = [
        usual.get(kind_of_interval(one, other))
        for one, other in pairwise(steps)
        if zero.early < other.end.middle <= back.middle
    ]
    work = [seconds for seconds in done if seconds is not None]
    if not usual or len(work) < len(done):
        return {}
    after = [step for step in steps if step.end.middle >= back.middle]
    plateau = _plateau(usual, after)
    return {"dip": back.middle - zero.early - sum(work)} | plateau


def _plateau(usual: Mapping[str, float], after: Sequence[Step]) -> dict[str, float]:
    """Return the rate of some steps over the usual one; nothing where they are not all alike."""
    kinds = {kind_of_interval(one, other) for one, other in pairwise(after)}
    now = step_time(after)
    if len(kinds) != 1 or now is None or not kinds <= usual.keys():
        return {}
    return {"plateau": usual[kinds.pop()] / now}


def ridden_dip(steps: Sequence[Step], marks: Marks) -> dict[str, float]:
    """Return the work lost in the steps that a fault could have touched, and did not stop."""
    zero = marks.at["t0"].early
    usual = usual_intervals([step for step in steps if step.end.late < zero])
    watched = set(marks.watched)
    pairs = [(one, other) for one, other in pairwise(steps) if other in watched]
    took = sum(other.end.middle - one.end.middle for one, other in pairs)
    normal = [usual.get(kind_of_interval(one, other)) for one, other in pairs]
    known = [seconds for seconds in normal if seconds is not None]
    return {"dip": took - sum(known)} if pairs and len(known) == len(pairs) else {}
