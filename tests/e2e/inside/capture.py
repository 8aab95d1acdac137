"""Run in a host's network: write down every TCP segment that arrives at a port, until stdin ends.

Each line is the kernel's own time of arrival, on the machine's monotonic clock, then the number of
the segment's first byte and how many bytes it has. When the port loses its carrier, or has it
again, the line is when the kernel said so, `carrier`, and 0 or 1.
"""

import select
import socket
import struct
import sys
import time

IFF_LOWER_UP = 1 << 16
RTMGRP_LINK = 1
SO_TIMESTAMPNS = 35
ETH_P_IP = 0x0800

line = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
line.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
line.bind((sys.argv[1], ETH_P_IP))
links = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
links.bind((0, RTMGRP_LINK))
mine = socket.if_nametoindex(sys.argv[1])
monotonic, real = time.CLOCK_MONOTONIC, time.CLOCK_REALTIME
# Whoever is interrupted between the two finds too little.
since_boot = max(time.clock_gettime(monotonic) - time.clock_gettime(real) for _ in range(100))
print("ready", flush=True)
known = None
while sys.stdin not in (ready := select.select([line, links, sys.stdin], [], [])[0]):
    if links in ready:
        at = time.monotonic()
        index, flags = struct.unpack_from("=iI", links.recv(1 << 16), 20)
        if index == mine and (now := int(bool(flags & IFF_LOWER_UP))) != known:
            known = now
            print(f"{at:.6f} carrier {now}")
    if line not in ready:
        continue
    try:
        packet, extra, _, (_, _, kind, *_) = line.recvmsg(1 << 17, 1 << 10)
    except OSError:  # the port is down, as one without light is
        continue
    if kind == socket.PACKET_OUTGOING or packet[9] != socket.IPPROTO_TCP:
        continue
    tcp = packet[(packet[0] & 15) * 4 :]
    size = struct.unpack_from("!H", packet, 2)[0] - (packet[0] & 15) * 4 - (tcp[12] >> 4) * 4
    seconds, nanoseconds = struct.unpack("@ll", extra[0][2][:16])
    if size > 0:
        number = struct.unpack_from("!I", tcp, 4)[0]
        print(f"{seconds + nanoseconds / 1e9 + since_boot:.6f} {number} {size}")
