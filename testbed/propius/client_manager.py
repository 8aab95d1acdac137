"""A client manager: the messages of clients, carried to the store, and their offers."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

from testbed.propius import control_pb2 as messages
from testbed.propius.offers import NOTHING, read
from testbed.propius.store import Store
from testbed.tenancy import clients as rules
from testbed.tenancy.clients import Client
from testbed.tenancy.jobs import Offer
from testbed.tenancy.replies import Reply


class ClientManager:
    """Answers clients; all that it knows is in the store, so any number of it may run."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        chance: random.Random | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance or random.Random()
        self._published = "", NOTHING

    def check_in(self, asked: messages.Presence) -> messages.Offers:
        """Register a client by its public attributes, and offer it jobs."""
        attributes = dict(asked.attributes)
        is_sound = all(map(math.isfinite, [*attributes.values(), asked.speed])) and asked.speed > 0
        if not (asked.client and is_sound):
            return messages.Offers(reply=Reply.REFUSED)
        now = self._clock()
        return self._offers(
            *self._store.change_client(
                asked.client,
                lambda known: rules.check_in(known, asked.client, attributes, asked.speed, now),
            )
        )

    def ping(self, asked: messages.ClientName) -> messages.Offers:
        """Note that a client is alive and still waits, and offer it jobs."""
        now = self._clock()
        return self._offers(
            *self._store.change_client(asked.client, lambda known: rules.ping(known, now))
        )

    def accept(self, asked: messages.Acceptance) -> messages.Answer:
        """Bind a client to a round of a job."""
        reply = self._store.bind(asked.job, asked.client, asked.round, self._clock())
        return messages.Answer(reply=reply)

    def release(self, asked: messages.Acceptance) -> messages.Answer:
        """Release a client from a round that it has executed or given up."""
        now = self._clock()
        reply, _ = self._store.change_client(
            asked.client, lambda known: rules.release(known, asked.job, asked.round, now)
        )
        return messages.Answer(reply=reply)

    def _offers(self, reply: Reply, client: Client | None) -> messages.Offers:
        if client is None:
            return messages.Offers(reply=reply)
        if client.is_bound:
            return messages.Offers(reply=Reply.BOUND, job=client.job, round=client.round)
        return messages.Offers(reply=reply, offers=[_message(offer) for offer in self._for(client)])

    def _for(self, client: Client) -> list[Offer]:
        text, known = self._published
        if (published := self._store.published()) != text:
            known = read(published)
            self._published = published, known
        return known.to(client.attributes, client.speed, self._chance.random())


def _message(offer: Offer) -> messages.Offer:
    return messages.Offer(job=offer.job, round=offer.round, private_constraints=dict(offer.private))
