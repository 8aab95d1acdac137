"""Show the SSH host keys of a lab's servers, and accept new ones.

A run trusts only keys that are in `known_hosts`, as the user's SSH configuration names that file. A
key is accepted when the user confirms its fingerprint; a changed key never is.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

import paramiko

from testbed.bench.ssh import Server, server
from testbed.clock import Deadline, bounded
from testbed.errors import LabError
from testbed.resource import Ssh, place
from testbed.schema import Lab

_LIMIT = 10.0

State = Literal["known", "unknown", "changed"]


@dataclass(frozen=True, slots=True)
class ShownKey:
    """The host key that an SSH server presents, and whether it is the known one."""

    subject: str
    server: Server
    kind: str
    fingerprint: str
    state: State
    line: str
    """As `known_hosts` has it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.fingerprint} of {self.server.name}"


def shown_keys(lab: Lab) -> dict[str, ShownKey | LabError]:
    """Return the host key of every SSH server of a lab, or the error, by host or instrument.

    All servers are queried in parallel, ten seconds each at most, without a login.
    """
    asked = {name: partial(server, host.ssh) for name, host in lab.hosts.items()}
    for name, box in lab.instruments().items():
        where = place(box.resource)
        if isinstance(where, Ssh):
            asked[name] = partial(Server.plain, where.host, where.port)
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        return dict(zip(asked, pool.map(_ask, asked, asked.values()), strict=True))


def accept(keys: Iterable[ShownKey]) -> None:
    """Write unknown keys to the `known_hosts` file of their server, readable by its owner only."""
    for key in keys:
        file = key.server.known_hosts[0]
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)
            text = file.read_text()
            gap = "" if text.endswith("\n") or not text else "\n"
            with file.open("a") as known:
                known.write(f"{gap}{key.line}\n")
        except OSError as error:
            raise LabError(
                f"{key.subject}: writing {file} failed: {error.strerror}",
                hint="check that you may write this file",
            ) from error


def _ask(subject: str, find: Callable[[], Server]) -> ShownKey | LabError:
    deadline = Deadline.after(_LIMIT)
    try:
        return bounded(lambda: _shown(subject, find(), deadline), deadline, lambda key: None)
    except (OSError, EOFError, paramiko.SSHException) as error:
        return LabError(
            f"it showed no key: {error or 'it closed the connection'}",
            hint="check that SSH is enabled there",
        )
    except LabError as error:
        return error


def _shown(subject: str, where: Server, deadline: Deadline) -> ShownKey:
    known = _known_to(where)
    with socket.create_connection((where.host, where.port), deadline.left) as line:
        transport = paramiko.Transport(line)
        try:
            options = transport.get_security_options()
            # A server may have several keys: ask for one of the kind that we know, as ssh does.
            options.key_types = sorted(options.key_types, key=lambda kind: kind not in known)
            transport.start_client(timeout=deadline.left)
            key = transport.get_remote_server_key()
        finally:
            transport.close()
    state: State = "unknown"
    if known:
        state = "known" if known.get(key.get_name()) == key else "changed"
    line_of_file = f"{where.name} {key.get_name()} {key.get_base64()}"
    return ShownKey(subject, where, key.get_name(), key.fingerprint, state, line_of_file)


def _known_to(where: Server) -> dict[str, paramiko.PKey]:
    """Return the keys of a server that we know, by their kind."""
    keys = paramiko.HostKeys()
    for file in where.known_hosts:
        if file.is_file():
            keys.load(str(file))
    return dict(keys.lookup(where.name) or {})
