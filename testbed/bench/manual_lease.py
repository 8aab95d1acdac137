"""The lease and the journal of switch ports while a person changes their circuits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from testbed.bench.contracts import Identity
from testbed.bench.crossbar import Crossbar
from testbed.bench.lease_resources import part_of, ports_among
from testbed.bench.reported_identities import ReportedIdentities
from testbed.record.journal import Journal
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases
from testbed.record.rundir import RunDirectory
from testbed.schema import Lab


def _permit_all() -> None:
    """Permit changes of ports that others have leased: a person forces them."""


@dataclass(frozen=True, slots=True)
class LeasedPorts:
    """Ports that are leased while a person changes their circuits."""

    journal: Journal
    may_move: Callable[[], None] = _permit_all
    """Raises BusyError once the lease is lost."""
    leased_elsewhere: Callable[[frozenset[int]], frozenset[int]] = lambda ports: frozenset()
    """Returns the ports that are leased to others, who may change them."""

    def permit(self, crossbar: Crossbar) -> None:
        """Have a crossbar check this lease before each order."""
        crossbar.permit(self.may_move)
        crossbar.foreign.leased_elsewhere = self.leased_elsewhere


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

    Without `leases` they are taken whoever has them. Raise BusyError with who has them. They stay
    leased where an undo is left.
    """
    with closing(Journal(run.journal)) as journal:
        if leases is None:
            yield LeasedPorts(journal)
            return
        reported = ReportedIdentities(lab)
        reported.instrument(name, identity)
        wanted = frozenset[Resource]().union(*(part_of(lab, name, str(port)) for port in ports))
        wanted |= reported.resources(wanted)
        lease = leases.take(wanted, "testbed switch", run)
        boxes = {resource.box for resource in wanted}

        def may_move() -> None:
            for box in boxes:
                lease.check(box, ())

        def leased_elsewhere(some: frozenset[int]) -> frozenset[int]:
            return ports_among(
                lab, name, some, lease.held_by_others(), reported.keys_of_instrument(name)
            )

        try:
            yield LeasedPorts(journal, may_move, leased_elsewhere)
        finally:
            lease.end(run.journal)
