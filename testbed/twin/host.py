"""A virtual host from inside: its first process, its network and its SSH server."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import sysconfig
import warnings
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.constants import MSG_IGNORE

from testbed.twin import clock_rate, machine
from testbed.twin.layout import GATEWAY, MANAGEMENT_INTERFACE, HostLayout
from testbed.twin.namespaces import keep_mounts_private, mount
from testbed.twin.netlink import Network

_KERNEL = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv4/tcp_congestion_control": "reno",
    "ipv4/tcp_slow_start_after_idle": "0",
}
"""What hosts set, by its place under /proc/sys/net, so that a twin is the same on every machine.
BBR sends next to nothing for 200 ms every 10 s, and a connection that begins slowly again after a
pause of 200 ms does so in most rounds of a collective."""


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The settings that all virtual hosts of a twin have in common."""

    hosts: Mapping[str, HostLayout]
    rate: float
    """What each fabric port can send, in bit/s."""
    client_key: str
    """The public key that may log in, as any user."""


def run_host(host: HostLayout, settings: HostSettings, channel: socket.socket) -> int:
    """Run the host's first process, which collects ended processes, until its power is cut.

    Wait on `channel` until the links exist, then answer "up" or an error.
    """
    keep_mounts_private()
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    host_key = asyncssh.read_private_key(machine.host_key(host.name))  # from the shared /run
    mount("tmpfs", "/run", "tmpfs", "mode=0755")  # emptied by every start, as on a real host
    write_clock(Path(clock_rate.DIRECTORY), host.clock_drift)
    socket.sethostname(host.name)
    channel.recv(16)
    try:
        _bring_up_network(host, settings)
    except OSError as error:
        channel.send(f"error: {error}".encode())
        return 1
    if os.fork() == 0:
        _serve_ssh(_answer_ssh(host, host_key, settings.client_key, channel), channel)
        os._exit(0)
    channel.close()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while machine.reap():
        signal.sigwait({signal.SIGCHLD})
    return 1  # the SSH server has ended too: nothing can reach this host any more


def write_clock(place: Path, gain: int) -> None:
    """Make every Python started with `place` in PYTHONPATH use a clock of another rate."""
    place.mkdir()
    start = f"{inspect.getsource(clock_rate)}\n\nrun_at({gain})\n"
    place.joinpath("sitecustomize.py").write_text(start)


def _bring_up_network(host: HostLayout, settings: HostSettings) -> None:
    for name, value in _KERNEL.items():
        Path("/proc/sys/net", name).write_text(value)
    network = Network()
    network.set_up("lo", True)
    network.add_address(MANAGEMENT_INTERFACE, host.address, 32)
    network.set_up(MANAGEMENT_INTERFACE, True)
    others = [other.address for other in settings.hosts.values() if other is not host]
    for address in (GATEWAY, *others):
        network.add_route(address, MANAGEMENT_INTERFACE)
    for link in host.links:
        network.shape(link.interface, settings.rate)
    network.close()


def _serve_ssh(server: Coroutine[Any, Any, None], channel: socket.socket) -> None:
    logging.getLogger("asyncssh").setLevel(logging.ERROR)
    # asyncssh leaves one behind for every client that is lost without a word.
    warnings.filterwarnings("ignore", "coroutine 'Queue.join' was never awaited", RuntimeWarning)
    try:
        asyncio.run(server)
    except (OSError, asyncssh.Error) as error:
        channel.send(f"error: SSH server: {error}".encode())


async def _answer_ssh(
    host: HostLayout, host_key: asyncssh.SSHKey, client_key: str, channel: socket.socket
) -> None:
    path = f"{sysconfig.get_path('scripts')}:{os.environ.get('PATH', os.defpath)}"
    own = {"HOSTNAME": host.name, "PYTHONPATH": clock_rate.DIRECTORY}
    environment = {"PATH": path, "HOME": "/", "LANG": "C.UTF-8", **own}
    server = await asyncssh.listen(
        host.address,
        host.ssh_port,
        server_host_keys=[host_key],
        authorized_client_keys=asyncssh.import_authorized_keys(client_key),
        process_factory=partial(run_command, environment),
        encoding=None,
        line_editor=False,
    )
    channel.send(b"up")
    await server.wait_closed()


def _close(stdin: asyncio.StreamWriter, gone: asyncio.Future[None]) -> None:
    stdin.close()
    if not gone.cancelled():
        gone.exception()  # whatever it is, the client has gone


def _send_nothing_empty(connection: Any) -> None:
    """Have a connection send no packets without content, as OpenSSH sends none.

    asyncssh sends one before each other packet, against an attack on ciphers in CBC mode (RFC 4251,
    section 9.3.1). It offers none of those, so both sides only spend processor time on it.
    """
    send = connection.send_packet

    def send_packet(kind: int, *parts: bytes, **options: Any) -> None:
        if kind != MSG_IGNORE:
            send(kind, *parts, **options)

    connection.send_packet = send_packet


async def run_command(
    environment: Mapping[str, str], client: asyncssh.SSHServerProcess[bytes]
) -> None:
    """Run a client's command to its end, as a login shell of the host would.

    Its input ends with the client, if not before. As from OpenSSH, it learns both ends of the
    connection (`SSH_CONNECTION` of ssh(1)).
    """
    _send_nothing_empty(client.channel.get_connection())
    ends = (client.get_extra_info(end)[:2] for end in ("peername", "sockname"))
    connection = " ".join(str(part) for end in ends for part in end)
    arguments = ["sh", "-c", client.command] if client.command else ["sh", "-l"]
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**environment, **(client.env or {}), "SSH_CONNECTION": connection},
        start_new_session=True,
    )
    assert process.stdin is not None
    # Where a client goes before all is connected, nothing else would end the command's input, for
    # which it would wait for ever.
    gone = asyncio.ensure_future(client.wait_closed())
    gone.add_done_callback(partial(_close, process.stdin))
    await client.redirect(process.stdin, process.stdout, process.stderr)
    code = await process.wait()
    await client.stdout.drain()
    await client.stderr.drain()
    client.exit(code if code >= 0 else 128 - code)
