"""Carry out a schedule on the buffers of all ranks, in memory: what a run of it must come to."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from testbed.collectives.schedule import Schedule, chunk_bounds

Reduction = Literal["sum", "mean", "max"]
Buffers = npt.NDArray[Any]
"""One row for each rank."""


def execute(schedule: Schedule, buffers: Buffers, reduction: Reduction = "sum") -> Buffers:
    """Return what the ranks have after a schedule; chunks that they do not end with are anything.

    A mean is the sum divided by the number of ranks in the end, on every rank, so that all have the
    same bits; raise ValueError for a mean of whole numbers.
    """
    if reduction == "mean" and not np.issubdtype(buffers.dtype, np.inexact):
        raise ValueError(f"a mean of {buffers.dtype} is no {buffers.dtype}; take float32")
    if len(buffers) != schedule.ranks:
        raise ValueError(f"{len(buffers)} buffers for a schedule of {schedule.ranks} ranks")
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
    return result / buffers.dtype.type(schedule.ranks) if reduction == "mean" else result
