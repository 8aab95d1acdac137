"""Commands on a virtual host end when their client is gone, however early it goes."""

import asyncio
import os
import time
from functools import partial

import asyncssh
import pytest
from asyncssh.connection import SSHConnection
from asyncssh.constants import MSG_IGNORE

from testbed.twin.host import run_command
from testbed.twin.keys import write_ssh_key


async def serve(directory):
    """Return a server that runs commands, and a way to log in."""
    client = write_ssh_key(directory / "client")
    write_ssh_key(directory / "host")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(directory / "host")],
        authorized_client_keys=asyncssh.import_authorized_keys(client),
        process_factory=partial(run_command, os.environ),
        encoding=None,
        line_editor=False,
    )
    login = {"known_hosts": None, "client_keys": [str(directory / "client")], "config": None}
    return server, lambda: asyncssh.connect("127.0.0.1", server.get_port(), **login)


async def ended_in_loop(started):
    """Wait until processes have ended; their loop must hear of that while it runs."""
    for process in started:
        await asyncio.wait_for(process.wait(), 10)
        process._transport.close()


@pytest.mark.parametrize("is_early", [True, False], ids=["before-its-start", "while-it-runs"])
def test_a_command_gets_sighup_when_its_client_disconnects(tmp_path, monkeypatch, is_early):
    ended = tmp_path / "ended"
    start = asyncio.create_subprocess_exec

    async def drill():
        going, gone = asyncio.Event(), asyncio.Event()
        started = []

        async def slowly(*arguments, **options):
            process = await start(*arguments, **options)
            started.append(process)
            going.set()
            if is_early:
                await gone.wait()
            return process

        monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
        server, log_in = await serve(tmp_path)
        client = await log_in()
        command = asyncio.ensure_future(
            client.create_process(f"cat > /dev/null; touch {ended}", encoding=None)
        )
        await (going.wait() if is_early else command)
        client.abort()
        await client.wait_closed()
        await asyncio.sleep(0.1)  # until the server has noticed it, too
        gone.set()
        await asyncio.gather(command, return_exceptions=True)
        limit = time.monotonic() + 10
        while not ended.exists() and time.monotonic() < limit:
            await asyncio.sleep(0.01)
        server.close()
        await ended_in_loop(started)

    asyncio.run(drill())
    assert ended.exists()


def test_an_answer_is_one_packet(tmp_path, monkeypatch):
    empty, process = [], SSHConnection._packet_handlers[MSG_IGNORE]
    start, started = asyncio.create_subprocess_exec, []

    def note(connection, *packet):
        if connection.is_client():
            empty.append(packet)
        return process(connection, *packet)

    async def noted(*arguments, **options):
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setitem(SSHConnection._packet_handlers, MSG_IGNORE, note)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)

    async def drill():
        server, log_in = await serve(tmp_path)
        async with await log_in() as client:
            command = await client.create_process("exec cat", encoding=None)
            begun = len(empty)
            for _ in range(20):
                command.stdin.write(b"word\n")
                assert await command.stdout.readexactly(5) == b"word\n"
        server.close()
        await ended_in_loop(started)
        return len(empty) - begun

    assert asyncio.run(drill()) == 0
