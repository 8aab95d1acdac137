"""A process that is many agents at once: each reports steps over a connection of its own.

Run as a program: host, port, number of agents, steps a second, symptoms a second, seconds. Every
frame is what an agent sends; symptoms carry the instant at which they were sent as `mono`, which
all processes of a machine share.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import time

SLICE = 0.001
"""Seconds between two looks at whose turn it is."""


def frame(message: dict[str, object]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + body


def step(rank: int, number: int) -> bytes:
    """Return the report of a step as a rank of a job sends it, through its agent."""
    now = time.monotonic()
    said = {
        "event": "step",
        "mono": now,
        "generation": 1,
        "step": number,
        "begin": now - 0.09,
        "end": now,
        "collective": [now - 0.04, now - 0.001],
        "algorithm": "ring",
        "choice": 0,
        "loss": 6.0,
        "digest": f"{number:08x}",
        "verified": True,
        "bytes": 690504,
        "delayed": 0.0,
        "waits": {str(rank): 0.0001},
        "wire": 9199739,
    }
    return frame({"event": "rank", "slot": 0, "said": said})


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    agents, rate, symptoms, seconds = int(sys.argv[3]), *map(float, sys.argv[4:7])
    lines = []
    for rank in range(agents):
        line = socket.create_connection((host, port))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(frame({"rank": rank}))
        lines.append(line)
    chance = random.Random(7)
    lines[0].recv(1)  # the orchestrator has accepted all
    begin = time.monotonic()
    sent, struck, late = 0, 0, 0.0
    while (at := time.monotonic() - begin) < seconds:
        while sent < at * rate * agents:
            late = max(late, at - sent / (rate * agents))
            lines[sent % agents].sendall(step(sent % agents, sent // agents))
            sent += 1
            if struck < (time.monotonic() - begin) * symptoms:
                message = {"event": "exit", "slot": 0, "code": 1, "mono": time.monotonic()}
                lines[chance.randrange(agents)].sendall(frame(message))
                struck += 1
        time.sleep(SLICE)
    print(json.dumps({"sent": sent, "struck": struck, "late": late}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
