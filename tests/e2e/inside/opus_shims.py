"""Run on a host: connections to a controller of Opus, driven by lines on standard input.

`open` opens the next connection; `0 send TEXT` sends a line, `0 line` prints the next one that
comes, and `0 close` ends a connection, numbered from 0.
"""

from __future__ import annotations

import socket
import sys

PATIENCE = 30.0

address, port = sys.argv[1].split(":")
lines = []
for command in sys.stdin:
    if command == "open\n":
        connection = socket.create_connection((address, int(port)), PATIENCE)
        lines.append((connection, connection.makefile("rb")))
        continue
    number, what, *text = command.split()
    connection, file = lines[int(number)]
    if what == "send":
        connection.sendall(text[0].encode() + b"\n")
    elif what == "line":
        print(file.readline().decode().rstrip("\n"), flush=True)
    else:
        file.close()
        connection.close()
