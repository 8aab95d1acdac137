"""The process that virtual hosts are forked from.

It has one thread and has imported what a host needs, so a host starts in milliseconds; the twin's
server, which has threads, must not fork.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import asdict
from pathlib import Path

from testbed.twin.host import HostSetup, run_host
from testbed.twin.namespaces import (
    NEWIPC,
    NEWNET,
    NEWNS,
    NEWPID,
    NEWTIME,
    NEWUTS,
    die_with_parent,
    unshare,
)
from testbed.twin.netlink import keep_frames_in_order


class Zygote:
    """A handle on the zygote process."""

    def __init__(self) -> None:
        """Fork the zygote; the calling process must have one thread only."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            ours.close()
            _serve(theirs)
            os._exit(0)
        theirs.close()
        self._line = ours

    def fork_host(self, setup: HostSetup) -> tuple[int, socket.socket]:
        """Return the first process of a new host, and the line to it.

        The host waits on that line until its network is there. Blocks for milliseconds; raise
        OSError when the kernel refuses a namespace.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._line, [json.dumps(asdict(setup)).encode()], [theirs.fileno()])
            answer = json.loads(self._line.recv(4096))
        if "error" in answer:
            ours.close()
            raise OSError(f"{setup.name}: {answer['error']}")
        return answer["pid"], ours


def _serve(line: socket.socket) -> None:
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the server decides when the twin ends
    while True:
        order, descriptors, _, _ = socket.recv_fds(line, 65536, 1)
        if not order:
            return
        setup = HostSetup(**json.loads(order))
        with socket.socket(fileno=descriptors[0]) as channel:
            line.send(json.dumps(_fork_host(setup, channel, line)).encode())


def _fork_host(setup: HostSetup, channel: socket.socket, line: socket.socket) -> dict[str, object]:
    """Fork a go-between that makes the namespaces and forks the host's first process in them."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        line.close()
        os.close(read)
        os.write(write, json.dumps(_enter_and_fork(setup, channel)).encode())
        os._exit(0)
    os.close(write)
    answer = os.read(read, 4096)  # not to its end: the host keeps the writing side open
    os.close(read)
    os.waitpid(between, 0)
    return json.loads(answer) if answer else {"error": "the host's first process did not start"}


def _enter_and_fork(setup: HostSetup, channel: socket.socket) -> dict[str, object]:
    try:
        unshare(NEWNET | NEWUTS | NEWNS | NEWIPC | NEWPID | NEWTIME)
        keep_frames_in_order()
        seconds, nanoseconds = divmod(setup.clock_offset, 10**9)
        Path("/proc/self/timens_offsets").write_text(f"monotonic {seconds} {nanoseconds}\n")
        pid = os.fork()
    except OSError as error:
        return {"error": str(error)}
    if pid == 0:
        os._exit(run_host(setup, channel))
    return {"pid": pid}
