"""The side of a job: rounds of federated averaging over the control plane and the data plane.

FedAvg: McMahan et al., AISTATS 2017.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.propius import control_pb2 as control
from testbed.propius import data_pb2 as data
from testbed.propius.calls import Calls
from testbed.tenancy.aggregation import Code
from testbed.tenancy.attributes import Attributes
from testbed.tenancy.replies import Reply
from testbed.tenancy.tensors import Model, Values, encode

_LOOK_EVERY = 0.02
"""Seconds from one question for a sum to the next."""


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one round."""

    number: int
    clients: frozenset[str]
    """Those whose updates are in the mean."""
    parameters: Values
    """The mean, or the parameters before it if no update came."""


class FederatedJob:
    """A job that asks for clients, gives them parameters and takes the mean of their updates."""

    def __init__(self, name: str, model: Model, jobs: Calls, root: Calls) -> None:
        self.name = name
        self._model = model
        self._jobs = jobs
        self._root = root

    def register(self, rounds: int, demand: int, public: Attributes, private: Attributes) -> None:
        """Register the job; raise LabError if it is refused."""
        asked = control.Registration(
            job=self.name,
            public_constraints=dict(public),
            private_constraints=dict(private),
            rounds=rounds,
            demand=demand,
        )
        self._expect("Register", asked)

    def run_round(
        self, number: int, before: Values, demand: int, needed: int, seconds: float
    ) -> Round:
        """Ask for `demand` clients and return the mean of the first `needed` updates.

        After `seconds` the round ends with the updates that came.
        """
        parameters = encode(_split(before, self._model), self._model)
        put = data.Parameters(job=self.name, round=number, demand=needed, data=parameters)
        if (told := self._root("Put", put)).code != Code.OK:
            raise LabError(f"round {number} of {self.name} was refused by the root: {told.reason}")
        self._expect("Request", control.RoundRequest(job=self.name, round=number, demand=demand))
        found = self._result(number, Deadline.after(seconds))
        self._expect("EndRequest", control.JobRound(job=self.name, round=number))
        if not found.clients:
            return Round(number, frozenset(), before)
        mean = np.frombuffer(found.values, "<f8") / found.weight
        return Round(number, frozenset(found.clients), mean)

    def finish(self) -> None:
        """End the job."""
        self._expect("Finish", control.JobName(job=self.name))

    def _result(self, number: int, deadline: Deadline) -> data.RoundSum:
        """Return the sum of a round, which is closed when its time is over."""
        asked = data.Round(job=self.name, round=number)
        while True:
            found: data.RoundSum = self._root("Result", asked)
            if found.code == Code.OK:
                return found
            if found.code != Code.PENDING:
                raise LabError(
                    f"the root has no round {number} of {self.name} any more (code {found.code})",
                    hint="it was started again: begin the round anew with the next number",
                )
            if deadline.passed:
                self._root("Close", asked)
            else:
                self._jobs("Hear", control.JobName(job=self.name))
            time.sleep(_LOOK_EVERY)

    def _expect(self, method: str, asked: object) -> None:
        if (reply := self._jobs(method, asked).reply) != Reply.OK:
            raise LabError(f"{method} of the job {self.name} was answered with {reply!r}")


def _split(values: Values, model: Model) -> Sequence[Values]:
    ends = np.cumsum([tensor.elements for tensor in model])
    parts = np.split(values, ends[:-1])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, model, strict=True)]
