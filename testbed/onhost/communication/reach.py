"""Count which ranks a fabric port reaches, and which reach it, by datagrams over the circuits.

Datagrams are bound to the port, so that they take no other path, and broadcast, so that they arrive
wherever the light leads, whatever ARP knows of earlier circuits. A port answers those that are for
its rank, and counts them: light that goes astray one way only is noticed where it comes out.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Optional

from ..errors import Refused
from .sockets import Port

QUIET = 0.2
"""Seconds after the last question until what has not been answered is lost…"""
_PATIENCE = 2.0
"""… and the most, while the peer of a lit circuit has not answered all: the machine may be busy."""
_LARGEST = 512
_BROADCAST = "255.255.255.255"


class ReachPort:
    """One fabric port that asks all other ranks who they are, and answers those who ask.

    `numbers` are the UDP ports of all ranks. It answers in a thread of its own until it is closed.
    """

    def __init__(self, rank: int, port: Port, numbers: Mapping[int, int]) -> None:
        self._rank, self._numbers = rank, numbers
        self._to = port.address if port.interface is None else _BROADCAST
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if port.interface is not None:
            self._socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_BINDTODEVICE, os.fsencode(port.interface)
            )
        try:
            self._socket.bind(("", numbers[rank]))
        except OSError as error:
            self._socket.close()
            raise Refused(f"UDP port {numbers[rank]} cannot be used: {error}") from error
        self._socket.settimeout(0.1)
        self._nonces = itertools.count(1)
        self._sent: dict[int, tuple[int, float]] = {}
        """By nonce: which rank was asked, and when."""
        self._round_trips: dict[int, list[float]] = {}
        self._heard: Counter[tuple[int, int]] = Counter()
        """How often each rank has asked this one, by matching and rank."""
        self._closed = False
        self._thread = threading.Thread(target=self._answer, name="reach", daemon=True)
        self._thread.start()

    def ask(
        self,
        matching: int,
        count: int,
        interval: float,
        peer: Optional[int],
        check: Callable[[], None],
    ) -> dict[int, list[float]]:
        """Ask every other rank `count` times; return the seconds until each answer, by rank.

        `peer` is the rank that answers if its circuit carries data: it is waited for a little
        longer. An error of `check` ends the questions.
        """
        others = [rank for rank in self._numbers if rank != self._rank]
        self._sent.clear()
        self._round_trips = {rank: [] for rank in others}
        for _ in range(count):
            for rank in others:
                nonce = next(self._nonces)
                self._sent[nonce] = rank, time.monotonic()
                asked = {"ask": nonce, "from": self._rank, "to": rank, "matching": matching}
                self._send(asked, self._numbers[rank])
            check()
            time.sleep(interval)
        begin = time.monotonic()
        while (waited := time.monotonic() - begin) < _PATIENCE:
            check()
            if waited >= QUIET and (peer is None or len(self._round_trips[peer]) == count):
                break
            time.sleep(0.01)
        return {rank: list(times) for rank, times in self._round_trips.items()}

    def heard(self, matching: int) -> dict[int, int]:
        """Return how often each other rank has asked this one in a matching."""
        return {rank: self._heard[matching, rank] for rank in self._numbers if rank != self._rank}

    def close(self) -> None:
        """Stop answering."""
        self._closed = True
        self._thread.join()
        self._socket.close()

    def _answer(self) -> None:
        while not self._closed:
            try:
                data, sender = self._socket.recvfrom(_LARGEST)
            except OSError:  # nothing came for a while, or the port has no carrier
                continue
            arrived = time.monotonic()
            try:
                self._take(json.loads(data), int(sender[1]), arrived)
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # any host can send us anything

    def _take(self, said: Mapping[str, Any], sender: int, arrived: float) -> None:
        # A kernel hands its own broadcasts to its own sockets, too: those are for other ranks.
        if said["to"] != self._rank:
            return
        if "ask" in said:
            self._heard[int(said["matching"]), int(said["from"])] += 1
            answer = {"answer": said["ask"], "from": self._rank, "to": said["from"]}
            self._send(answer, sender)
        else:
            rank, asked = self._sent.pop(said["answer"])
            if rank == said["from"]:
                self._round_trips[rank].append(arrived - asked)

    def _send(self, message: Mapping[str, Any], number: int) -> None:
        with suppress(OSError):  # no carrier: the same as a lost datagram
            self._socket.sendto(json.dumps(message).encode(), (self._to, number))


def median_of_each(round_trips: Mapping[int, list[float]]) -> dict[str, float]:
    """Return the median of each rank that answered, with ranks as the keys of JSON."""
    return {str(rank): statistics.median(times) for rank, times in round_trips.items() if times}
