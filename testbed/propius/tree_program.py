"""A program for the ranks of a job `command`: rounds through a tree of parameter servers.

    python3 -m testbed.propius.tree_program LEAVES ADDRESS_OF_RANK_0

Rank 0 is the root and the job; every other rank is a site with six clients, and the first site of
each of LEAVES equal shares has their leaf. Without leaves all clients call the root. The addresses
of ranks follow each other. Rank 0 prints how long each round took, and what it sent and received;
not of the first, in which it waits for the others to start.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any

import numpy as np

from testbed.clock import Deadline
from testbed.propius import data_pb2 as messages
from testbed.propius.rpc import Caller, Unreachable, calling
from testbed.propius.serve_data import LEAF, ROOT, serving_leaf, serving_root
from testbed.tenancy.aggregation import Code
from testbed.tenancy.tensors import TensorSpec, encode, size

ROUNDS, CLIENTS, PORT = 4, 6, 7010
MODEL = (TensorSpec("w", "float32", (250_000,)),)
"""A million bytes."""
FLUSH_AFTER = 0.5
"""Seconds without a push until a leaf sends its sum."""
_MEETING_S = 30.0
"""How long ranks wait for each other."""
_ROUND_S = 60.0


def main(leaves: int, first: str, rank: int, ranks: int) -> None:
    """Be the root, or a site of clients and perhaps a leaf, until all rounds are over."""
    if not 0 <= leaves < ranks or (leaves and (ranks - 1) % leaves):
        raise SystemExit(f"{ranks - 1} sites cannot be shared by {leaves} leaves")
    if rank == 0:
        _be_root(first, ranks - 1, ROOT if leaves else LEAF)
        return
    share = (ranks - 1) // leaves if leaves else ranks
    server = 1 + (rank - 1) // share * share if leaves else 0
    root = f"{first}:{PORT}"
    if server == rank:
        with calling(root, ROOT) as at_root:
            at_root.wait_until_up("Count", messages.Empty(), _MEETING_S)
            with serving_leaf(f"{_address(first, rank)}:{PORT}", root, FLUSH_AFTER) as where:
                _be_site(where, rank)
                at_root.wait_until_down("Count", messages.Empty(), _ROUND_S)
    else:
        _be_site(f"{_address(first, server)}:{PORT}", rank)


def _address(first: str, rank: int) -> str:
    return str(ip_address(first) + rank)


def _be_root(first: str, sites: int, called: Any) -> None:
    """Serve, and be the job; `called` is the service whose traffic is that of the root's line."""
    clients = sites * CLIENTS
    with ExitStack() as stack:
        where = stack.enter_context(serving_root(f"{first}:{PORT}", FLUSH_AFTER))
        root = stack.enter_context(calling(where, ROOT, _ROUND_S))
        line = stack.enter_context(calling(where, called, _ROUND_S))
        for number in range(1, ROUNDS + 1):
            before = line("Count", messages.Empty())
            begun = time.perf_counter()
            data = encode([np.full(MODEL[0].shape, number, np.float32)], MODEL)
            put = messages.Parameters(job="job", round=number, demand=clients, data=data)
            assert root("Put", put).code == Code.OK
            found = _result(root, number)
            took = time.perf_counter() - begun
            after = line("Count", messages.Empty())
            values = np.frombuffer(found.values, "<f8")
            assert (values == number * clients).all(), "the sum at the root is wrong"
            own = called is ROOT  # what the job itself sent and received is among it
            down = after.sent - before.sent - own * len(found.values)
            up = (after.received - before.received - own * len(data)) / size(MODEL)
            if number > 1:
                models = f"down {down / size(MODEL):.3f} models, up {up:.3f} models"
                print(f"round {number} took {took:.4f} s, {models}", flush=True)


def _result(root: Caller, number: int) -> Any:
    deadline = Deadline.after(_ROUND_S)
    while not deadline.passed:
        found = root("Result", messages.Round(job="job", round=number))
        if found.code == Code.OK:
            return found
        time.sleep(0.005)
    raise SystemExit(f"round {number} took longer than {_ROUND_S:g} s")


def _be_site(server: str, rank: int) -> None:
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda number: _be_client(server, f"{rank}.{number}"), range(CLIENTS)))


def _be_client(server: str, name: str) -> None:
    """Take part in every round: fetch parameters, and push them again as the update."""
    with calling(server, LEAF, _ROUND_S) as leaf:
        for number in range(1, ROUNDS + 1):
            found = _fetched(leaf, number)
            update = messages.Update(
                job="job", round=number, client=name, weight=1, data=found.data
            )
            assert leaf("Push", update).code == Code.OK


def _fetched(leaf: Caller, number: int) -> Any:
    deadline = Deadline.after(_MEETING_S)
    while not deadline.passed:
        try:
            found = leaf("Get", messages.Round(job="job", round=number))
        except Unreachable:
            found = None
        if found is not None and found.code == Code.OK:
            return found
        time.sleep(0.01)
    raise SystemExit(f"round {number} did not begin within {_MEETING_S:g} s")


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        sys.argv[2],
        int(os.environ["TESTBED_RANK"]),
        int(os.environ["TESTBED_RANKS"]),
    )
