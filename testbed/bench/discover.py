"""Find instruments: query the identity at an address or on a serial line with every driver.

Nothing is changed. Networks are never scanned: the user names the addresses, as others use the
lab's network too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from testbed.bench.contracts import Identity, no_transcript
from testbed.clock import Deadline
from testbed.errors import TestbedError
from testbed.plugins import Kind, kinds

LIMIT = 1.5
"""Seconds that each question may take: ten times what an identity takes at 9600 baud."""

_BY_ID = Path("/dev/serial/by-id")
_SERIAL_DEVICES = ("ttyUSB*", "ttyACM*", "ttyS*")
_CONSOLES = Path("/sys/class/tty/console/active")


@dataclass(frozen=True, slots=True)
class DiscoveredInstrument:
    """An instrument that answered, with its entry for a lab file."""

    role: str
    driver: str
    resource: str
    identity: Identity
    ports: int | None
    """How many ports a switch has."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry for a lab file, with the role and identity of the instrument."""
        entry: dict[str, Any] = {"driver": self.driver, "resource": self.resource}
        entry["identity"] = self.identity.serial
        if self.ports is not None:
            entry["ports"] = [f"1-{self.ports}"]
        return {"role": self.role, "what": str(self.identity), "entry": entry}


def serial_devices() -> list[str]:
    """Return the serial devices of this machine, by their persistent names where they have one.

    Consoles of this machine are left out: they carry logins or the kernel's log.
    """
    consoles = _CONSOLES.read_text().split() if _CONSOLES.exists() else []
    seen = {Path("/dev") / name for name in consoles}
    by_id = sorted(_BY_ID.iterdir()) if _BY_ID.is_dir() else []
    others = [path for what in _SERIAL_DEVICES for path in sorted(Path("/dev").glob(what))]
    found = []
    for path in (*by_id, *others):
        if path.resolve() not in seen:
            seen.add(path.resolve())
            found.append(str(path))
    return found


def discover(
    hosts: Iterable[str], devices: Iterable[str], say: Callable[[str], None] = lambda _: None
) -> list[DiscoveredInstrument]:
    """Query the identity at every address and serial device, in parallel.

    One serial device is tried with one driver after the other. `say` is called from several threads
    with a line on each attempt.
    """
    hosts = list(dict.fromkeys(hosts))
    questions = [(host, partial(_ask, *each)) for host in hosts for each in _at_host(host)]
    questions += [(device, partial(_ask_device, device, say)) for device in devices]
    if not questions:
        return []
    if hosts:
        drivers = ", ".join(name for name, _, _ in _at_host(""))
        say(f"asking {', '.join(hosts)} as {drivers}, at most {LIMIT:g} s each")
    with ThreadPoolExecutor(len(questions)) as pool:
        answers = list(pool.map(lambda question: question[1](), questions))
    for host in hosts:
        if not any(answers[n] for n, (place, _) in enumerate(questions) if place == host):
            say(f"no instrument answered at {host}")
    return [found for found in answers if found is not None]


def _at_host(host: str) -> Iterator[tuple[str, Kind, str]]:
    """Yield the drivers whose boxes identify themselves without a login, and their resource."""
    for name, kind in kinds("drivers").items():
        if "{host}" in kind.resource and not kind.needs:
            yield name, kind, kind.resource.format(host=host)


def _ask_device(device: str, say: Callable[[str], None]) -> DiscoveredInstrument | None:
    for name, kind in kinds("drivers").items():
        if hasattr(kind.options(), "baud"):
            say(f"asking {device} as {name}, at most {LIMIT:g} s")
            if found := _ask(name, kind, device):
                return found
    return None


def _ask(driver: str, kind: Kind, resource: str) -> DiscoveredInstrument | None:
    """Open an instrument with a driver; None when another kind of box answers, or none."""
    usable = () if kind.role == "power" else (frozenset[int](),)
    box = kind.load()(driver, resource, *usable, None, kind.options(), no_transcript)
    ports = None
    try:
        identity = box.open(Deadline.after(LIMIT))
        if kind.role == "switch":
            ports = len(box.capabilities.ingress | box.capabilities.egress)
    except TestbedError:
        return None
    finally:
        box.close()
    return DiscoveredInstrument(kind.role, driver, resource, identity, ports)
