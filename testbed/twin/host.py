"""A virtual host, seen from inside: its first process, its network and its SSH server."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import asyncssh

from testbed.twin import clock_rate
from testbed.twin.layout import GATEWAY, MANAGEMENT_INTERFACE
from testbed.twin.namespaces import keep_mounts_private, mount
from testbed.twin.netlink import Network, token_bucket

_KERNEL = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv4/tcp_congestion_control": "reno",
    "ipv4/tcp_slow_start_after_idle": "0",
}
"""What hosts set, by its place under /proc/sys/net, so that a twin is the same on every machine.
BBR sends next to nothing for 200 ms every 10 s, and a connection that begins slowly again after a
pause of 200 ms does so in most rounds of a collective."""


@dataclass(frozen=True, slots=True)
class HostSetup:
    """What a virtual host must know to start."""

    name: str
    address: str
    ssh_port: int
    interfaces: tuple[str, ...]
    """Names of the fabric ports' interfaces."""
    rate: float
    """What each fabric port can send, in bit/s."""
    clock_offset: int
    """Nanoseconds that the host's monotonic clock is ahead of the sandbox's."""
    clock_drift: int
    """Nanoseconds that it gains in a second."""
    path: str
    """Where commands are found."""
    host_key: str
    """Path of the SSH server's private key."""
    client_key: str
    """The public key that may log in, as any user."""
    others: tuple[str, ...] = ()
    """Addresses of the other hosts on the management network."""


def run_host(setup: HostSetup, channel: socket.socket) -> int:
    """Be the host's first process until its power is cut.

    Wait on `channel` until the links are there, then answer "up" or what went wrong.
    """
    keep_mounts_private()
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    host_key = asyncssh.read_private_key(setup.host_key)  # from the /run that others share
    mount("tmpfs", "/run", "tmpfs", "mode=0755")  # emptied by every start, as on a real host
    write_clock(Path(clock_rate.DIRECTORY), setup.clock_drift)
    socket.sethostname(setup.name)
    channel.recv(16)
    try:
        _bring_up_network(setup)
    except OSError as error:
        channel.send(f"error: {error}".encode())
        return 1
    if os.fork() == 0:
        _serve_ssh(setup, host_key, channel)
        os._exit(0)
    channel.close()
    return _reap_forever()


def write_clock(place: Path, gain: int) -> None:
    """Let every Python that starts with `place` in PYTHONPATH have a clock of another rate."""
    place.mkdir()
    start = f"{inspect.getsource(clock_rate)}\n\nrun_at({gain})\n"
    place.joinpath("sitecustomize.py").write_text(start)


def _reap_forever() -> int:
    """Collect every process that ends on the host, whoever started it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return 1  # the SSH server is gone too: nobody can reach this host any more
        signal.sigwait({signal.SIGCHLD})


def _bring_up_network(setup: HostSetup) -> None:
    for name, value in _KERNEL.items():
        Path("/proc/sys/net", name).write_text(value)
    network = Network()
    network.set_up("lo", True)
    network.add_address(MANAGEMENT_INTERFACE, setup.address, 32)
    network.set_up(MANAGEMENT_INTERFACE, True)
    for address in (GATEWAY, *setup.others):
        network.add_route(address, MANAGEMENT_INTERFACE)
    for interface in setup.interfaces:
        network.shape(interface, setup.rate, token_bucket(setup.rate))
    network.close()


def _serve_ssh(setup: HostSetup, host_key: asyncssh.SSHKey, channel: socket.socket) -> None:
    logging.getLogger("asyncssh").setLevel(logging.ERROR)
    # asyncssh leaves one behind for every client that is lost without a word.
    warnings.filterwarnings("ignore", "coroutine 'Queue.join' was never awaited", RuntimeWarning)
    try:
        asyncio.run(_answer_ssh(setup, host_key, channel))
    except (OSError, asyncssh.Error) as error:
        channel.send(f"error: SSH server: {error}".encode())


async def _answer_ssh(setup: HostSetup, host_key: asyncssh.SSHKey, channel: socket.socket) -> None:
    own = {"HOSTNAME": setup.name, "PYTHONPATH": clock_rate.DIRECTORY}
    shell = Shell({"PATH": setup.path, "HOME": "/", "LANG": "C.UTF-8", **own})
    server = await asyncssh.listen(
        setup.address,
        setup.ssh_port,
        server_host_keys=[host_key],
        authorized_client_keys=asyncssh.import_authorized_keys(setup.client_key),
        process_factory=shell.run,
        encoding=None,
        line_editor=False,
    )
    channel.send(b"up")
    await server.wait_closed()


def _close(stdin: asyncio.StreamWriter, gone: asyncio.Future[None]) -> None:
    stdin.close()
    if not gone.cancelled():
        gone.exception()  # whatever it is, the client has gone


class Shell:
    """Run what clients ask for, as a login shell of the host would, in an environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    async def run(self, client: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run a client's command to its end; its input ends with the client, if not before."""
        arguments = ["sh", "-c", client.command] if client.command else ["sh", "-l"]
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self._environment, **(client.env or {})},
            start_new_session=True,
        )
        assert process.stdin is not None
        # Of a client that goes before all is connected nobody else would tell the command, which
        # would wait for its input for ever.
        gone = asyncio.ensure_future(client.wait_closed())
        gone.add_done_callback(partial(_close, process.stdin))
        await client.redirect(process.stdin, process.stdout, process.stderr)
        code = await process.wait()
        await client.stdout.drain()
        await client.stderr.drain()
        client.exit(code if code >= 0 else 128 - code)
