"""The side of a client: it compares private constraints itself, and accepts an offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from testbed.propius import control_pb2 as messages
from testbed.propius.calls import Calls
from testbed.tenancy.attributes import constraints
from testbed.tenancy.jobs import Offer
from testbed.tenancy.replies import Reply


class Participant:
    """A client of the control plane, which sends no private attribute, by name or by value.

    What a client pushes to a job that it takes part in goes to a leaf, and not through this.
    """

    def __init__(
        self,
        managers: Calls,
        name: str,
        attributes: Mapping[str, float],
        private: Mapping[str, float],
        speed: float,
    ) -> None:
        self._managers = managers
        self._name = name
        self._attributes = dict(attributes)
        self._private = dict(private)
        self._speed = speed
        self.refused: Counter[Reply] = Counter()
        """Acceptances that were not bound, by the answer."""

    def seek(self) -> Offer | None:
        """Check in and accept the first offer that suits; return what it is bound to, or None."""
        presence = messages.Presence(
            client=self._name, attributes=self._attributes, speed=self._speed
        )
        found = self._managers("CheckIn", presence)
        if found.reply == Reply.BOUND:  # by an acceptance whose answer was lost
            return Offer(found.job, found.round, ())
        for offer in found.offers:
            own = Offer(offer.job, offer.round, constraints(dict(offer.private_constraints)))
            if own.suits(self._private) and self._accepts(own):
                return own
        return None

    def release(self, offer: Offer) -> Reply:
        """Report that a round is executed or given up."""
        return Reply(self._managers("Release", self._acceptance(offer)).reply)

    def _accepts(self, offer: Offer) -> bool:
        reply = Reply(self._managers("Accept", self._acceptance(offer)).reply)
        if reply is not Reply.OK:
            self.refused[reply] += 1
        return reply is Reply.OK

    def _acceptance(self, offer: Offer) -> messages.Acceptance:
        return messages.Acceptance(client=self._name, job=offer.job, round=offer.round)
