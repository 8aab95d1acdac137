"""Clients as processes of their own, forked from one that has imported all they need.

Who forks calls no service by gRPC, before or afterwards, and has no threads: a child would take
their locks along.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread

import numpy as np

from testbed.errors import LabError
from testbed.propius.task_counts import WIDTH, Row, TaskCounts

Run = Callable[[int, TaskCounts], None]
"""Is the client of a number until it is ended, and counts what it does."""


class ClientProcesses:
    """The processes of one host's clients, by number; each comes and goes, and may come again."""

    def __init__(self, clients: int, run: Run) -> None:
        """Prepare rows of counts that all processes share."""
        self._run = run
        memory = mmap.mmap(-1, max(1, clients) * WIDTH * 8)
        self.rows: Row = np.frombuffer(memory, np.float64).reshape(-1, WIDTH)
        self._theirs, self._ours = os.pipe()  # whose end tells them that this process has gone
        self._ids: dict[int, int] = {}
        self.started = 0
        """Processes that were started."""
        self.most = 0
        """As many were there at once."""

    @property
    def here(self) -> Sequence[int]:
        """Return the clients that have a process now."""
        return list(self._ids)

    def start(self, client: int) -> None:
        """Fork the process of a client that has none."""
        self.check()
        sys.stdout.flush()
        sys.stderr.flush()
        if (id := os.fork()) == 0:
            self._be(client)
        self._ids[client] = id
        self.started += 1
        self.most = max(self.most, len(self._ids))

    def end(self, client: int) -> None:
        """Kill the process of a client, whatever it does; in a round, that counts."""
        self._kill(client)
        TaskCounts(self.rows[client]).vanish()

    def _kill(self, client: int) -> None:
        id = self._ids.pop(client)
        with suppress(ProcessLookupError):
            os.kill(id, signal.SIGKILL)
        _, status = os.waitpid(id, 0)
        _check(client, status)

    def check(self) -> None:
        """Raise LabError if a process ended that nobody ended."""
        for client, id in list(self._ids.items()):
            ended, status = os.waitpid(id, os.WNOHANG)
            if ended:
                del self._ids[client]
                _check(client, status)

    def close(self) -> None:
        """Kill all processes; raise LabError if one of them had ended before."""
        failures = []
        for client in self.here:
            try:
                self._kill(client)
            except LabError as error:
                failures.append(error)
            TaskCounts(self.rows[client]).end()
        os.close(self._ours)
        os.close(self._theirs)
        if failures:
            raise failures[0]

    def _be(self, client: int) -> None:
        """Be a client's process, and never return."""
        code = 1
        try:
            os.close(self._ours)
            Thread(target=_end_with, args=(self._theirs,), daemon=True).start()
            self._run(client, TaskCounts(self.rows[client]))
            code = 0
        except BaseException:  # a fork that went on would be a second of its parent
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


def _end_with(line: int) -> None:
    """End this process as soon as nobody can write to a pipe any more."""
    os.read(line, 1)
    os._exit(2)


def _check(client: int, status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code != -signal.SIGKILL:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        raise LabError(
            f"the process of client {client} ended by itself {how}",
            hint="what it wrote to standard error has the reason",
        )
