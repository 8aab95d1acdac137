"""Run in a host: broadcast a datagram every 5 ms on its port of rail 0, and note those received.

Ends with its standard input, and prints between which instants of this host's clock each was sent,
and what came.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from contextlib import suppress

INTERFACE, NUMBER, PERIOD = b"eth1", 47_000, 0.005
HOST = sys.argv[1]

line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, INTERFACE)
line.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
line.bind(("", NUMBER))
sent: list[tuple[float, float]] = []
received: list[tuple[str, int]] = []
has_ended = False
print("ready", flush=True)
while not has_ended:
    before = time.monotonic()
    with suppress(OSError):  # without carrier: the same as a lost datagram
        line.sendto(json.dumps([HOST, len(sent)]).encode(), ("255.255.255.255", NUMBER))
    sent.append((before, time.monotonic()))  # other processes may have run between them
    while (left := before + PERIOD - time.monotonic()) > 0 and not has_ended:
        ready = select.select([line, sys.stdin], [], [], left)[0]
        has_ended = sys.stdin in ready
        if line in ready:
            whose, number = json.loads(line.recv(100))
            if whose != HOST:  # a kernel hands its own broadcasts to its own sockets, too
                received.append((whose, number))
print(json.dumps({"sent": sent, "received": received}))
