"""Driver for programmable photonic meshes (such as iPronics'), by lines of cells over TCP.

One connection per reconfiguration: a greeting, one line that sets cells, status text until the
other side hangs up. **There is no read-back.** The state here is the last acknowledged setting; it
is checked that the same device still answers, and nothing more. Before the first change the state
is unknown, unless the caller says what to presume. A change always sets every cell.

After a change without an acknowledgement the state is unknown. So the next read of the state sends
the same list again: a list is absolute, and leads to the same state whether or not it arrived the
first time. Until then no other change is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from testbed.bench.contracts import Applied, Identity, Transport
from testbed.clock import Deadline, now
from testbed.commands import typed
from testbed.concealed import excerpt_of
from testbed.errors import (
    Garbled,
    InstrumentError,
    LinkLost,
    NotKnown,
    Rejected,
    UsageError,
)
from testbed.fabric.change import Change, after
from testbed.fabric.device import Capabilities, State
from testbed.fabric.mesh import Gate, Mesh, Setting
from testbed.fabric.mesh_routes import Routing, route
from testbed_drivers.dialects.session import TransportDialect
from testbed_drivers.switches.described_mesh import described_mesh, numbers_of
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.switch import ChangeResult, Switch, all_ports, capabilities_of
from testbed_drivers.transports.base import Endpoint

_COMPLAINT = re.compile(r"error|invalid|fail|refuse|busy", re.IGNORECASE)
"""Words of a refusal. What a real box answers is not public: any other status counts as done."""
_SERIAL = re.compile(r"serial (\w[\w-]*)")
_CELLS = re.compile(r"(\d+) cells")


class CellsLine(TransportDialect):
    """Sends one line that sets cells, on a new connection that begins with a greeting.

    A greeting that names a number of cells must name `cells`.
    """

    def __init__(self, endpoint: Endpoint, cells: int) -> None:
        super().__init__(endpoint)
        self._cells = cells
        self._expects_serial = endpoint.serial is not None
        self._seen_identity = Identity("", "", "", "")

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""

        def once() -> Identity:
            with self.connection(deadline):
                return self._seen_identity

        return self._session.read(once, deadline)

    def held(self, deadline: Deadline) -> AbstractContextManager[None]:
        """Lock the instrument for several connections in a row."""
        return self._session.locked(deadline)

    @contextmanager
    def connection(self, deadline: Deadline) -> Iterator[Transport]:
        """Provide a connection after its greeting; close it at the end of the block."""
        with self.held(deadline):
            try:
                with self._session.exchange(deadline) as line:
                    yield line
            finally:
                self._session.close()

    def tell(self, line: Transport, order: str, deadline: Deadline) -> str:
        """Send a line and return the status text."""
        self._send_bytes(line, order.encode() + b"\n", deadline)
        return " ".join(self._read_until_closed(line, deadline).split())

    def _greet(self, line: Transport, deadline: Deadline) -> None:
        greeting = self._receive_bytes(line, b"\n", deadline.within(self._answer_timeout))
        words = self._words(greeting).strip()
        serial, cells = _SERIAL.search(words), _CELLS.search(words)
        if serial is None and self._expects_serial:
            raise Garbled(
                self._instrument,
                f"sent the greeting {words!r}, which names no serial number",
                reply=words,
            )
        if cells and int(cells[1]) != self._cells:
            raise InstrumentError(
                self._instrument,
                f"has {cells[1]} cells instead of {self._cells}",
                reply=words,
                hint="correct 'width' and 'height', or 'file', in the lab file",
            )
        model = cells[0] if cells else words
        self._seen_identity = self._serial.check(
            Identity("photonic mesh", model, serial[1] if serial else "", "")
        )

    def _read_until_closed(self, line: Transport, deadline: Deadline) -> str:
        """Return the status text; the other side hangs up after it."""
        data = b""
        try:
            while True:
                data += line.receive(len, deadline)
        except LinkLost as error:
            self._session.tracer("receive", data)
            text = self._words(data)
            if not text.endswith("\n"):
                raise LinkLost(
                    self._instrument, "closed the connection before it had answered", reply=text
                ) from error
            return text

    def _words(self, data: bytes) -> str:
        text = data.decode("ascii") if data.isascii() else ""
        if not all(line.isprintable() for line in text.splitlines()) or not data.isascii():
            words = excerpt_of(data)
            raise Garbled(self._instrument, f"answered {words!r}", reply=words)
        return text


class PhotonicMesh(Switch[PhotonicMeshOptions, CellsLine]):
    """Driver of a photonic mesh that is used as a circuit switch."""

    def _new_dialect(self, endpoint: Endpoint) -> CellsLine:
        self._unset = self._mesh = _mesh_of(self._name, self._options)
        self._presumed: State | None = None
        """The state that `presume` was given; None before that."""
        self._unacknowledged: Setting | None = None
        """What was sent and not acknowledged; None when there is no doubt."""
        return CellsLine(endpoint, len(self._mesh.cells))

    def state(self, deadline: Deadline) -> State:
        """Return the last acknowledged setting; if in doubt, send it again; query the identity."""
        with self._dialect.held(deadline):
            if self._unacknowledged is None:
                self.identify(deadline)
            else:
                self._dialect.note("its last change was not acknowledged: sent again")
                self._send_setting(self._unacknowledged, deadline)
            return self._known_state()

    def presume(self, state: State) -> None:
        """Assume a state until the first command."""
        self._presumed = dict(state)

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of the mesh, with the state of its cells as far as known."""
        mesh = self._mesh if self._unacknowledged is None else self._unset
        return replace(super().capabilities, mesh=mesh)

    def apply(self, change: Change, deadline: Deadline) -> Applied:
        """Make a change; raise InstrumentError while the present state is in doubt."""
        with self._dialect.held(deadline):
            if self._unacknowledged is not None:
                raise InstrumentError(
                    self._name,
                    "has not acknowledged its last change, so no other can be planned",
                    hint="read its state first",
                )
            return super().apply(change, deadline)

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        outputs = 0 if self._mesh.reciprocal else len(self._mesh.egress)
        return capabilities_of(self._options, all_ports(len(self._mesh.ingress), outputs))

    def _carry_out(self, change: Change, deadline: Deadline) -> ChangeResult:
        """Route what is there afterwards, and set every cell."""
        routing = self._routed(change, self._known_state())
        if routing.disturbed:
            circuits = ", ".join(f"{i}→{e}" for i, e in sorted(routing.disturbed.items()))
            self._dialect.note(f"these circuits stay, on another path: {circuits}")
        wanted = after(self._known_state(), change)
        lengths = (f"{i} to {e}: {len(routing.paths[i].steps)}" for i, e in sorted(wanted.items()))
        self._dialect.note(f"cells that each circuit passes: {', '.join(lengths) or 'none'}")
        return self._send_setting(routing.setting, deadline)

    def _known_state(self) -> State:
        """Return the last acknowledged or the presumed state; raise NotKnown."""
        if self._mesh.setting is not None:
            return self._mesh.circuits(self._mesh.setting)
        if self._presumed is None:
            raise NotKnown(
                self._name,
                "cannot report its circuits, and this command has not set them",
                hint="list all of its circuits in a file, and set all of its cells with: "
                f"{typed('switch', self._name, 'apply', 'wanted.yaml')}",
            )
        self._dialect.note(f"nothing was told yet; presumed: {dict(self._presumed)}")
        return self._presumed

    def _routed(self, change: Change, present: State) -> Routing:
        """Return how to make a change; raise UsageError for one that ends or darkens others."""
        kept = after(present, Change(change.removes, {}))
        for ingress, egress in change.adds.items():
            for other in kept.items():
                if other != (ingress, egress) and {ingress, egress} & set(other):
                    raise UsageError(
                        f"{self._name}: a port of {ingress}→{egress} is in use by "
                        f"{other[0]}→{other[1]}"
                    )
        try:
            routing = route(self._mesh, after(present, change))
        except ValueError as error:
            raise UsageError(
                f"{self._name}: {error}", hint="use fewer circuits at a time, or other ports"
            ) from error
        if unnamed := routing.disturbed.items() - change.disturbs:
            circuits = ", ".join(f"{i}→{e}" for i, e in sorted(unnamed))
            raise UsageError(
                f"{self._name}: {circuits} would be dark for a moment, which was not planned",
                hint="plan the change again",
            )
        return routing

    def _send_setting(self, setting: Setting, deadline: Deadline) -> ChangeResult:
        """Set every cell and wait for the status; without one, there is a doubt.

        A refusal changes nothing, so it leaves the doubt that there was before, or none.
        """
        before = self._unacknowledged
        with self._dialect.connection(deadline) as line:
            commanded = now()
            self._unacknowledged = setting
            gates = dict(zip(numbers_of(self._mesh), setting, strict=True))
            words = self._dialect.tell(line, cells_line(gates), deadline)
            if _COMPLAINT.search(words):
                self._unacknowledged = before
                raise Rejected(self._name, f"refused to set its cells: {words}", reply=words)
        self._unacknowledged = None
        self._mesh = replace(self._mesh, setting=setting)
        return ChangeResult(commanded, now())


def _mesh_of(name: str, options: PhotonicMeshOptions) -> Mesh:
    try:
        return described_mesh(options)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", hint="correct its options in the lab file") from error


def cells_line(gates: Mapping[int, Gate]) -> str:
    """Return the line, without terminator, that sets cells: a Python list of cells and gates."""
    return f"[{', '.join(f'({cell}, {gate.value!r})' for cell, gate in sorted(gates.items()))}]"
