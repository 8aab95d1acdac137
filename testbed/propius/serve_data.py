"""Start a parameter server: the root, or a leaf."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from testbed.propius.data_pb2 import DESCRIPTOR
from testbed.propius.leaf_server import LeafServer
from testbed.propius.root_server import RootServer
from testbed.propius.rpc import Caller, Server
from testbed.tenancy.leaf import FLUSH_AFTER

ROOT = DESCRIPTOR.services_by_name["Root"]
LEAF = DESCRIPTOR.services_by_name["Leaf"]


@contextmanager
def serving_root(address: str, flush_after: float = FLUSH_AFTER) -> Iterator[str]:
    """Serve the root at `HOST:PORT` until the context ends; yield the address with its port.

    Clients may call it as a leaf, too: it has one of its own.
    """
    root = RootServer()

    def ask(method: str, request: Any) -> Any:
        return root.get(request) if method == "Get" else root.add(request)

    leaf = LeafServer(f"root-{_start()}", ask, flush_after)
    with _sending(leaf):
        server = Server(address, [(ROOT, root), (LEAF, leaf)])
        try:
            yield server.address
        finally:
            server.close()


@contextmanager
def serving_leaf(address: str, root: str, flush_after: float = FLUSH_AFTER) -> Iterator[str]:
    """Serve a leaf of the root at `HOST:PORT` until the context ends, then send what is left."""
    above = Caller(root, ROOT)
    try:
        leaf = LeafServer(_start(), above, flush_after)
        with _sending(leaf):
            server = Server(address, [(LEAF, leaf)])
            try:
                yield server.address
            finally:
                server.close()
    finally:
        above.close()


def _start() -> str:
    """Return a name of this start of this process that no other has."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def _sending(leaf: LeafServer) -> Iterator[None]:
    stop = Event()
    thread = Thread(target=leaf.run, args=(stop,), name="leaf")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
