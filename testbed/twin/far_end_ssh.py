"""Simulated far ends behind SSH, as network equipment with a command line.

A connection is one session with the far end. Every command is a line to it; its output goes to the
commands in their order, each until its answer ends (`EXIT_MARK`). A command that the client
abandoned still consumes its own answer, so a late answer is never given to another command. There
is no shell.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from testbed.bench.contracts import EXIT_MARK
from testbed.bench.sites import SshFarEnd

Result = TypeVar("Result")


class SshServer:
    """A far end behind an SSH server, which runs in a thread of its own."""

    def __init__(
        self,
        far_end: SshFarEnd,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        host_key: Path,
        client_key: str,
    ) -> None:
        """Let a far end answer SSH until closed (port 0: any free one); OSError when it is taken.

        `host_key` is a private key file; a client that has the public key `client_key`, or a
        password, may log in if the far end admits it.
        """
        self.far_end = far_end
        self.key = asyncssh.import_public_key(client_key)
        self.clients: set[_Client] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="far end", daemon=True)
        self._thread.start()
        try:
            self._server = self._in_loop(self._listen(host, port, host_key))
        except OSError:
            self._stop()
            raise
        self.host = host
        self.port = self._server.get_port()

    def cut(self) -> None:
        """Close the connections of all clients; new ones are accepted."""
        self._in_loop(self._hang_up())

    def close(self) -> None:
        """Stop listening and close all connections; safe to call twice."""
        if not self._loop.is_closed():
            self._in_loop(self._end())
            self._stop()

    def soon(self, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call in the server's thread."""
        with suppress(RuntimeError):  # the server was closed: nothing reads what is said
            self._loop.call_soon_threadsafe(action, *arguments)

    async def _listen(self, host: str, port: int, host_key: Path) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            host, port, server_factory=self._client, server_host_keys=[host_key], encoding=None
        )

    def _client(self) -> _Client:
        client = _Client(self)
        self.clients.add(client)
        return client

    async def _end(self) -> None:
        self._server.close()
        await self._hang_up()
        await self._server.wait_closed()

    async def _hang_up(self) -> None:
        clients = list(self.clients)
        for client in clients:
            client.hang_up()
        for client in clients:
            await client.gone.wait()

    def _in_loop(self, doing: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Client(asyncssh.SSHServer):
    """One client's connection: its login, its commands, its session with the far end."""

    def __init__(self, server: SshServer) -> None:
        self.gone = asyncio.Event()
        self._server = server
        self._commands: deque[asyncssh.SSHServerChannel[bytes]] = deque()
        self._unsent = b""

    def connection_made(self, connection: asyncssh.SSHServerConnection) -> None:
        self._connection = connection
        soon = self._server.soon
        self._session = self._server.far_end.session(
            lambda data: soon(self._say, data), hang_up=lambda: soon(self.hang_up)
        )

    def connection_lost(self, error: Exception | None) -> None:
        self._server.clients.discard(self)
        self.gone.set()

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return self._server.far_end.admits(username, password)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key == self._server.key and self._server.far_end.admits(username, None)

    def session_requested(self) -> _Command:
        return _Command(self)

    def run(self, channel: asyncssh.SSHServerChannel[bytes], command: str) -> None:
        """Send a command to the far end; its answer goes to `channel`."""
        self._commands.append(channel)
        self._session.receive(command.encode() + b"\n")

    def hang_up(self) -> None:
        """Break the connection."""
        self._connection.abort()

    def _say(self, data: bytes) -> None:
        self._unsent += data
        while self._unsent and self._commands:
            output, mark, rest = self._unsent.partition(EXIT_MARK)
            status, end, after = rest.partition(b"\n")
            self._write(output)
            self._unsent = after if end else mark + rest
            if not end:
                return
            self._finish(status)
        self._unsent = b""  # no command waits for it: SSH has no way to say it

    def _write(self, output: bytes) -> None:
        with suppress(OSError):  # the client gave this command up
            self._commands[0].write(output)

    def _finish(self, status: bytes) -> None:
        channel = self._commands.popleft()
        with suppress(OSError):
            if status.isdigit():
                channel.exit(int(status))
            else:
                channel.close()


class _Command(asyncssh.SSHServerSession[bytes]):
    """One exec channel."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self._command = ""

    def connection_made(self, channel: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = channel

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    def session_started(self) -> None:
        self._client.run(self._channel, self._command)

    def eof_received(self) -> bool:
        """Keep the channel open at the end of a command's input, as its answer may still come."""
        return True
