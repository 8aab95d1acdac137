"""Rails of a lab that programs of others move, by the words of the Opus artifact.

Ports are leased and instruments open as in a run; circuits go through `Fabric`, and whatever ends
it, the ports are brought back to what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Protocol

from testbed.bench.bench import Bench
from testbed.bench.multi_switch_change import FabricChange
from testbed.bench.rail_changes import RailTurns, Turn, repoint
from testbed.clock import Deadline, now
from testbed.errors import TestbedError, UnsafeError
from testbed.fabric.circuits import Matching
from testbed.rails.rail import Move
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox
from testbed.run.lab_check import CHANGE_LIMIT, run_on_bench
from testbed.run.opus_layout import RailLayout
from testbed.run.run_leases import RunLeases
from testbed.schema import Lab

PROTOCOL = "opus"
_OPEN_LIMIT = 20.0
_CHANGE_LIMIT = 10.0


class Served(Protocol):
    """What listens for the programs of others."""

    def close(self) -> None:
        """Stop listening, and wait for changes that are under way."""


@dataclass(frozen=True, slots=True)
class RailService:
    """Which rails of a lab are to be moved, how, and for how many seconds."""

    lab: Lab
    layout: RailLayout
    delay: float
    """Seconds that a change takes beyond the switch, as until links are up."""
    seconds: float


@dataclass
class LabRails:
    """The rails of an open lab; `stop` is called with an error after which nothing may go on."""

    bench: Bench
    layout: RailLayout
    delay: float
    stop: Callable[[TestbedError], None]
    _turns: RailTurns = field(default_factory=RailTurns)
    _ended: Event = field(default_factory=Event)

    def begin(self, rail: int, move: Move) -> Callable[[], None]:
        """Return what makes a change of a rail, in the order of the calls; it blocks.

        It raises the errors of `Fabric.change` once all is rolled back, and UsageError where the
        lab does not permit it.
        """
        turn = self._turns.next(f"rail{rail}")
        owner = f"{PROTOCOL}.rail{rail}.{move.stage.group}"
        return partial(self._change, turn, owner, move.remove, move.add)

    def present(self, rail: int) -> Matching:
        """Return the circuits of a rail."""
        ports = {port for own in self.layout.on_rail(rail) for port in own}
        return frozenset(c for c in self.bench.fabric.owned.all if ports >= {*c.ends})

    def set_word(self, rail: int, circuits: Matching) -> None:
        """Make circuits all that a rail has; blocks, and raises as what `begin` returns does."""
        deadline, fabric = Deadline.after(_CHANGE_LIMIT), self.bench.fabric
        try:
            self.bench.guard.control(PROTOCOL)
            owner = f"{PROTOCOL}.rail{rail}"
            done = fabric.set_circuits(owner, circuits, deadline, PROTOCOL)
            if done.added:
                self._settled(done)
        except UnsafeError as error:
            self.stop(error)
            raise

    def _change(self, turn: Turn, owner: str, remove: Matching, add: Matching) -> None:
        deadline, fabric = Deadline.after(_CHANGE_LIMIT), self.bench.fabric
        try:
            turn.wait(deadline)
            self.bench.guard.control(PROTOCOL)
            remove &= fabric.owned.all
            done = repoint(fabric, owner, remove, add, turn, deadline, PROTOCOL)
            if add:
                self._settled(done)
        except UnsafeError as error:
            self.stop(error)
            raise
        finally:
            turn.end()

    def _settled(self, done: FabricChange) -> None:
        """Wait until mirrors stand that nothing told of, and for the delay."""
        names = {cross.switch for cross in done.added}
        moved = [self.bench.switches[name].capabilities for name in names]
        unseen = (one.settle_max for one in moved if one.motion_unseen or not one.steadiness)
        slowest = max(unseen, default=0.0) if done.lit is None else 0.0
        self._ended.wait(max(0.0, done.read_back + slowest - now()) + self.delay)

    def end(self) -> None:
        """Have waits for mirrors and links end."""
        self._ended.set()


def serve_rails(
    service: RailService,
    listen: Callable[[LabRails], Served],
    run: RunDirectory,
    log: EventLog,
    inbox: Inbox,
    run_leases: RunLeases,
) -> list[str]:
    """Have programs of others move the rails of a lab, then bring the ports back.

    `listen` begins to listen once the lab is open. Return the changes that could not be undone.
    Raise UsageError where the lab does not permit it, BusyError where a port is leased or in use,
    and whatever ends it early.
    """

    lab, layout = service.lab, service.layout

    def serve(bench: Bench, journal: Journal, cleanup: Cleanup) -> None:
        bench.guard.control(PROTOCOL)
        run_leases.take(bench, (), (), layout.resources(lab))
        opening = Deadline.after(_OPEN_LIMIT)
        cleanup.push("instruments", lambda _: bench.close_instruments(), CHANGE_LIMIT)
        open_all = partial(bench.open_instruments, layout.switches(lab))
        inbox.in_worker("opening the switches", open_all, opening)
        run_leases.take_identified(bench)
        bench.open_fabric(layout.all_ports)
        fabric = bench.fabric
        adopt = partial(fabric.adopt, {})
        inbox.in_worker("reading the switches", adopt, opening)
        cleanup.push("circuits", fabric.restore, CHANGE_LIMIT)
        rails = LabRails(bench, layout, service.delay, inbox.stop)
        server = listen(rails)
        cleanup.push("server", lambda _: _close(rails, server), CHANGE_LIMIT)
        inbox.wait(lambda: False, Deadline.after(service.seconds))

    return run_on_bench(serve, lab, run, log, inbox, run_leases)


def _close(rails: LabRails, server: Served) -> None:
    rails.end()
    server.close()
