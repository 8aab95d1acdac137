"""Carry out a schedule on the buffers of all ranks, in memory: what a run of it must come to."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from testbed.collectives.schedule import Schedule
from testbed.onhost.communication.communicator import chunk_bounds

Reduction = Literal["sum", "mean", "max"]
Buffers = npt.NDArray[Any]
"""One row for each rank."""


def execute(schedule: Schedule, buffers: Buffers, reduction: Reduction = "sum") -> Buffers:
    """Return what the ranks have after a schedule; chunks that they do not end with are anything.

    A mean is the sum divided by the number of ranks in the end, on every rank, so that all have the
    same bits; of 16-bit floats, whose sum soon overflows, it is worked out in float32 and rounded.
    Raise ValueError for another reduction, and for a mean of what is no float.
    """
    if reduction not in get_args(Reduction):
        raise ValueError(f"{reduction!r} is none of {', '.join(get_args(Reduction))}")
    if buffers.ndim != 2 or len(buffers) != schedule.ranks:
        raise ValueError(
            f"buffers of the shape {buffers.shape} for a schedule of {schedule.ranks} ranks"
        )
    if reduction == "mean":
        return _mean(schedule, buffers)
    combine = np.maximum if reduction == "max" else np.add
    bounds = chunk_bounds(buffers.shape[1], schedule.chunks)
    result = buffers.copy()
    for step in schedule.rounds:
        messages = []
        for send in step:
            part = slice(bounds[send.chunk][0], bounds[send.chunk + send.count - 1][1])
            messages.append((send, part, result[send.source, part].copy()))
        for send, part, message in messages:
            own = result[send.destination, part]
            own[...] = combine(own, message) if send.operation == "reduce" else message
    return result


def _mean(schedule: Schedule, buffers: Buffers) -> Buffers:
    kind = buffers.dtype
    if not (np.issubdtype(kind, np.inexact) or kind.name in _OTHER_FLOATS):
        raise ValueError(f"a mean of {kind} is no {kind}; take float32")
    wide = buffers.astype(np.float32) if kind.itemsize < 4 else buffers
    total = execute(schedule, wide)
    return (total / wide.dtype.type(schedule.ranks)).astype(kind)


_OTHER_FLOATS = ("bfloat16",)
"""Floats that NumPy knows from other libraries, and not as floats."""
