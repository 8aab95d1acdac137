"""A client that learns: it finds a job, fetches parameters, trains, pushes its update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event

from testbed.errors import LabError
from testbed.propius import data_pb2 as messages
from testbed.propius.calls import Calls
from testbed.propius.digits import MODEL, Digits
from testbed.propius.participant import Participant
from testbed.tenancy.aggregation import Code
from testbed.tenancy.jobs import Offer
from testbed.tenancy.tensors import decode

_ASK_EVERY = 0.05
"""Seconds until a client without an offer asks again."""


@contextmanager
def learning(
    names: Sequence[str], digits: Digits, rates: Mapping[str, float], managers: Calls, leaf: Calls
) -> Iterator[None]:
    """Have clients learn side by side until the context ends; raise what one of them raised."""
    over = Event()
    with ThreadPoolExecutor(len(names)) as pool:
        learners = [Learner(name, digits, rates, managers, leaf) for name in names]
        running = [pool.submit(learner.run, over) for learner in learners]
        try:
            yield
        finally:
            over.set()
        for each in running:
            each.result()


class Learner:
    """One client with its own images, which it shows nobody.

    How many they are is its private attribute: no part of the control plane learns it. A push of
    FedAvg carries it as its weight, so leaf and root learn it from a client that takes part.
    """

    def __init__(
        self, name: str, digits: Digits, rates: Mapping[str, float], managers: Calls, leaf: Calls
    ) -> None:
        """Take the rates of learning of the jobs by their names."""
        self._name = name
        self._digits = digits
        self._rates = rates
        self._leaf = leaf
        self._samples = len(digits.of[name][1])
        private = {"samples": float(self._samples)}
        self._client = Participant(managers, name, {"ram": 4.0}, private, 1.0)

    def run(self, over: Event) -> None:
        """Take part in rounds until `over` is set; what is not answered is tried again."""
        while not over.is_set():
            with suppress(LabError):
                offer = self._client.seek()
                if offer is not None:
                    self._take_part(offer)
                    self._client.release(offer)
                    continue
            over.wait(_ASK_EVERY)

    def _take_part(self, offer: Offer) -> None:
        """Train for one round; one that is over by then is left."""
        found = self._leaf("Get", messages.Round(job=offer.job, round=offer.round))
        if found.code != Code.OK:
            return
        draw = f"{offer.job} {offer.round}"
        values = decode(found.data, MODEL)
        update = self._digits.update(values, self._name, self._rates[offer.job], draw)
        self._leaf(
            "Push",
            messages.Update(
                job=offer.job,
                round=offer.round,
                client=self._name,
                weight=self._samples,
                data=update,
            ),
        )
