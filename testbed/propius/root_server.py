"""The root parameter server: the parameters and the sum of the present round of each job."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

import numpy as np

from testbed.propius import data_pb2 as messages
from testbed.propius.counting import Tally, code
from testbed.propius.pieces import LARGEST
from testbed.tenancy import root as rules
from testbed.tenancy.aggregation import MISS, Answer, Flush, Sum, refused
from testbed.tenancy.root import Root
from testbed.tenancy.tensors import Refusal, Refused, decode, elements, model_of, size


class RootServer:
    """Keeps one round of each job in memory; a root that starts again knows nothing of any."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._roots: dict[str, Root] = {}
        self.tally = Tally()

    def put(self, asked: messages.Parameters) -> messages.Code:
        """Begin a round of a job; its first round says what tensors the model has."""
        try:
            model = model_of(asked.data)
            decode(asked.data, model)
        except Refused as error:
            return self._told(refused(error.reason), len(asked.data))
        if elements(model) * 8 > LARGEST:  # its sums could not be sent
            return self._told(refused(Refusal.TOO_LARGE), len(asked.data))
        with self._lock:
            self._forget()
            root = self._roots.get(asked.job, Root(model))
            if root.model != model:
                return self._told(refused(Refusal.WRONG_TENSORS), len(asked.data))
            answer, root = rules.put(root, asked.round, asked.demand, asked.data, self._clock())
            self._roots[asked.job] = root
        return self._told(answer, len(asked.data))

    def put_announced(self, asked: messages.Parameters) -> messages.Code | None:
        """Answer the first piece of parameters that are larger than their model; None: read on."""
        with self._lock:
            self._forget()
            root = self._roots.get(asked.job)
        try:
            model = model_of(asked.data) if root is None else root.model
        except Refused as error:  # a header fits into a piece, or it is none
            return self._told(refused(error.reason), len(asked.data))
        return self._unless_too_large(asked.size, size(model), len(asked.data))

    def get(self, asked: messages.Round) -> messages.Parameters:
        """Return the parameters of a round to a leaf, and whom the sum has already."""
        with self._lock:
            root = self._roots.get(asked.job)
            answer, data = (
                (MISS, None) if root is None else rules.get(root, asked.round, self._clock())
            )
        self.tally.add(answer, sent=len(data or b""))
        if root is None or data is None:
            return messages.Parameters(code=int(answer.code), job=asked.job, round=asked.round)
        return messages.Parameters(
            code=int(answer.code),
            job=asked.job,
            round=root.round,
            demand=root.demand,
            data=data,
            counted=sorted(root.total.clients) if root.total else [],
        )

    def add(self, asked: messages.LeafSum) -> messages.Code:
        """Add what a leaf has summed."""
        if len(asked.values) % 8 or len({*asked.clients}) != len(asked.clients):
            return self._told(refused(Refusal.MALFORMED), len(asked.values))
        values = np.frombuffer(asked.values, "<f8").astype(np.float64)
        total = Sum(values, asked.weight, frozenset(asked.clients))
        flush = Flush(asked.leaf, asked.sequence, asked.round, total)
        with self._lock:
            root = self._roots.get(asked.job)
            if root is None:
                return self._told(MISS, len(asked.values))
            answer, self._roots[asked.job] = rules.add(root, flush, self._clock())
        return self._told(answer, len(asked.values))

    def add_announced(self, asked: messages.LeafSum) -> messages.Code | None:
        """Answer the first piece of a sum larger than its job's model, or of no job; else None."""
        root = self._roots.get(asked.job)
        if root is None:
            return self._told(MISS, len(asked.values))
        return self._unless_too_large(asked.size, elements(root.model) * 8, len(asked.values))

    def result(self, asked: messages.Round) -> messages.RoundSum:
        """Return the sum of a round to its job, once it is complete."""
        with self._lock:
            root = self._roots.get(asked.job)
            answer, total = (
                (MISS, None) if root is None else rules.result(root, asked.round, self._clock())
            )
        values = b"" if total is None else total.values.astype("<f8").tobytes()
        self.tally.add(answer, sent=len(values))
        if total is None:
            return messages.RoundSum(code=int(answer.code))
        return messages.RoundSum(
            code=int(answer.code),
            weight=total.weight,
            clients=sorted(total.clients),
            values=values,
        )

    def close(self, asked: messages.Round) -> messages.Code:
        """End a round with the updates that came."""
        with self._lock:
            root = self._roots.get(asked.job)
            if root is None:
                return self._told(MISS)
            answer, self._roots[asked.job] = rules.close(root, asked.round)
        return self._told(answer)

    def count(self, asked: messages.Empty) -> messages.Counts:
        """Return the counts of answers and bytes."""
        return self.tally.message()

    def _forget(self) -> None:
        """Free the memory, and the names, of jobs that began no round for long."""
        now = self._clock()
        for job in [name for name, root in self._roots.items() if rules.is_forgotten(root, now)]:
            del self._roots[job]

    def _unless_too_large(self, has: int, most: int, received: int) -> messages.Code | None:
        return None if has <= most else self._told(refused(Refusal.TOO_LARGE), received)

    def _told(self, answer: Answer, received: int = 0) -> messages.Code:
        self.tally.add(answer, received=received)
        return code(answer)
