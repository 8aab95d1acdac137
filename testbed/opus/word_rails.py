"""Rails that each have a word, as those of the authors' controller. Pure."""

from __future__ import annotations

from testbed.fabric.circuits import Matching
from testbed.opus.communicators import Communicator, Done, Place, Repoint, Request, SetWord
from testbed.opus.words import Comm, word_after

Outcome = list[Done | SetWord | Repoint]
"""What follows: words or circuits to set, and requests that are carried out."""


class WordRails:
    """The words of all rails; each is applied by itself, one after the other on a rail."""

    def __init__(self, rails: int) -> None:
        self.words = [0] * rails
        """Of each rail, what its worker has applied last."""
        self._queues: list[list[Request]] = [[] for _ in range(rails)]
        """Of each rail the requests whose words are to be applied; that of the first is."""

    def __len__(self) -> int:
        return len(self.words)

    def start(self) -> list[SetWord | Repoint]:
        """Return the first word of each rail."""
        return [SetWord(rail, 0) for rail in range(len(self))]

    def admit(self, client: int, said: Comm, place: Place) -> None:
        """Have a client join; the place of a rank is of no account."""

    def check(self, client: int, request: Request) -> None:
        """Have a client ask: every stage has a word."""

    def asks(self, client: int) -> Outcome:
        """Have a client end its traffic in the stage before, which words know nothing of."""
        return []

    def complete(self, request: Request) -> Outcome:
        """Have all ask who must; the word follows when those before it are applied."""
        request.is_sent = True
        queue = self._queues[request.group.rail]
        queue.append(request)
        return self._next(request.group.rail) if len(queue) == 1 else []

    def done(self, rail: int, word: int) -> Outcome:
        """Have a rail's worker apply its word."""
        before, self.words[rail] = self.words[rail], word
        if not self._queues[rail]:
            return []  # the word at the start
        request = self._queues[rail].pop(0)
        return [Done(request, before != word), *self._next(rail)]

    def failed(
        self, rail: int, number: int, present: Matching
    ) -> tuple[str, Request | None, Outcome]:
        """Have a rail's worker fail; return what failed, the request of the word, what follows."""
        what = f"the worker of rail {rail} failed"
        if not self._queues[rail]:
            return what, None, []
        request = self._queues[rail].pop(0)
        return what, request, self._next(rail)

    def withdraw(self, request: Request) -> None:
        """Forget a request that is not complete, which no rail knows of."""

    def waits_for(self, request: Request) -> str:
        """Say what a complete request waits for: nothing that has a limit here."""
        return ""

    def left(self, client: int) -> Outcome:
        """Have a client be gone; the word stays."""
        return []

    def forget(self, group: Communicator) -> None:
        """Have a communicator be gone."""

    def _next(self, rail: int) -> Outcome:
        """Return the word of the first request that waits for a rail, if there is one."""
        if not self._queues[rail]:
            return []
        return [SetWord(rail, word_after(self.words[rail], self._queues[rail][0].said))]
