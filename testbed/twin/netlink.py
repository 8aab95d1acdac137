"""Configure the twin's network by netlink; the only importer of pyroute2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from testbed.twin.namespaces import NEWNET, setns, unshare
from testbed.twin.redirect_filters import RedirectFilters

_INGRESS = 0xFFFF0000

_QUEUE = "500ms"
"""What may wait at a port: more than TCP has on its way, for a port that is busy makes its host
wait and loses nothing."""

_WITHOUT_HEADERS = 0.9
"""Share of a bucket that TCP may hand on as one: the bucket counts the headers of each frame."""

_LARGEST = 65536
"""Bytes that TCP hands on as one unless told otherwise."""

_RPS = Path("/proc/sys/net/core/rps_default_mask")
_WORD = 32
"""Processors that fit into the mask without a comma; a twin needs no more for its frames."""


class Network:
    """The links of one network namespace, by name; callable from any thread.

    A thread of its own lives in the namespace and does all the work: pyroute2 keeps a socket for
    every thread that calls it, opened in whatever namespace that thread is in.
    """

    def __init__(self, namespace: int | None = None) -> None:
        """Open this thread's namespace, or the one behind the file descriptor `namespace`."""
        self._worker = ThreadPoolExecutor(1, "network", self._enter, (namespace,))
        self._index: dict[str, int] = {}

    def _enter(self, namespace: int | None) -> None:
        if namespace is not None:
            setns(namespace, NEWNET)
        self._route = IPRoute()
        self._filters = RedirectFilters()

    def close(self) -> None:
        """Close the netlink socket and end the thread."""
        self._worker.submit(lambda: self._route.close()).result()
        self._filters.close()
        self._worker.shutdown()

    def _do(self, what: str, call: str, *arguments: Any, **named: Any) -> Any:
        """Call a function of pyroute2 in the thread; an OSError says what was to be done."""
        try:
            return self._worker.submit(
                lambda: getattr(self._route, call)(*arguments, **named)
            ).result()
        except NetlinkError as error:
            raise OSError(error.code, f"{what}: {os.strerror(error.code)}") from error

    def index(self, name: str) -> int:
        """Return a link's interface index; raise OSError when there is no such link."""
        if name not in self._index:
            found = self._do(f"look up {name}", "link_lookup", ifname=name)
            if not found:
                raise OSError(f"no network interface {name!r}")
            self._index[name] = found[0]
        return self._index[name]

    def add_bridge(self, name: str) -> None:
        """Add a bridge and bring it up.

        Its hardware address is set explicitly: the kernel would use that of one of its ports, and
        when that port vanished with its host's power, all others would send to the old address
        until their next ARP request.
        """
        address = _hardware_address(0)
        self._link(f"add bridge {name}", "add", ifname=name, kind="bridge", address=address)
        self.set_up(name, True)

    def add_pair(self, name: str, peer: str, namespace: int, index: int) -> None:
        """Add a veth pair: `name` here, `peer` in the namespace behind an open file. Both down.

        The peer's hardware address follows from `index`, so that it survives a power cut as that
        of a real port does. `index` must be larger than any in the other namespace: where both
        ends happen to have the same one, the kernel takes the link for a physical one and reports
        its carrier up to a second late (net/core/link_watch.c, linkwatch_urgent_event).
        """
        far = {"ifname": peer, "net_ns_fd": namespace, "address": _hardware_address(index)}
        self._link(f"add link {name}", "add", ifname=name, index=index, kind="veth", peer=far)

    def remove(self, name: str) -> None:
        """Remove a link, and with it the other end of a veth pair."""
        self._link(f"remove link {name}", "del", index=self.index(name))
        del self._index[name]

    def enslave(self, name: str, bridge: str) -> None:
        """Attach a link to a bridge and bring it up."""
        ends = {"index": self.index(name), "master": self.index(bridge)}
        self._link(f"plug {name} into {bridge}", "set", state="up", **ends)

    def set_up(self, name: str, up: bool) -> None:
        """Bring a link up or down; the other end of a veth pair gains or loses its carrier."""
        state = "up" if up else "down"
        self._link(f"set {name} {state}", "set", index=self.index(name), state=state)

    def add_address(self, name: str, address: str, prefix: int) -> None:
        """Give a link an IPv4 address."""
        where = {"index": self.index(name), "address": address, "prefixlen": prefix}
        self._do(f"add address {address} to {name}", "addr", "add", **where)

    def add_route(self, destination: str, name: str) -> None:
        """Add a route to one address directly over a link."""
        where = {"dst": f"{destination}/32", "oif": self.index(name), "scope": "link"}
        self._do(f"add route to {destination}", "route", "add", **where)

    def shape(self, name: str, rate: float) -> None:
        """Limit what a link sends to `rate` bit/s with a token bucket.

        Segmentation offload is limited to the size of the bucket: the kernel would split larger
        packets into single frames, which takes a multiple of the processor time.
        """
        burst = _bucket(rate)
        limits = {"rate": int(rate / 8), "burst": burst, "latency": _QUEUE}
        self._tc(f"shape {name}", "add", "tbf", name, handle=0, **limits)
        largest = min(int(burst * _WITHOUT_HEADERS), _LARGEST)
        self._link(f"shape {name}", "set", index=self.index(name), gso_max_size=largest)

    def accept_redirects(self, name: str) -> None:
        """Prepare a link for `redirect`."""
        self._tc(f"add ingress to {name}", "add", "ingress", name, handle=_INGRESS)

    def redirect(self, source: str, sink: str) -> None:
        """Redirect every frame that arrives at `source` to be sent out of `sink`."""
        ends = self.index(source), self.index(sink)
        with _named(f"redirect {source} to {sink}"):
            self._filters.add(*ends)

    def stop_redirect(self, source: str) -> None:
        """Remove the redirect, so that frames that arrive at `source` are dropped."""
        index = self.index(source)
        with _named(f"stop redirect of {source}"):
            self._filters.remove(index)

    def _link(self, what: str, command: str, **arguments: Any) -> None:
        self._do(what, "link", command, **arguments)

    def _tc(self, what: str, command: str, kind: str, name: str, **arguments: Any) -> None:
        self._do(what, "tc", command, kind, self.index(name), **arguments)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Let an OSError say what was to be done."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{what}: {error.strerror or error}") from error


def _hardware_address(index: int) -> str:
    """Return a locally administered address (IEEE 802, first octet x2) made from a number."""
    return ":".join(f"{octet:02x}" for octet in (0x02, 0x54, *index.to_bytes(4, "big")))


def _bucket(rate: float) -> int:
    """Return the bucket, in bytes, that carries `rate` bit/s without a large credit after a pause.

    Measured on two cores: 16 kB at 100 Mbit/s and 128 kB at 500 and 1000 Mbit/s deliver 95 % of
    the rate as payload; less starves, more lets short messages exceed the line rate.
    """
    return int(min(max(rate / 8 * 2e-3, 16e3), 128e3))


def open_namespace(pid: int | str) -> int:
    """Return a file descriptor of a process's network namespace, which keeps it alive."""
    return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def keep_frames_in_order() -> None:
    """Enable RPS by default for new links of this network namespace.

    One CPU then receives all frames of a flow. Without RPS each frame is received on the CPU that
    sent it, so a flow sent from two CPUs is reordered, which TCP interprets as loss. Kernels before
    6.3 have no such default; there this does nothing. Documentation/networking/scaling.rst.
    """
    processors = min(os.cpu_count() or 1, _WORD)
    with suppress(OSError):
        _RPS.write_text(f"{2**processors - 1:x}")


def new_network_namespace() -> int:
    """Return a file descriptor of a new network namespace, made by a thread that then ends."""

    def make() -> int:
        unshare(NEWNET)
        keep_frames_in_order()
        return open_namespace("thread-self")

    with ThreadPoolExecutor(1) as worker:
        return worker.submit(make).result()
