"""Run schedules between the ranks of one generation; schedules are given as plain data.

Each rank does its own part of every round, in order, and no round waits for another rank's. While a
rank sends to the same peer round after round, as in a ring, there is no pause between them: bytes
of a chunk go out as soon as everything that earlier rounds do to them is done. Before it sends to
another peer it finishes its own receives, and a large message waits until its receiver has done so
and reports that it is ready; a rank that ran ahead would take port bandwidth from ranks that are
still in an earlier round. Where each peer has a port of its own, it cannot: then there is no pause
on any of the lines.
"""

from __future__ import annotations

from .communicator import Communicator, Vector
from .connections import PeerConnections
from .execution import STAGING, Execution
from .layout import Layout
from .rank_schedule import RankSchedule, ScheduleRecord
from .state_transfer import OPENING, STATE, receive_state, send_state


class Group(Communicator):
    """All ranks of one generation, each connected to every other.

    Ranks `around` a ring need connections to their neighbours only, unless a schedule uses others.
    Where ports are not `shared`, as with a circuit for each pair, no sender waits for its receiver
    to report that it is ready. Runs are numbered from the last barrier, so that pairs of ranks may
    run schedules of their own between two barriers.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        connections: PeerConnections,
        *,
        around: bool = False,
        shared: bool = True,
    ) -> None:
        doubling = [1 << bit for bit in range((ranks - 1).bit_length())]
        distances = [1] * (ranks - 1) if around else doubling
        barrier = [((rank + far) % ranks, (rank - far) % ranks) for far in distances]
        super().__init__(rank, ranks, connections, barrier)
        self._shared = shared
        self._number = 0
        """Runs since the last barrier."""
        self._stagings: list[memoryview] = []
        self._layouts: dict[tuple[int, int, int], Layout] = {}

    def barrier(self) -> None:
        """Return when every rank has called this."""
        self._number = 0
        super().barrier()

    def run(self, schedule: RankSchedule, vector: Vector) -> ScheduleRecord:
        """Run this rank's part of a schedule on a contiguous vector; every rank calls this."""
        self._number += 1
        key = (id(schedule), vector.size, vector.itemsize)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = Layout(
                schedule, vector.size, vector.itemsize, shared=self._shared
            )
        while len(self._stagings) < len(layout.incoming):
            self._stagings.append(memoryview(bytearray(STAGING)))
        layout.reset((self.generation, self._epoch, self._number))
        for peer in layout.peers:
            self.connections.limit_unsent(peer, limited=not layout.stays)
        return Execution(self.connections, layout, vector, self._stagings).run()

    def send_state(self, state: memoryview) -> None:
        """Send a job's state to the next rank, which calls `receive_state`."""
        to = (self.rank + 1) % self.ranks
        send_state(self.connections, to, self._state_opening(state), state)

    def receive_state(self, buffer: memoryview) -> None:
        """Fill `buffer` with the state of the previous rank; raise Corrupt for a wrong checksum."""
        source = (self.rank - 1) % self.ranks
        receive_state(self.connections, source, self._state_opening(buffer), buffer)

    def _state_opening(self, state: memoryview) -> bytes:
        return OPENING.pack(STATE, self.generation, self._number, len(state))
