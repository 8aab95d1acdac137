"""Hosts that answer SSH on a port of this machine: `ssh_host.py DIRECTORY` prints the port.

The directory, an SSH client's `~/.ssh`, gets the key that may log in and the host's as a known one.
"""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

import asyncssh

from testbed.twin.host import run_command
from testbed.twin.keys import write_ssh_key

ADDRESSES = [f"127.0.0.{n}" for n in range(1, 5)]
"""Of as many hosts, which are all this machine."""


class JumpHost(asyncssh.SSHServer):
    """A host from which others are reached."""

    def connection_requested(self, *ends):
        return True


async def serve(directory):
    """Serve until killed."""
    client = write_ssh_key(directory / "id_ed25519")
    host = write_ssh_key(directory / "host_key")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # with this interpreter

    async def listen(address, port):
        return await asyncssh.listen(
            address,
            port,
            server_factory=JumpHost,
            server_host_keys=[str(directory / "host_key")],
            authorized_client_keys=asyncssh.import_authorized_keys(client),
            process_factory=partial(run_command, {**os.environ, "PATH": path}),
            encoding=None,
            line_editor=False,
        )

    server = await listen(ADDRESSES[0], 0)
    port = server.get_port()
    for address in ADDRESSES[1:]:
        await listen(address, port)
    known = "".join(f"[{address}]:{port} {host}\n" for address in ADDRESSES)
    (directory / "known_hosts").write_text(known)
    print(port, flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
