"""Convert addresses of devices to one normal form, whatever name or alias a lab file uses.

A name is resolved once in a process, so that a lease is taken and checked under the same address.
Addresses that are local to this machine (a serial line, a loopback address, a GPIB bus) carry its
name, for controllers that share a store of leases.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from testbed.clock import Deadline, bounded
from testbed.resource import Tcp, Tty, place

_LIMIT = 5.0
"""Seconds in which the name service must answer; an unknown name is used as it is."""
_AT_A_TIME = 32
_LAN = re.compile(r"TCPIP\d*::(?P<host>[^:]+|\[[^\]]+\])(?P<rest>::.*)", re.IGNORECASE)

_known: dict[str, tuple[str, ...]] = {}


@cache
def of_resource(resource: str) -> tuple[str, ...]:
    """Return every address of an instrument; instruments on one line have the same addresses."""
    match place(resource):
        case Tcp(host, port):
            return of_port(host, port)
        case Tty(path):
            return (_on_this_machine(_device(path)),)
        case other:
            name = other.name.upper().removesuffix("::INSTR")
            if lan := _LAN.fullmatch(name):
                found = _numeric(lan["host"].strip("[]"))
                return tuple(_local(a, f"{a}{lan['rest']}") for a in found)
            return (_on_this_machine(name),)


@cache
def of_target(target: str) -> tuple[str, ...]:
    """Return the addresses of an SSH target by the user's SSH configuration."""
    from testbed.bench.ssh import whereabouts  # takes a while to import, and not all need it

    name, port, gateway = whereabouts(target)
    if gateway:  # its name is resolved there, not here
        return (f"{name.lower()}:{port} through {gateway}",)
    return of_port(name, port)


def of_port(host: str, port: int) -> tuple[str, ...]:
    """Return every address of a TCP port of a machine, which is given by name or IP address."""
    return tuple(_local(a, f"[{a}]:{port}" if ":" in a else f"{a}:{port}") for a in _numeric(host))


def of_name(name: str) -> tuple[str, ...]:
    """Return the numeric addresses of a machine; its name where the name service knows none."""
    return _numeric(name)


def of_machine(target: str) -> tuple[str, ...]:
    """Return the numeric addresses of an SSH target's machine, by the user's SSH configuration.

    Its name is returned where the name service knows none, or where it is reached through another.
    """
    from testbed.bench.ssh import whereabouts  # takes a while to import, and not all need it

    name, _, gateway = whereabouts(target)
    return (name,) if gateway else _numeric(name)


def look_up(hosts: Iterable[str]) -> None:
    """Resolve host names in parallel, so that a silent name server delays only once."""
    wanted = sorted({host.lower() for host in hosts} - _known.keys())
    if wanted:
        deadline = Deadline.after(_LIMIT)
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            list(pool.map(lambda host: _numeric(host, deadline), wanted))


def _numeric(host: str, deadline: Deadline | None = None) -> tuple[str, ...]:
    """Return the numeric addresses of a host; its name where the name service knows none."""
    host = host.lower()
    if host not in _known:  # of two threads that ask at once, both use what the first one found
        _known.setdefault(host, _looked_up(host, deadline or Deadline.after(_LIMIT)))
    return _known[host]


def _looked_up(host: str, deadline: Deadline) -> tuple[str, ...]:
    def ask() -> set[str]:
        rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return {str(row[4][0]) for row in rows}

    with suppress(ValueError):
        return (_spelt(host),)
    try:
        found = bounded(ask, deadline, set.clear)
    except (OSError, UnicodeError):
        return (host,)
    return tuple(sorted({_spelt(address) for address in found})) or (host,)


def _spelt(address: str) -> str:
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    return str(found)


def _local(address: str, what: str) -> str:
    """Return `what`, with this machine's name where the address is local to it."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address)
        if found.is_loopback or "%" in address:
            return _on_this_machine(what)
    return what


def _device(path: str) -> str:
    """Return a serial line by its device number, which is the same for all links to it."""
    try:
        found = Path(path).stat()
    except OSError:
        return str(Path(path))
    if stat.S_ISCHR(found.st_mode):
        return f"tty {os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    return os.path.realpath(path)


def _on_this_machine(what: str) -> str:
    return f"{what} of {socket.gethostname()}"
