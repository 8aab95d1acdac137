"""Driver for optical circuit switches under SONiC, by its command line over SSH.

The device has a configuration and a status. The configuration has the ordered circuits; every
change of it is saved at once and kept over a restart. The status has the circuits of the hardware.
The state here is the status; `unsteady` reports where the two disagree. A circuit in the status
only is stale: it blocks its ports, and can be removed only by adding it to the configuration and
deleting it there.

Commands and their evidence: drivers/README.md. SONiC's own default mode, `update`, removes
conflicting circuits, and `overwrite` removes all others. New circuits are added in mode `safe`,
which refuses a conflict; `update` is used for stale circuits only, and `overwrite` is never sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from testbed.bench.contracts import Identity
from testbed.clock import Deadline, now
from testbed.errors import InstrumentError, Rejected, UsageError
from testbed.fabric.change import Change
from testbed.fabric.device import Capabilities, State
from testbed.plugins import kind
from testbed.resource import Ssh, place
from testbed_drivers.dialects.command_line import CommandLine, Output
from testbed_drivers.switches.descriptors.sonic_ocs import SonicOcsOptions
from testbed_drivers.switches.sonic_text import (
    circuit_id,
    circuit_statuses,
    configured_circuits,
    facts,
    port_counts,
)
from testbed_drivers.switches.switch import (
    ChangeResult,
    Switch,
    capabilities_of,
    checked_state,
    portions,
    sides,
)
from testbed_drivers.transports.base import Endpoint

CIRCUITS_PER_COMMAND = 64
"""The longest list that is sent; the box's own limit is not public."""

_STATUS = "show ocs cross-connect status"
_CONFIG = "show ocs cross-connect config"
_COMPLAINT = re.compile(r"error|invalid|fail", re.IGNORECASE)
_REFUSAL = re.compile(
    r"^\s*(?:error|invalid|failed)\b|\b\d+[AB]\b.*(?:error|invalid|fail)", re.IGNORECASE
)
"""A line of a command itself; what others write beside it (sudo, Python's warnings) has neither."""

Circuits = frozenset[tuple[int, int]]
"""Cross-connects as pairs of ingress and egress."""


class SonicOcs(Switch[SonicOcsOptions, CommandLine]):
    """Driver of a SONiC optical circuit switch."""

    def _new_dialect(self, endpoint: Endpoint) -> CommandLine:
        if not isinstance(place(endpoint.resource), Ssh):
            raise UsageError(
                f"{self._name}: {endpoint.resource!r} is not the URL of an SSH server",
                hint="write 'ssh://admin@192.0.2.10'",
            )
        password = self._options.password
        dial = endpoint.dial or partial(kind("transports", "ssh").load(), password=password)
        return CommandLine(replace(endpoint, dial=dial), "show version", _identity)

    def state(self, deadline: Deadline) -> State:
        """Read back the circuits of the hardware, configured or not."""
        return self._dialect.query(
            _STATUS,
            lambda text: checked_state(self._tuned(text), self.capabilities, text, self._ports),
            deadline,
        )

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return circuits not tuned on both sides, or different in configuration and status."""
        with self._dialect.held(deadline):
            configured = self._configured(deadline)
            rows = self._dialect.query(_STATUS, self._tuned, deadline)
        words = {pair: word for pair, word in rows.items() if word != "tuned"}
        words |= dict.fromkeys(rows.keys() - configured, "stale: in the hardware, not configured")
        words |= dict.fromkeys(configured - rows.keys(), "configured, but not in the hardware")
        return {ingress: word for (ingress, _), word in words.items()}

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        ports = sides(*self._dialect.query("show ocs port config", port_counts, deadline))
        return capabilities_of(self._options, ports, steadiness=True)

    def _carry_out(self, change: Change, deadline: Deadline) -> ChangeResult:
        """Delete, add, and see the hardware follow; stop at the first refusal."""
        task = _Task(
            frozenset(change.removes.items()),
            frozenset(change.adds.items()),
            self._configured(deadline),
            self._present(deadline),
        )
        self._check_stale(task)
        commanded = now()
        orders = task.orders(len(self.capabilities.ingress))
        answers = (self._dialect.execute(order, _refusal, deadline) for order in orders)
        words = next(filter(None, answers), "")
        answered = now()
        if not words:
            self._await_hardware(task, deadline)
            return ChangeResult(commanded, answered)
        undone = task.undone(self._configured(deadline), self._present(deadline))
        if undone == task.undone(task.configured, task.present):
            raise Rejected(self._name, f"refused {change}: {words}", reply=words)
        return ChangeResult(commanded, answered, {ingress: words for ingress, _ in undone})

    def _check_stale(self, task: _Task) -> None:
        """Refuse to add a stale circuit over one that is configured on its ports."""
        ports = {port for pair in task.stale | task.adopted for port in pair}
        for pair in sorted(task.configured - task.deletes):
            if ports & set(pair):
                name = _id(pair, len(self.capabilities.ingress))
                raise InstrumentError(
                    self._name,
                    f"has {name} configured, but its hardware has another circuit on these ports",
                    hint="remove that circuit first",
                )

    def _await_hardware(self, task: _Task, deadline: Deadline) -> None:
        """Return when the hardware has followed, or has had `settle_max` for it.

        SONiC's commands write a data base, and other programs tell the hardware. Each look takes
        the box a good part of a second, so there is no pause between them.
        """
        limit = deadline.within(self.capabilities.settle_max)
        while not limit.passed:
            present = self._present(deadline)
            if task.adds <= present and not (task.removes - task.adds) & present:
                return

    def _configured(self, deadline: Deadline) -> Circuits:
        rows = self._dialect.query(_CONFIG, configured_circuits, deadline)
        return frozenset((a, b + len(self.capabilities.ingress)) for a, b in rows)

    def _present(self, deadline: Deadline) -> Circuits:
        return frozenset(self._dialect.query(_STATUS, self._tuned, deadline))

    def _tuned(self, text: str) -> dict[tuple[int, int], str]:
        """Return what a status says of each circuit: `tuned`, or what is not."""
        first = len(self.capabilities.ingress)
        return {
            (a, b + first): ", ".join(dict.fromkeys(words))
            for (a, b), words in circuit_statuses(text).items()
        }


@dataclass(frozen=True, slots=True)
class _Task:
    """A change, with what was configured and what the hardware had before it."""

    removes: Circuits
    adds: Circuits
    configured: Circuits
    present: Circuits

    @property
    def stale(self) -> Circuits:
        """Return the circuits that must be configured before they can be deleted."""
        return (self.removes & self.present) - self.configured

    @property
    def adopted(self) -> Circuits:
        """Return the wanted circuits that the hardware has and that must only be configured."""
        return (self.adds & self.present) - self.configured

    @property
    def deletes(self) -> Circuits:
        """Return the circuits to delete, including wanted ones that never reached the hardware."""
        return (self.removes & self.configured) | ((self.adds & self.configured) - self.present)

    def orders(self, inputs: int) -> Iterator[str]:
        """Yield the commands, removes first, with lists as long as allowed."""
        for form, pairs in (
            ("delete {}", self.deletes),
            ("add {} update", self.stale),
            ("delete {}", self.stale),
            ("add {} update", self.adopted),
            ("add {} safe", self.adds - self.present),
        ):
            names = [_id(pair, inputs) for pair in sorted(pairs)]
            for some in portions(names, CIRCUITS_PER_COMMAND):
                yield f"sudo config ocs cross-connect {form.format(','.join(some))}"

    def undone(self, configured: Circuits, present: Circuits) -> Circuits:
        """Return the part of the change that is still to be done, given the present circuits."""
        return (self.removes & configured) | (self.stale & present) | (self.adds - configured)


def _id(pair: tuple[int, int], inputs: int) -> str:
    return circuit_id((pair[0], pair[1] - inputs))


def _refusal(output: Output) -> str:
    """Return the box's words when it refuses, nothing when it succeeded; ValueError for neither."""
    if output.status:
        return output.last_line or f"exit status {output.status}"
    lines = output.text.splitlines()
    refusals = [line.strip() for line in lines if _REFUSAL.search(line)]
    if refusals:
        return refusals[-1]
    if "succeeded" in output.text:
        return ""
    if _COMPLAINT.search(output.text):
        return output.last_line
    raise ValueError(f"{output.text!r} says neither success nor failure")


def _identity(text: str) -> Identity:
    said = facts(text)
    try:
        return Identity(
            "SONiC", said["HwSKU"], said["Serial Number"], said["SONiC Software Version"]
        )
    except KeyError as error:
        raise ValueError(f"{text[:80]!r} names no {error.args[0]}") from None
