"""Servers of both sides, each in a thread of its own: a TCP port, and a Unix socket a rail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from testbed.clock import now
from testbed.opus.communicators import Answered, Close, Effect, Repoint, Send, SetWord
from testbed.opus.controller_side import LIMIT, ControllerSide
from testbed.opus.rail_actions import RailAction, RailFailed
from testbed.opus.words import LineBuffer, Malformed
from testbed.opus.worker_side import CHANGED, UNCHANGED, Apply, WorkerSide

_READ = 1024
"""Bytes that a rail worker reads at once; what comes later is not read."""

_SHOWN = 40
"""Bytes of what is no word that are logged."""

Log = Callable[[str], object]


def _drop(*what: object) -> None:
    """Record nothing."""


class _Loop:
    """An event loop in a thread, which ends with it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: Future[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[object, object, None], limit: float) -> None:
        """Run something in the loop; block until it is done, for `limit` seconds at most."""

        async def whole() -> None:
            async with asyncio.timeout(limit):
                await work

        future = asyncio.run_coroutine_threadsafe(whole(), self._loop)
        try:
            future.result()
        except BaseException:  # a signal: what nobody waits for goes on no longer
            future.cancel()
            raise

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Run something beside the rest, until it is done or the loop ends. Call it in the loop."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self, server: asyncio.Server | None) -> None:
        """Stop listening, end every task, then the loop. Safe to call twice."""
        if self._loop.is_closed():
            return
        if self._end is None:
            self._end = asyncio.run_coroutine_threadsafe(self._cancel(server), self._loop)
        self._end.result(LIMIT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()

    async def _cancel(self, server: asyncio.Server | None) -> None:
        """Cancel what runs.

        A connection that asyncio is accepting stays open when the server is closed or its task is
        cancelled then, and so does one whose own task is cancelled before its first step.
        """
        if server is not None:
            for listening in server.sockets:
                self._loop.remove_reader(listening)
            while asyncio.all_tasks() - self._tasks - {asyncio.current_task()}:
                await asyncio.sleep(0)
            server.close()
        await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()


class ControllerServer:
    """The controller's side on a TCP port; `action` carries out what it has rails do.

    `log` is told why each line ended, and of every rail that failed; `record` is told each answer.
    """

    def __init__(
        self,
        address: tuple[str, int],
        side: ControllerSide,
        action: RailAction,
        log: Log,
        record: Callable[[Answered], object] = _drop,
    ) -> None:
        """Do what rails begin with, then listen; raise OSError where neither can be done."""
        self._side, self._action, self._log, self._record = side, action, log, record
        self._lines: dict[int, asyncio.StreamWriter] = {}
        self._clients = 0
        self._timer: asyncio.TimerHandle | None = None
        self.address = address
        """Where it listens; with port 0 a free one."""
        self._server: asyncio.Server | None = None
        self._loop = _Loop("opus controller")
        try:
            self._loop.run(self._listen(), LIMIT * (len(side.rails) + 1))
        except BaseException:
            self._loop.end(self._server)
            raise

    def close(self) -> None:
        """End all lines and stop listening. Safe to call twice."""
        self._loop.end(self._server)

    async def _listen(self) -> None:
        for effect in self._side.start():
            await self._apply(effect)
        host, port = self.address
        self._server = await asyncio.start_server(self._accept, host, port)
        self.address = self._server.sockets[0].getsockname()[:2]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._loop.begin(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        client, lines = self._clients, LineBuffer()
        self._lines[client] = writer
        self._side.connected(client, writer.get_extra_info("peername")[0])
        try:
            while client in self._lines and (data := await reader.read(_READ)):
                for line in lines.feed(data):
                    self._do(self._side.received(client, line, now()))
            self._do(self._side.left(client, now()))
        except (Malformed, OSError) as error:
            self._do(self._side.left(client, now(), str(error)))
        except asyncio.CancelledError:
            writer.transport.abort()  # `close` would wait until the client has read what is left
            raise
        finally:
            self._lines.pop(client, None)
            writer.close()

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(client, line):
                    if client in self._lines:
                        self._lines[client].write(line)
                case Close(client, why):
                    self._log(f"the line of client {client} ended: {why}")
                    if (writer := self._lines.pop(client, None)) is not None:
                        writer.close()
                case SetWord() | Repoint():
                    self._loop.begin(self._apply(effect))
        for answered in self._side.answered:
            self._record(answered)
        self._side.answered.clear()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._side.wake_at()
        if due is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, due - now()), self._expire)

    def _expire(self) -> None:
        self._do(self._side.expire(now()))

    def _apply(self, effect: SetWord | Repoint) -> Coroutine[object, object, None]:
        """Begin what a rail has to do, in the order of the effects, and return the rest of it."""
        return self._applied(effect, self._action(effect))

    async def _applied(self, effect: SetWord | Repoint, work: Awaitable[None]) -> None:
        try:
            await work
        except RailFailed as error:
            self._log(f"{error.what} failed: {error.why}")
            failed = error.why, now(), effect.number, error.present
            self._do(self._side.worker_failed(effect.rail, *failed))
        else:
            self._do(self._side.worker_done(effect.rail, effect.number, now()))


class WorkerServer:
    """The rail worker's side on a Unix socket; `apply` brings the rail from a word to another.

    `record` is told each word, the one before, and how long after it came it was answered.
    """

    def __init__(
        self,
        path: Path,
        apply: Apply,
        log: Log,
        limit: float = LIMIT,
        record: Callable[[int | None, int, float], object] = _drop,
    ) -> None:
        """Listen; raise OSError where that cannot be done."""
        self._side, self._record = WorkerSide(apply), record
        self._turn = asyncio.Lock()
        self._path, self._log, self._limit = path, log, limit
        self._server: asyncio.Server | None = None
        self._loop = _Loop(f"opus worker {path.name}")
        try:
            self._loop.run(self._listen(), limit)
        except BaseException:
            self._loop.end(self._server)
            raise

    def close(self) -> None:
        """Stop listening, and remove the socket. Safe to call twice."""
        self._loop.end(self._server)
        self._path.unlink(missing_ok=True)

    async def _listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._path)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._loop.begin(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one word; a controller that sends none loses its line after the limit."""
        try:
            async with asyncio.timeout(self._limit):
                data = await reader.read(_READ)
            began = now()
            async with self._turn:  # a word is compared with the one before it
                before = self._side.word
                reply = await asyncio.to_thread(self._side.received, data)
                after = self._side.word
            if reply in (CHANGED, UNCHANGED):
                assert after is not None
                self._record(before, after, now() - began)
            else:
                self._log(f"{self._path.name}: {data[:_SHOWN]!r} is no word, replied {reply!r}")
            writer.write(reply)
            with suppress(OSError):
                await writer.drain()
        except TimeoutError:
            self._log(f"{self._path.name}: no word came in {self._limit:g} s")
        except Exception as error:  # whatever applying does: the line ends without a reply
            self._log(f"{self._path.name}: the word could not be applied: {error}")
        finally:
            writer.close()
