"""Parse the resource strings of instruments: VISA names, tty names and URLs.

Drivers connect to the parsed address; the twin serves it. Grammar of VISA names: VPP-4.3, section
4.3.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Tcp:
    """A TCP port of a host; `tls` when the connection is encrypted."""

    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Ssh(Tcp):
    """An SSH server; `user` is empty when the resource names none."""

    user: str = ""


@dataclass(frozen=True, slots=True)
class Tty:
    """A serial line by its device name."""

    path: str


@dataclass(frozen=True, slots=True)
class OtherVisa:
    """A VISA resource that only a VISA library can open: GPIB, USB, VXI-11, HiSLIP."""

    name: str


Place = Tcp | Tty | OtherVisa

_SOCKET = re.compile(r"TCPIP\d*::(?P<host>[^:]+|\[[^\]]+\])::(?P<port>\d+)::SOCKET", re.IGNORECASE)
_ASRL = re.compile(r"ASRL(?P<path>/[^:]+|COM\d+)(::INSTR)?", re.IGNORECASE)
_DEVICE = re.compile(r"/dev/.+|COM\d+", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443, "ssh": 22}


def is_visa(resource: str) -> bool:
    """Return whether a resource is written as a VISA resource name."""
    # A URL may hold an IPv6 address, which has colons of its own.
    is_url = "://" in resource
    return not is_url and ("::" in resource or resource.upper().startswith("ASRL"))


def way(resource: str) -> str:
    """Return how a resource is reached: `tcp`, `http`, `ssh`, `serial` or `visa`.

    `visa` is for resources that only a VISA library can open. Raise ValueError as `place` does.
    """
    match place(resource):
        case Ssh():
            return "ssh"
        case Tty():
            return "serial"
        case OtherVisa():
            return "visa"
        case _:
            return "http" if urlsplit(resource).scheme in ("http", "https") else "tcp"


def place(resource: str) -> Place:
    """Parse a resource string; raise ValueError with the valid forms."""
    if match := _SOCKET.fullmatch(resource):
        return Tcp(match["host"].strip("[]"), _port(resource, int(match["port"])))
    if match := _ASRL.fullmatch(resource):
        return Tty(match["path"])
    if _DEVICE.fullmatch(resource):
        return Tty(resource)
    if is_visa(resource):
        return OtherVisa(resource)
    url = urlsplit(resource)
    port = url.port if url.port is not None else _DEFAULT_PORTS.get(url.scheme)
    if url.password is not None:
        raise ValueError(
            "a resource must not contain a password; give it as an option, by reference"
        )
    if url.scheme == "ssh" and url.hostname and port is not None:
        return Ssh(url.hostname, _port(resource, port), user=url.username or "")
    if url.scheme in (*_DEFAULT_PORTS, "tcp") and url.hostname and port is not None:
        return Tcp(url.hostname, _port(resource, port), tls=url.scheme == "https")
    raise ValueError(
        f"{resource!r} is not the address of an instrument; write "
        "'TCPIP::192.0.2.10::5025::SOCKET', 'ASRL/dev/ttyUSB0::INSTR', '/dev/ttyUSB0', "
        "'tcp://192.0.2.10:3082', 'ssh://admin@192.0.2.10' or 'https://192.0.2.11'"
    )


def _port(resource: str, number: int) -> int:
    if not 1 <= number <= 65535:
        raise ValueError(f"{resource!r} names TCP port {number}; there are 1 to 65535")
    return number
