"""What carries out what the controller's side has rails do: words of workers, or circuits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from testbed.errors import TestbedError
from testbed.fabric.circuits import Matching
from testbed.opus.communicators import Repoint, SetWord
from testbed.opus.controller_side import LIMIT
from testbed.rails.rail import Move

_REPLY = 255
"""Bytes of a worker's reply that count."""


class RailFailed(Exception):
    """A rail did not do what it had to; `present` are its circuits then, where it has any."""

    def __init__(self, what: str, why: str, present: Matching = frozenset()) -> None:
        super().__init__(f"{what} failed: {why}")
        self.what, self.why, self.present = what, why, present


RailAction = Callable[[SetWord | Repoint], Awaitable[None]]
"""Begins what a rail has to do, in the order of the calls; awaiting it raises RailFailed."""


class WorkerSockets:
    """Rails whose workers listen on Unix sockets, as those of the authors' controller."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    async def __call__(self, effect: SetWord | Repoint) -> None:
        """Send a word to the worker of its rail; success is what its first reply says."""
        assert isinstance(effect, SetWord)
        try:
            async with asyncio.timeout(LIMIT):
                reply = await _asked(self._paths[effect.rail], effect.word)
            if b"SUCCESS" not in reply:
                raise OSError(f"it replied {reply.decode('ascii', 'backslashreplace')!r}")
        except (OSError, TimeoutError) as error:
            what = f"word {effect.word} at the worker of rail {effect.rail}"
            raise RailFailed(what, str(error) or f"no reply in {LIMIT:g} s") from error


async def _asked(path: Path, word: int) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(b"%d\n" % word)
        return await reader.read(_REPLY)
    finally:
        writer.close()


Change = Callable[[], None]
"""Changes circuits and verifies that; blocks, and raises TestbedError where it was rolled back."""


class CircuitActions:
    """Rails whose circuits are changed in threads, each begun in the order of the effects."""

    def __init__(
        self, begin: Callable[[int, Move], Change], present: Callable[[int], Matching]
    ) -> None:
        """Take what plans a change of a rail at once, and what says which circuits it has."""
        self._begin, self._present = begin, present

    def __call__(self, effect: SetWord | Repoint) -> Awaitable[None]:
        """Change the circuits of a rail."""
        assert isinstance(effect, Repoint)
        return self._changed(effect, self._begin(effect.rail, effect.move))

    async def _changed(self, effect: Repoint, change: Change) -> None:
        try:
            await asyncio.to_thread(change)
        except Exception as error:  # whatever it is, those who asked are told
            what = f"the change of circuits of rail {effect.rail}"
            why = (
                str(error) if isinstance(error, TestbedError) else f"{type(error).__name__} {error}"
            )
            raise RailFailed(what, why, self._present(effect.rail)) from error
