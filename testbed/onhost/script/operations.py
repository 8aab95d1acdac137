"""The operations of a script on its rail, in the order in which it began them.

Each asks for the circuits between its ranks, is begun when they are lit, and ends its traffic when
it is done. Operations of the same ranks may be under way together, as those of a batch are,
unless they take turns; before one of other ranks begins, all others have ended. So each rank has
one pair of ports in use at a time, and the number of an operation among those of the same ranks is
the same on all of them.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional, Union

from ..communication.mesh import PROBING
from ..communication.stages import Stage, Stages

Key = tuple[str, tuple[int, ...]]
"""A group, and the ranks of it that need circuits together."""

Begin = Callable[[Stage], Callable[[], object]]
"""Begins an operation whose circuits are lit; returns what waits for its end and may raise."""

Finish = Callable[[Optional[Exception]], None]
"""Is told that an operation is over, and of the error that ended it, if any."""


@dataclass(frozen=True)
class _Operation:
    key: Key
    begin: Begin
    finish: Finish
    takes_turn: bool


class _Ended:
    """An operation that was under way has ended."""


class Operations:
    """Runs operations in a thread of its own; only `submit` and `close` are for other threads."""

    def __init__(self, stages: Stages, drain: Callable[[], None]) -> None:
        """Take what is told of stages, and what waits until all that was sent has arrived."""
        self._stages, self._drain = stages, drain
        self._coming: queue.SimpleQueue[Union[_Operation, _Ended, None]] = queue.SimpleQueue()
        self._pending: deque[_Operation] = deque()
        self._running = 0
        self._has_turn = False
        """The one that is under way takes its turn."""
        self._current: Optional[Stage] = None
        self._numbers: Counter[Key] = Counter()
        self._error: Optional[Exception] = None
        """Why no circuits can be had any more."""
        self._thread = threading.Thread(target=self._run, name="rail operations", daemon=True)
        self._thread.start()

    def submit(
        self,
        group: str,
        ranks: Sequence[int],
        begin: Begin,
        finish: Finish,
        *,
        takes_turn: bool = False,
    ) -> None:
        """Add an operation; `finish` is called when it is over, in another thread.

        One that takes its turn begins when all before it are over, and ends before the next begins.
        """
        key = group, tuple(sorted(ranks))
        self._coming.put(_Operation(key, begin, finish, takes_turn))

    def close(self, patience: Optional[float] = None) -> None:
        """End the thread once all operations are over, and the last stage is left.

        Wait for that no longer than `patience` seconds; safe to call twice.
        """
        self._coming.put(None)
        self._thread.join(patience)

    def _run(self) -> None:
        is_open = True
        while is_open or self._pending or self._running:
            taken = [self._coming.get()]
            while not self._coming.empty():
                taken.append(self._coming.get())
            for one in taken:
                if isinstance(one, _Operation):
                    self._pending.append(one)
                elif isinstance(one, _Ended):
                    self._running -= 1
                else:
                    is_open = False
            self._advance()

    def _advance(self) -> None:
        """Begin what can be begun now, and leave a stage in which nothing is under way."""
        while self._pending:
            key = self._pending[0].key
            if self._running and (self._pending[0].takes_turn or self._has_turn):
                return
            if self._current is not None and (self._current.group, self._current.ranks) != key:
                if self._running:
                    return
                self._leave(self._next(key))
            self._begin(self._pending.popleft())
        if not self._running:
            self._leave(None)

    def _begin(self, operation: _Operation) -> None:
        stage = self._current = self._next(operation.key)
        self._numbers[operation.key] += 1
        try:
            if self._error is not None:
                raise self._error
            self._stages.reached(stage)
        except Exception as error:
            self._error, self._current = error, None
            operation.finish(error)
            return
        try:
            wait = operation.begin(stage)
        except Exception as error:  # of this operation alone
            operation.finish(error)
            return
        self._running += 1
        self._has_turn = operation.takes_turn
        ends = threading.Thread(target=self._await, args=(operation, wait), daemon=True)
        ends.start()

    def _await(self, operation: _Operation, wait: Callable[[], object]) -> None:
        error: Optional[Exception] = None
        try:
            wait()
        except Exception as raised:
            error = raised
        self._coming.put(_Ended())
        operation.finish(error)

    def _leave(self, following: Optional[Stage]) -> None:
        if self._current is None:
            return
        left, self._current = self._current, None
        try:
            self._drain()
            self._stages.left(left, following)
        except Exception as error:
            self._error = error

    def _next(self, key: Key) -> Stage:
        """Return the next stage of some ranks; to which iteration it belongs is not known."""
        return Stage(key[0], self._numbers[key], key[1], PROBING)
