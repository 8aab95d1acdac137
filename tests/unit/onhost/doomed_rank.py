"""A rank that does all that a rank does until a round of its first collective, and is gone then.

Run in the place of `testbed.onhost.jobs.rank`. It kills or stops itself in the middle of the
message that it sends in that round; no process outside could choose the moment so exactly.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
from importlib import import_module

from testbed.onhost.communication.connections import Peer, PeerConnections
from testbed.onhost.communication.control import Control
from testbed.onhost.communication.group import Group
from testbed.onhost.communication.handshake import connect_peers
from testbed.onhost.communication.layout import DATA, OPENING
from testbed.onhost.communication.rank_identity import RankIdentity
from testbed.onhost.communication.sockets import Port, listen


class DoomedConnections(PeerConnections):
    """Connections on which a share of the message of one round goes out, and nothing after it."""

    def doom(self, number: int, share: float, fate: int) -> None:
        self._round, self._share, self._fate = number, share, fate
        self._left: int | None = None

    def send(self, peer: Peer, *pieces: memoryview | bytes) -> int:
        if self._left is None and bytes(pieces[0][:4]) == DATA:
            opening = OPENING.unpack(pieces[0])
            if opening[4] == self._round:
                self._left = round(self._share * (OPENING.size + opening[-1]))
        if self._left is None:
            return super().send(peer, *pieces)
        if not self._left:
            os.kill(os.getpid(), self._fate)
        whole = b"".join(pieces)
        sent = super().send(peer, whole[: self._left])
        self._left -= sent
        return sent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int)
    parser.add_argument("--round", type=int)
    parser.add_argument("--share", type=float)
    parser.add_argument("--fate", type=lambda name: signal.Signals[name])
    given = parser.parse_args()
    control = Control(socket.socket(fileno=given.control))
    told = control.next()
    program = import_module(f"testbed.onhost.jobs.{told['job']['kind']}")
    job = program.Job(told["job"]["options"], told["seed"], told["ranks"])
    port = Port(**told["to_next"])
    listener = listen(port)
    address, number = listener.getsockname()
    control.emit("ready", address=address, port=number)
    join = control.next()
    while job.state.step < join["step"]:
        job.state.commit()
    rank, generation = join["rank"], join["generation"]
    others = [member for member in join["members"] if member["rank"] != rank]
    peers = {one["rank"]: (port, (one["address"], one["port"])) for one in others}
    identity = RankIdentity(told["token"], generation, rank, len(peers) + 1)
    sockets = connect_peers((listener,), peers, identity, control.leave)
    doomed = DoomedConnections(sockets, generation, control.leave)
    doomed.doom(given.round, given.share, given.fate)
    job.run(Group(rank, identity.ranks, doomed), control)


if __name__ == "__main__":
    main()
