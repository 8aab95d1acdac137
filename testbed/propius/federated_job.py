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
        self._registration = control.Registration(job=name)
        self.registered_again = 0
        """How often its record was lost in the middle of a round."""

    def register(self, rounds: int, demand: int, public: Attributes, private: Attributes) -> None:
        """Register the job; raise LabError if it is refused.

        Where its record is lost later, it registers again by itself, with the rounds behind it.
        """
        self._registration = control.Registration(
            job=self.name,
            public_constraints=dict(public),
            private_constraints=dict(private),
            rounds=rounds,
            demand=demand,
        )
        self._expect("Register", self._registration)

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
        request = control.RoundRequest(job=self.name, round=number, demand=demand)
        self._say("Request", request, request)
        found = self._result(request, Deadline.after(seconds))
        self._say("EndRequest", control.JobRound(job=self.name, round=number), request)
        if not found.clients:
            return Round(number, frozenset(), before)
        mean = np.frombuffer(found.values, "<f8") / found.weight
        return Round(number, frozenset(found.clients), mean)

    def finish(self) -> None:
        """End the job; one whose record was lost since its last round has no other end."""
        asked = control.JobName(job=self.name)
        if (reply := self._jobs("Finish", asked).reply) not in (Reply.OK, Reply.UNKNOWN):
            raise LabError(f"Finish of the job {self.name} was answered with {reply!r}")

    def _result(self, request: control.RoundRequest, deadline: Deadline) -> data.RoundSum:
        """Return the sum of a round, which is closed when its time is over."""
        number = request.round
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
                self._say("Hear", control.JobName(job=self.name), request)
            time.sleep(_LOOK_EVERY)

    def _say(self, method: str, asked: object, request: control.RoundRequest) -> None:
        """Tell the control plane of a round, also where it has lost the record of the job."""
        reply = self._jobs(method, asked).reply
        if reply == Reply.UNKNOWN:
            self._register_again(request, is_over=method == "EndRequest")
            reply = self._jobs(method, asked).reply
        if reply != Reply.OK:
            raise LabError(f"{method} of the job {self.name} was answered with {reply!r}")

    def _register_again(self, request: control.RoundRequest, is_over: bool) -> None:
        """Register with the rounds behind the job, and ask anew for clients if it needs any."""
        self.registered_again += 1
        self._registration.done = request.round if is_over else request.round - 1
        self._expect("Register", self._registration)
        if not is_over:
            self._expect("Request", request)

    def _expect(self, method: str, asked: object) -> None:
        if (reply := self._jobs(method, asked).reply) != Reply.OK:
            raise LabError(f"{method} of the job {self.name} was answered with {reply!r}")


def _split(values: Values, model: Model) -> Sequence[Values]:
    ends = np.cumsum([tensor.elements for tensor in model])
    parts = np.split(values, ends[:-1])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, model, strict=True)]
