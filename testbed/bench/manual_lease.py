"""The lease and the journal of switch ports while a person changes their circuits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from testbed.bench.contracts import Identity
from testbed.bench.crossbar import Crossbar
from testbed.bench.lease_resources import part_of
from testbed.bench.permission import Guard
from testbed.record.journal import Journal
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases
from testbed.record.rundir import RunDirectory
from testbed.schema import Lab


@dataclass(frozen=True, slots=True)
class LeasedPorts:
    """Ports that are leased while a person changes their circuits."""

    journal: Journal
    may_move: Callable[[], None] = lambda: None
    """Raises BusyError once the lease is lost; permits all where a person forces the change."""
    leased_elsewhere: Callable[[frozenset[int]], frozenset[int]] = lambda ports: frozenset()
    """Returns the ports that are leased to others, who may change them."""

    def permit(self, crossbar: Crossbar) -> None:
        """Have a crossbar check this lease before each order."""
        crossbar.callbacks.may_move = self.may_move
        crossbar.callbacks.leased_elsewhere = self.leased_elsewhere


@contextmanager
def leased_ports(
    lab: Lab,
    name: str,
    identity: Identity,
    leases: Leases | None,
    ports: frozenset[int],
    run: RunDirectory,
) -> Iterator[LeasedPorts]:
    """Lease ports of a switch while they are changed, with the journal of `run`.

    Without `leases` they are taken whatever run has them. Raise BusyError with the run that has
    them. They stay leased where an undo is left.
    """
    with closing(Journal(run.journal)) as journal:
        if leases is None:
            yield LeasedPorts(journal)
            return
        guard = Guard(lab)
        guard.answered.instrument(name, identity)
        wanted = frozenset[Resource]().union(*(part_of(lab, name, str(port)) for port in ports))
        wanted |= guard.answered.resources(wanted)
        lease = leases.take(wanted, "testbed switch", run)
        guard.hold(lease)
        held_by_others = partial(guard.held_by_others, name)
        try:
            yield LeasedPorts(journal, partial(guard.check, name, ports), held_by_others)
        finally:
            lease.end(run.journal)
