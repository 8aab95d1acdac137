"""A host that answers SSH on a port of this machine: `ssh_host.py DIRECTORY` prints the port.

The directory, an SSH client's `~/.ssh`, gets the key that may log in and the host's as a known one.
"""

import asyncio
import os
import sys
from pathlib import Path

import asyncssh

from testbed.twin.host import Shell
from testbed.twin.keys import write_ssh_key


async def serve(directory):
    """Serve until killed."""
    client = write_ssh_key(directory / "id_ed25519")
    host = write_ssh_key(directory / "host_key")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # with this interpreter
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(directory / "host_key")],
        authorized_client_keys=asyncssh.import_authorized_keys(client),
        process_factory=Shell({**os.environ, "PATH": path}).run,
        encoding=None,
        line_editor=False,
    )
    port = server.get_port()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {host}\n")
    print(port, flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
