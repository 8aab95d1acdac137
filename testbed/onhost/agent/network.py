"""Set up addresses, routes and neighbour entries of fabric ports, and remove them again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_LIMIT = 5.0
_PAUSE = 0.01


class Change(NamedTuple):
    """One setting of a port to add or remove: an address, a route, a neighbour, or link up."""

    what: str
    interface: str
    to: str = ""
    """The address, or the peer's."""
    how: str = ""
    """The metric of a route, the hardware address of a neighbour."""

    def __str__(self) -> str:
        return f"{self.interface} {self.what} {self.to}".rstrip()

    @property
    def make(self) -> str:
        """Return the arguments of `ip` that make the change."""
        return _COMMANDS[self.what][0].format(**self._asdict())

    @property
    def undo(self) -> str:
        """Return the arguments of `ip` that undo the change."""
        return _COMMANDS[self.what][1].format(**self._asdict())


_COMMANDS = {
    # Without the route to its subnet: every peer gets a route of its own over every port.
    "address": ("addr add {to} dev {interface} noprefixroute", "addr del {to} dev {interface}"),
    "up": ("link set {interface} up", "link set {interface} down"),
    "route": (
        "route add {to}/32 dev {interface} metric {how} scope link",
        "route del {to}/32 dev {interface} metric {how}",
    ),
    "neighbour": (
        "neigh replace {to} dev {interface} lladdr {how} nud permanent",
        "neigh del {to} dev {interface}",
    ),
}
"""What `ip` is told to make a change, and to undo it."""


def missing(ports: dict[str, dict[str, str]], peers: dict[str, str]) -> list[Change]:
    """Return the changes needed so that every port is up and reaches each peer.

    `peers` are addresses with the hardware address of each. Sockets choose their port by binding to
    it, so every peer has a route and a neighbour entry over every port; the metrics keep the routes
    apart, and fixed neighbours save a circuit that has just come up from ARP and its retries a
    second apart. Existing settings are kept, now and at undo. Raise OSError for a missing
    interface, or with the output of `ip`.
    """
    links = _links()
    there = {(c.what, c.interface, c.to) for c in _present(links)}
    changes: list[Change] = []
    for number, spec in enumerate(ports.values(), 1):
        interface = spec["interface"]
        if interface not in links:
            raise OSError(f"there is no interface {interface}")
        wanted = [Change("address", interface, spec["address"]), Change("up", interface)]
        for peer, hardware in peers.items():
            wanted.append(Change("route", interface, peer, str(number)))
            wanted.append(Change("neighbour", interface, peer, hardware))
        changes += [c for c in wanted if (c.what, c.interface, c.to) not in there]
    return changes


def make(changes: list[Change], *, sudo: bool) -> None:
    """Make changes in their order; raise OSError with the output of `ip`.

    Only with `sudo`, and where this process is not root, does `sudo -n` run `ip`.
    """
    if changes:
        _batch([change.make for change in changes], sudo=sudo)


def why_sudo_fails() -> str:
    """Return why `sudo -n` would not run `ip`, having tried it; empty as root, or if it would."""
    try:
        if os.geteuid() != 0:
            _ip(["-V"], "", "sudo", "-n")
    except OSError as error:
        return str(error)
    return ""


def revert(changes: list[Change], *, sudo: bool) -> list[Change]:
    """Revert changes, last first; return those that could not be reverted.

    What is gone is left out: a port that was down has lost its routes and neighbours, and at a
    neighbour that is not there `ip` ends its batch, with -force too.
    """
    left = _still_there(changes)
    if not left:
        return []
    with suppress(OSError):  # some may have gone just now; what counts is what is still there
        _batch([change.undo for change in reversed(left)], "-force", sudo=sudo)
    return _still_there(left)


def _still_there(changes: list[Change]) -> list[Change]:
    there = _present(_links()) if changes else set()
    return [change for change in changes if change in there]


def await_others(limit: float) -> None:
    """Wait until no `ip` command is changing this host any more.

    An `ip` process whose agent was killed still completes its batch of changes.
    """
    end = time.monotonic() + limit
    while _is_at_work() and time.monotonic() < end:
        time.sleep(_PAUSE)


def _is_at_work() -> bool:
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = command.read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
        if words[0].rpartition(b"/")[2] == b"ip" and b"-batch" in words:
            return True
    return False


def _present(links: dict[str, dict[str, Any]]) -> set[Change]:
    """Return all that could be a change of ours, whichever process made it."""
    found = set()
    for name, link in links.items():
        if "UP" in link["flags"]:
            found.add(Change("up", name))
        for address in link.get("addr_info", []):
            found.add(Change("address", name, f"{address['local']}/{address['prefixlen']}"))
    for route in _read("-4", "route", "show"):
        metric = str(route.get("metric", 0))
        found.add(Change("route", route.get("dev", ""), route["dst"], metric))
    for neighbour in _read("neigh", "show", "nud", "permanent"):
        hardware = neighbour.get("lladdr", "")
        found.add(Change("neighbour", neighbour["dev"], neighbour["dst"], hardware))
    return found


def _links() -> dict[str, dict[str, Any]]:
    return {link["ifname"]: link for link in _read("addr", "show")}


def _read(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_ip(["-j", *arguments]) or "[]")
    return found


def _batch(lines: list[str], *flags: str, sudo: bool) -> None:
    arguments, text = [*flags, "-batch", "-"], "\n".join(lines) + "\n"
    if os.geteuid() == 0:
        _ip(arguments, text)
    elif sudo:
        _ip(arguments, text, "sudo", "-n")
    else:
        try:
            _ip(arguments, text)
        except OSError as error:
            remedy = "write `privilege: sudo` for this host in the lab file, or log in as root"
            raise OSError(f"{error}; {remedy}") from None


def _ip(arguments: list[str], text: str = "", *sudo: str) -> str:
    command = [*sudo, shutil.which("ip") or "/usr/sbin/ip", *arguments]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"`{' '.join(command)}` took more than {_LIMIT:.0f} s") from None
    if done.returncode != 0:
        said = ", ".join(done.stderr.strip().splitlines())
        raise OSError(f"`{' '.join(command)}` said: {said}")
    return done.stdout
