"""The process from which virtual hosts are forked.

It has one thread and has imported what a host needs, so a host starts in milliseconds; the twin's
server, which has threads, must not fork.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

from testbed.twin.host import HostSettings, run_host
from testbed.twin.layout import HostLayout
from testbed.twin.namespaces import MACHINE, NEWTIME, die_with_parent, unshare
from testbed.twin.netlink import keep_frames_in_order
from testbed.twin.precedence import give_up_precedence
from testbed.twin.signals import ENDING


class Zygote:
    """A handle of the zygote process."""

    def __init__(self, settings: HostSettings) -> None:
        """Fork the zygote; the calling process must have one thread only."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            ours.close()
            _serve(theirs, settings)
            os._exit(0)
        theirs.close()
        self._line = ours

    def fork_host(self, name: str) -> tuple[int, socket.socket]:
        """Fork the first process of a new host; return its id and a socket to it.

        The host waits on that socket until its network exists. Blocks for milliseconds; raise
        OSError when the kernel refuses a namespace.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._line, [name.encode()], [theirs.fileno()])
            answer = json.loads(self._line.recv(4096))
        if "error" in answer:
            ours.close()
            raise OSError(f"{name}: {answer['error']}")
        return answer["pid"], ours


def _serve(line: socket.socket, settings: HostSettings) -> None:
    die_with_parent()
    give_up_precedence()
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)  # the server decides when the twin ends
    while True:
        name, descriptors, _, _ = socket.recv_fds(line, 4096, 1)
        if not name:
            return
        host = settings.hosts[name.decode()]
        with socket.socket(fileno=descriptors[0]) as channel:
            line.send(_fork_host(host, settings, channel, line))


def _fork_host(
    host: HostLayout, settings: HostSettings, channel: socket.socket, line: socket.socket
) -> bytes:
    """Fork a process that makes the namespaces and forks the host's first process in them.

    Return the answer to `Zygote.fork_host`, as JSON.
    """
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        line.close()
        os.close(read)
        os.write(write, json.dumps(_enter_and_fork(host, settings, channel)).encode())
        os._exit(0)
    os.close(write)
    answer = os.read(read, 4096)  # not to its end: the host keeps the writing side open
    os.close(read)
    os.waitpid(between, 0)
    return answer or b'{"error": "the host\'s first process did not start"}'


def _enter_and_fork(
    host: HostLayout, settings: HostSettings, channel: socket.socket
) -> dict[str, object]:
    try:
        unshare(MACHINE | NEWTIME)
        keep_frames_in_order()
        seconds, nanoseconds = divmod(host.clock_offset, 10**9)
        Path("/proc/self/timens_offsets").write_text(f"monotonic {seconds} {nanoseconds}\n")
        pid = os.fork()
    except OSError as error:
        return {"error": str(error)}
    if pid == 0:
        os._exit(run_host(host, settings, channel))
    return {"pid": pid}
