"""A leaf parameter server: a cache of parameters, and sums that go to the root."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock

from testbed.errors import LabError
from testbed.propius import data_pb2 as messages
from testbed.propius.calls import Calls
from testbed.propius.counting import Tally, answer_of, code
from testbed.tenancy import leaf as rules
from testbed.tenancy.aggregation import MISS, OK, Answer, Code, Flush, Push, refused
from testbed.tenancy.leaf import FLUSH_AFTER, Leaf
from testbed.tenancy.tensors import Refusal, model_of, size

LOOK_EVERY = 0.1
"""Seconds from one look for sums to send to the next."""


class LeafServer:
    """Serves the clients of all jobs that come to it.

    `name` is of one start of the process: the root tells by it what was sent again. Sums are lost
    when the process ends, and so are missing from their rounds.
    """

    def __init__(
        self,
        name: str,
        root: Calls,
        flush_after: float = FLUSH_AFTER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._root = root
        self._flush_after = flush_after
        self._clock = clock
        self._leaves: dict[str, Leaf] = {}
        self._lock = Lock()
        self._fetching: defaultdict[str, Lock] = defaultdict(Lock)
        self.tally = Tally()

    def get(self, asked: messages.Round) -> messages.Parameters:
        """Return the parameters of a round, from the root if they are not here.

        Of clients that ask at once for the same, one fetches and all others wait for it.
        """
        answer, data = self._here(asked)
        if answer.code is Code.MISS:
            with self._fetching[asked.job]:
                answer, data = self._here(asked)
                if answer.code is Code.MISS:
                    answer, data = self._fetch(asked)
        self.tally.add(answer, sent=len(data or b""))
        return messages.Parameters(
            code=int(answer.code), job=asked.job, round=asked.round, data=data or b""
        )

    def push(self, asked: messages.Update) -> messages.Code:
        """Add a client's update; of a round that is not known here, the root is asked first."""
        answer = self._push(asked)
        if answer.code is Code.MISS:
            with self._fetching[asked.job]:
                answer = self._push(asked)
                if answer.code is Code.MISS:
                    found, _ = self._fetch(messages.Round(job=asked.job, round=asked.round))
                    answer = self._push(asked) if found.code is Code.OK else found
        self.tally.add(answer, received=len(asked.data))
        return code(answer)

    def push_announced(self, asked: messages.Update) -> messages.Code | None:
        """Answer the first piece of an update that is larger than its job's model, or of no job.

        Of a job that is not known here, the root is asked first. None: read on.
        """
        found, leaf = OK, self._leaves.get(asked.job)
        if leaf is None:
            with self._fetching[asked.job]:
                if asked.job not in self._leaves:
                    found, _ = self._fetch(messages.Round(job=asked.job, round=asked.round))
                leaf = self._leaves.get(asked.job)
        if found.code is Code.OK:
            if leaf is not None and asked.size <= size(leaf.model):
                return None
            found = MISS if leaf is None else refused(Refusal.TOO_LARGE)
        self.tally.add(found, received=len(asked.data))
        return code(found)

    def outcome(self, asked: messages.ClientRound) -> messages.Code:
        """Tell a client what has become of its update."""
        with self._lock:
            leaf = self._leaves.get(asked.job)
            answer = MISS if leaf is None else rules.outcome(leaf, asked.client, asked.round)
        return code(answer)

    def count(self, asked: messages.Empty) -> messages.Counts:
        """Return the counts of answers and bytes."""
        return self.tally.message()

    def run(self, stop: Event) -> None:
        """Send sums to the root until `stop` is set; then send what is left, once."""
        while not stop.wait(LOOK_EVERY):
            self.send()
        self.send(at_once=True)

    def send(self, at_once: bool = False) -> None:
        """Send the sums that are due, and again those that the root has not answered."""
        now = self._clock()
        with self._lock:
            known = self._leaves.items()
            self._leaves = {job: leaf for job, leaf in known if not rules.is_forgotten(leaf, now)}
            for job, leaf in self._leaves.items():
                is_idle = now - leaf.touched >= self._flush_after
                due = at_once or is_idle or leaf.kept > rules.MOST_KEPT
                self._leaves[job] = rules.flush(leaf, now, at_once=True) if due else leaf
            waiting = [
                (job, sent) for job, leaf in self._leaves.items() for sent in leaf.unacknowledged
            ]
        for job, sent in waiting:
            with suppress(LabError):
                self._send(job, sent)

    def _send(self, job: str, sent: Flush) -> None:
        """Send a sum; where the root has some of its clients already, what is left of it, too."""
        told = answer_of(self._root("Add", _message(job, sent)))
        with self._lock:
            self._leaves[job] = rules.acknowledge(self._leaves[job], sent.sequence, told)
            waiting = self._leaves[job].unacknowledged
        again = next((each for each in waiting if each.sequence == sent.sequence), sent)
        if again is not sent:
            self._send(job, again)

    def _here(self, asked: messages.Round) -> tuple[Answer, bytes | None]:
        with self._lock:
            leaf = self._leaves.get(asked.job)
            return (MISS, None) if leaf is None else rules.get(leaf, asked.round, self._clock())

    def _fetch(self, asked: messages.Round) -> tuple[Answer, bytes | None]:
        """Ask the root for a round, and keep what it says."""
        found = self._root("Get", asked)
        if found.code != Code.OK:
            with self._lock:
                if asked.job not in self._leaves:  # names that nobody knows take no memory
                    self._fetching.pop(asked.job, None)
            return Answer(Code(found.code)), None
        with self._lock:
            leaf = self._leaves.get(asked.job, Leaf(self._name, model_of(found.data)))
            now = self._clock()
            self._leaves[asked.job] = rules.fill(leaf, found.round, found.data, now, found.counted)
        return Answer(Code(found.code)), found.data

    def _push(self, asked: messages.Update) -> Answer:
        with self._lock:
            leaf = self._leaves.get(asked.job)
            if leaf is None:
                return MISS
            update = Push(asked.client, asked.round, asked.weight, asked.data)
            answer, self._leaves[asked.job] = rules.push(leaf, update, self._clock())
            return answer


def _message(job: str, sent: Flush) -> messages.LeafSum:
    return messages.LeafSum(
        job=job,
        round=sent.round,
        leaf=sent.leaf,
        sequence=sent.sequence,
        weight=sent.total.weight,
        clients=sorted(sent.total.clients),
        values=sent.total.values.astype("<f8").tobytes(),
    )
