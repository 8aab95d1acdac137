"""Check before every act on a lab that the lab file permits it and that the lease holds.

The planner checks permission too, so that a plan which cannot be run is refused before anything is
touched. But a lease may be lost, and a policy decides while the job runs: so `Fabric`, `Power`,
`Attenuation` and hosts check here again before each order. An undo needs the lease alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from testbed.bench.lease_resources import addresses_of, box_of, portions, ports_among
from testbed.bench.reported_identities import ReportedIdentities
from testbed.errors import BusyError, UsageError
from testbed.record.lease import Lease
from testbed.record.lease_rules import Resource
from testbed.schema import Lab

FENCE = "fence"
"""Why a policy acts on a host that has failed; faults act in their own names."""


class Guard:
    """Checks that the lab file permits an act and that the current lease covers it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._lease: Lease | None = None
        self.answered = ReportedIdentities(lab)
        """The reported identities, under which boxes must be leased too."""

    def hold(self, lease: Lease) -> None:
        """Permit acts on the resources of a lease, while the lease is held."""
        self._lease = lease

    def lease_reported_identities(self) -> None:
        """Extend the lease to the identities that devices have reported.

        Raise BusyError when another run has leased one of them under another name.
        """
        if self._lease is not None:
            self._lease.widen(self.answered.resources(self._lease.resources))

    def check(self, switch: str, ports: Iterable[int]) -> None:
        """Raise BusyError unless these ports of a switch are still leased."""
        self._instrument(switch, map(str, ports))

    def held_by_others(self, switch: str, ports: frozenset[int]) -> frozenset[int]:
        """Return which of these ports are now leased to other runs."""
        leased_elsewhere = self._lease.held_by_others() if self._lease else frozenset()
        known = self.answered.keys_of_instrument(switch)
        return ports_among(self._lab, switch, ports, leased_elsewhere, known)

    def resource(self, resource: Resource) -> None:
        """Raise BusyError unless a resource is still leased."""
        self._check([resource.box], [resource.part], str(resource))

    def host(self, name: str) -> None:
        """Raise BusyError unless the lease of a host is still held."""
        keys = self.answered.keys_of_host(name)
        self._check([addresses_of(self._lab, name)[0], *keys], [""], name)

    def outlet(self, host: str, why: str = "") -> None:
        """Raise BusyError unless a host's outlet is still leased.

        `why` is the reason for turning it off, a fault or `FENCE`: raise UsageError unless the lab
        permits that.
        """
        if why == FENCE:
            self.fence(host, "power")
        elif why:
            self.fault(why, host)
        if outlet := self._lab.hosts[host].power:
            self._instrument(outlet.unit, [outlet.outlet])

    def attenuator(self, name: str, host: str = "", why: str = "") -> None:
        """Raise BusyError unless an attenuator is still leased.

        Where `why` is a fault that takes light from a host, raise UsageError unless the lab
        permits that there.
        """
        if why:
            self.fault(why, host)
        self._instrument(name, [""])

    def fault(self, kind: str, host: str) -> None:
        """Raise UsageError unless a fault is permitted on a host, BusyError unless it is leased."""
        if not self._lab.permits(kind, host):
            raise UsageError(
                f"lab {self._lab.lab} does not permit {kind} on {host}",
                hint="permit it under `allow` in the lab file, or choose another fault or host",
            )
        self.host(host)

    def fence(self, host: str, means: str) -> None:
        """Raise UsageError unless the host may be fenced by `means`, BusyError unless leased."""
        if means not in self._lab.fences(host):
            raise UsageError(
                f"lab {self._lab.lab} does not permit a fence of {host} by {means}",
                hint="permit it under `fence` in the lab file, or choose another fence or host",
            )
        self.host(host)

    def control(self, protocol: str) -> None:
        """Raise UsageError unless programs of others may move circuits by a protocol."""
        if protocol not in self._lab.controlled_by:
            raise UsageError(
                f"lab {self._lab.lab} does not permit programs that speak {protocol} to move its "
                "circuits",
                hint=f"permit it in the lab file: controlled_by: [{protocol}]",
            )

    def _instrument(self, name: str, parts: Iterable[str]) -> None:
        boxes = [box_of(self._lab, name), *self.answered.keys_of_instrument(name)]
        self._check(boxes, portions(self._lab, name, parts), name)

    def _check(self, boxes: Collection[str], parts: Collection[str], name: str) -> None:
        """Raise BusyError unless parts of a box are leased under all of its identities.

        Reported identities that are not leased yet are leased now.
        """
        if self._lease is None:
            raise BusyError(f"nothing of {name} is leased", hint="this is a bug: report it")
        if not {*boxes} <= self._lease.boxes:
            self.lease_reported_identities()
        for box in boxes:
            self._lease.check(box, parts)
