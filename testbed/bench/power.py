"""Switch hosts' power (only code here does); each order's undo is journalled before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from testbed.bench.contracts import PowerUnit
from testbed.bench.permission import Guard
from testbed.clock import Deadline
from testbed.errors import BusyError, LabError, TestbedError, UnsafeError, UsageError
from testbed.record.journal import Journal
from testbed.schema import Outlet


@dataclass(slots=True, eq=False)
class Power:
    """The outlets that feed hosts. A host without one is refused with UsageError."""

    _units: Mapping[str, PowerUnit]
    _outlets: Mapping[str, Outlet | None]
    _journal: Journal
    _permit: Guard
    """Asked immediately before each order."""
    cut_hosts: set[str] = field(default_factory=set)
    """Hosts whose power we cut since their agent was last opened: nothing runs there now."""
    _undos: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def feeds(self, host: str) -> bool:
        """Return whether the lab can switch a host's power."""
        return self._outlets[host] is not None

    def outlet(self, host: str) -> Outlet:
        """Return the outlet that feeds a host."""
        outlet = self._outlets[host]
        if outlet is None:
            raise UsageError(f"{host} has no power unit", hint="add `power:` to it in the lab file")
        return outlet

    def cut(self, host: str, deadline: Deadline, why: str = "power-cut") -> None:
        """Turn a host's outlet off and return when it reads off; do nothing when it is off.

        Raise UsageError unless the lab permits the reason `why`, BusyError unless the outlet is
        still leased.
        """
        outlet = self.outlet(host)
        with self._lock:
            is_new = host not in self._undos
            if is_new:
                arguments = {"unit": outlet.unit, "outlet": outlet.outlet, "on": True}
                self._undos[host] = self._journal.record_undo("outlet", **arguments)
        try:
            self._permit.outlet(host, why)
        except TestbedError:
            if is_new:  # nothing was turned
                self._settle(host)
            raise
        self._units[outlet.unit].turn(outlet.outlet, False, deadline)
        self.cut_hosts.add(host)

    def restore(self, host: str, deadline: Deadline) -> None:
        """Turn a host's outlet on if this run turned it off; raise UnsafeError when it stays off.

        The host boots on its own; the call does not wait for that.
        """
        if host not in self._undos:
            return
        outlet = self.outlet(host)
        unit = self._units[outlet.unit]
        try:
            self._permit.outlet(host)
            unit.turn(outlet.outlet, True, deadline)
            is_on = unit.is_on(outlet.outlet, deadline)
        except (BusyError, LabError) as error:
            raise UnsafeError(f"outlet {outlet} of {host} may still be off: {error}") from error
        if not is_on:
            raise UnsafeError(
                f"outlet {outlet} of {host} was turned on and still reads off",
                hint="check the power unit",
            )
        self._settle(host)

    def _settle(self, host: str) -> None:
        with self._lock:
            self._journal.settle(self._undos.pop(host))

    def adopt_undo(self, undo: Mapping[str, Any]) -> str:
        """Take over an open undo entry of a dead run, for `restore`; return the host it feeds.

        Raise UnsafeError when no host of the lab is fed by that outlet.
        """
        wanted = Outlet(undo["unit"], undo["outlet"])
        for host, outlet in self._outlets.items():
            if outlet == wanted:
                self._undos[host] = undo["id"]
                return host
        raise UnsafeError(f"outlet {wanted} feeds no host of the lab", hint="turn it on by hand")

    def is_off(self, host: str, deadline: Deadline) -> bool:
        """Read back whether a host's outlet is off."""
        outlet = self.outlet(host)
        return not self._units[outlet.unit].is_on(outlet.outlet, deadline)

    @property
    def dark_hosts(self) -> tuple[str, ...]:
        """Return the hosts whose power this run has cut and not restored."""
        return tuple(sorted(self._undos))

    def restore_all(self, deadline: Deadline) -> None:
        """Turn on every outlet that this run turned off; an error at one does not stop the others.

        Raise UnsafeError with those that stayed off.
        """
        problems: list[LabError | UnsafeError] = []
        dark = self.dark_hosts
        for done, host in enumerate(dark):
            fair = deadline.within(deadline.left / (len(dark) - done))
            try:
                self.restore(host, fair)
            except (LabError, UnsafeError) as error:
                problems.append(error)
        if problems:
            raise UnsafeError("; ".join(map(str, problems)))
