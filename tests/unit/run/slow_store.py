"""A store of leases that stops answering, as a server does that has frozen."""

from contextlib import contextmanager
from threading import Event

from testbed.errors import LabError
from testbed.record.lease_store import FileStore


class SlowStore:
    """A file of leases; whoever wants in while `answers` is not set waits for that."""

    def __init__(self, path):
        self._store = FileStore(path)
        self.answers = Event()
        self.answers.set()
        self.asked = Event()
        """Somebody has wanted in since this was cleared."""
        self.fails = 0
        """How many more times it does not let anybody in."""

    @contextmanager
    def open(self):
        self.asked.set()
        self.answers.wait()
        if self.fails:
            self.fails -= 1
            raise LabError("the leases cannot be used: the server closed the connection")
        with self._store.open() as ledger:
            yield ledger

    @contextmanager
    def frozen(self):
        """Let nobody in for a while."""
        self.asked.clear()
        self.answers.clear()
        try:
            yield
        finally:
            self.answers.set()
