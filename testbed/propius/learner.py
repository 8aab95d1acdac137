"""A client that learns: it finds a job, fetches parameters, trains, pushes its update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event

from testbed.clock import now
from testbed.errors import LabError
from testbed.propius import data_pb2 as messages
from testbed.propius.calls import Calls
from testbed.propius.devices import Device
from testbed.propius.digits import MODEL, PASSES, Digits
from testbed.propius.participant import Participant
from testbed.propius.task_counts import TaskCounts
from testbed.tenancy.aggregation import Code
from testbed.tenancy.jobs import Offer
from testbed.tenancy.tensors import decode

ASK_EVERY = 0.05
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
        self,
        name: str,
        digits: Digits,
        rates: Mapping[str, float],
        managers: Calls,
        leaf: Calls,
        device: Device | None = None,
        counts: TaskCounts | None = None,
        ask_every: float = ASK_EVERY,
    ) -> None:
        """Take the rates of learning of the jobs by their names; without a device, be fast."""
        self._name = name
        self._digits = digits
        self._rates = rates
        self._leaf = leaf
        self._device = device or Device()
        self.counts = counts or TaskCounts()
        self._pushed: Offer | None = None
        """The round whose update is at a leaf, and of which nothing more was heard."""
        self._ask_every = ask_every
        self._samples = len(digits.of[name][1])
        self._client = Participant(
            managers,
            name,
            self._device.attributes,
            {"samples": float(self._samples)},
            self._device.speed,
        )

    def run(self, over: Event) -> None:
        """Take part in rounds until `over` is set; what is not answered is tried again."""
        while not over.is_set():
            with suppress(LabError):
                self._ask_outcome()
            with suppress(LabError):
                offer = self._client.seek()
                self.counts.waste(self._client.refused.total())
                self._client.refused.clear()
                if offer is not None:
                    self._take_part(offer, over)
                    self._client.release(offer)
                    continue
            over.wait(self._ask_every)

    def _take_part(self, offer: Offer, over: Event) -> None:
        """Train for one round; one that is over by then is left."""
        self.counts.begin()
        try:
            self._train(offer, over)
        finally:
            self.counts.end()

    def _train(self, offer: Offer, over: Event) -> None:
        begun = now()
        found = self._leaf("Get", messages.Round(job=offer.job, round=offer.round))
        if found.code != Code.OK:
            return
        _wait(over, begun + self._device.transfer)
        begun = now()
        values = decode(found.data, MODEL)
        rate, draw = self._rates[offer.job], f"{offer.job} {offer.round}"
        update = self._digits.update(values, self._name, rate, draw)
        took = self._device.per_sample * PASSES * self._samples
        overran = not _wait(over, begun + took) and took > 0
        _wait(over, now() + self._device.transfer)
        pushed = self._leaf(
            "Push",
            messages.Update(
                job=offer.job,
                round=offer.round,
                client=self._name,
                weight=self._samples,
                data=update,
            ),
        )
        self.counts.push(pushed.code, overran)
        self._pushed = offer if pushed.code in (Code.OK, Code.REPEATED) else None

    def _ask_outcome(self) -> None:
        """Hear whether the last update came in time, once the leaf knows."""
        if self._pushed is None:
            return
        asked = messages.ClientRound(
            job=self._pushed.job, round=self._pushed.round, client=self._name
        )
        told = self._leaf("Outcome", asked)
        if told.code != Code.PENDING:
            self.counts.hear(told.code)
            self._pushed = None


def _wait(over: Event, until: float) -> bool:
    """Wait until an instant; return whether it was still to come."""
    if (left := until - now()) <= 0:
        return False
    over.wait(left)
    return True
