"""A simulated optical circuit switch under SONiC: configuration, hardware, text output.

Configuration and hardware are kept apart, as SONiC keeps them in two data bases: orders change the
configuration at once, and the hardware follows or fails to. Assumptions beyond public documents are
listed in drivers/README.md: all output text but `succeeded`, `Error` and `Invalid`; a list is
carried out as a whole or not at all; a stale circuit holds its ports against mode `safe`; `config`
requires sudo for every user.
"""

from __future__ import annotations

import hmac
import re
import shlex
from collections.abc import Iterable, Sequence

from testbed.bench.contracts import EXIT_MARK
from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.armed_faults import ArmedFault
from testbed_drivers.dialects.client_connection import ClientConnection, LineSession
from testbed_drivers.dialects.far_end import ORDER_FAULTS, FarEnd
from testbed_drivers.switches.descriptors.sonic_ocs import SonicOcsOptions
from testbed_drivers.switches.simulated_switch import FAULTS as BOX_FAULTS
from testbed_drivers.switches.simulated_switch import SimulatedSwitch

FAULTS = {
    **ORDER_FAULTS,
    "login-rejected": "refuses every login",
    "stale-circuit": "deletes a circuit of `port` from its configuration, not from its hardware",
}
"""What the command line of such a switch can do wrong."""

CIRCUIT_COLUMNS = ("id", "a_side", "b_side")
STATUS_COLUMNS = (*CIRCUIT_COLUMNS, "a_side_status", "b_side_status")
_SUCCESS = EXIT_MARK + b"0\n"
_RANGE = re.compile(r"(\d+)A(?:\.\.(\d+)A)?-(\d+)B(?:\.\.(\d+)B)?", re.IGNORECASE)
_MODES = ("update", "safe", "overwrite")
_NO_COMMAND = 127

Pairs = dict[int, int]


class Failed(Exception):
    """A failed command with its output and exit status."""

    def __init__(self, words: str, status: int = 1) -> None:
        super().__init__(words)
        self.words = words
        self.status = status


class SonicOcsFarEnd(FarEnd):
    """A simulated SONiC optical circuit switch; its ports are `1A`… and `1B`…."""

    end = _SUCCESS

    def __init__(self, site: SwitchSite, options: SonicOcsOptions | None = None) -> None:
        super().__init__({**FAULTS, **BOX_FAULTS}, site)
        self._site = site
        self._password = (options or SonicOcsOptions()).password
        self._inputs = max(site.ingress)
        self._outputs = max(site.egress) - self._inputs
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self._configured: Pairs = {}
        self.at_once |= self._switch.at_once(self.hang_up, lambda: self._configured)
        self.at_once["meddled"] = self._change_by_other_client

    def admits(self, user: str, password: str | None) -> bool:
        """Accept any user with a key; a password only if the options name it."""
        if self.faults.strikes("login-rejected"):
            return False
        if password is None or self._password is None:
            return True
        return hmac.compare_digest(password.encode(), self._password.reveal().encode())

    def _conversation(self, connection: ClientConnection) -> LineSession:
        return LineSession(connection, self.execute)

    def execute(self, line: str) -> bytes:
        """Execute one command; return its output and exit status."""
        with self.lock:
            try:
                text, status = self._execute(shlex.split(line)), 0
            except ValueError as error:
                text, status = f"bash: {error}\n", 2
            except Failed as failed:
                text, status = f"{failed.words}\n", failed.status
        return text.encode() + EXIT_MARK + b"%d\n" % status

    def _execute(self, words: list[str]) -> str:
        privileged = words[:1] == ["sudo"]
        match words[1:] if privileged else words:
            case ["show", "version"]:
                return self._version()
            case ["show", "ocs", "port", "config"]:
                return self._ports()
            case ["show", "ocs", "cross-connect", "config"]:
                return table(CIRCUIT_COLUMNS, map(self._row, sorted(self._configured.items())))
            case ["show", "ocs", "cross-connect", "status"]:
                return table(STATUS_COLUMNS, self._statuses())
            case ["config", "ocs", "cross-connect", *rest] if not privileged:
                raise Failed("Root privileges are required for this operation")
            case ["config", "ocs", "cross-connect", *rest]:
                return self._configure(rest)
            case ["show" | "config" as program, *rest]:
                raise Failed(f'Error: No such command "{" ".join(rest)}" of {program}.', 2)
            case [program, *_]:
                raise Failed(f"bash: {program}: command not found", _NO_COMMAND)
        return ""

    # --- changing -----------------------------------------------------------------------------

    def _configure(self, words: list[str]) -> str:
        verb = " ".join(words[:1])
        if self.is_busy:
            raise Failed("Error: the switch is busy, try again later")
        if self.faults.strikes("error", f"config ocs cross-connect {verb}"):
            raise Failed("Error: the operation failed in the hardware")
        match words:
            case ["add", circuits]:
                self._add(self._pairs(circuits), "update")
            case ["add", circuits, mode] if mode in _MODES:
                self._add(self._pairs(circuits), mode)
            case ["delete", circuits]:
                self._delete(self._pairs(circuits))
            case _:
                raise Failed("Error: Invalid arguments; try --help", 2)
        return f"{verb.capitalize()} cross-connect succeeded\n"

    def _add(self, pairs: Pairs, mode: str) -> None:
        ends = frozenset({*pairs, *pairs.values()})
        if mode == "overwrite":
            ends |= self._site.ingress
        configured = _in_the_way(pairs, ends, self._configured)
        present = _in_the_way(pairs, ends, self._switch.commanded)
        if mode == "safe" and (configured or present):
            row = min((configured or present).items())
            raise Failed(f"Error: a port is in use by {self._row(row)[0]}")
        self._forget(configured)
        self._switch.disconnect(present)
        self._configured |= pairs
        self._switch.connect(pairs)

    def _delete(self, pairs: Pairs) -> None:
        absent = pairs.items() - self._configured.items()
        if absent:
            raise Failed(f"Error: cross-connect {self._row(min(absent))[0]} does not exist")
        self._forget(pairs)
        gone = [r for r in pairs.items() if not self.faults.strikes("stale-circuit", "", *r)]
        self._switch.disconnect(dict(gone))

    def _forget(self, pairs: Pairs) -> None:
        self._configured = {i: e for i, e in self._configured.items() if pairs.get(i) != e}

    def _pairs(self, text: str) -> Pairs:
        """Return the circuits of `1A-1B,2A-5B` or `1A..10A-11B..20B`."""
        rows = [row for part in text.split(",") for row in self._range(part)]
        ends = [end for row in rows for end in row]
        if len(set(ends)) != len(ends):
            raise Failed(f"Error: Invalid list {text}: a port is named twice", 2)
        return dict(rows)

    def _range(self, text: str) -> list[tuple[int, int]]:
        match = _RANGE.fullmatch(text)
        if match is None:
            raise Failed(f"Error: Invalid cross-connect {text}", 2)
        first_a, last_a = int(match[1]), int(match[2] or match[1])
        first_b, last_b = int(match[3]), int(match[4] or match[3])
        if last_a - first_a != last_b - first_b or last_a < first_a:
            raise Failed(f"Error: Invalid range {text}", 2)
        if not (1 <= first_a <= last_a <= self._inputs and 1 <= first_b <= last_b <= self._outputs):
            raise Failed(f"Error: Invalid port in {text}", 2)
        offset = first_b + self._inputs - first_a
        return [(a, a + offset) for a in range(first_a, last_a + 1)]

    # --- what happens by itself ---------------------------------------------------------------

    def _change_by_other_client(self, fault: ArmedFault) -> None:
        """Delete the circuit of a port, or all, as an operator at another console would."""
        with self.lock:
            kept = {i: e for i, e in self._configured.items() if fault.port not in (None, i, e)}
            self._configured = kept
            self._switch.change_by_other_client(fault)

    # --- showing ------------------------------------------------------------------------------

    def _version(self) -> str:
        return (
            "\nSONiC Software Version: SONiC.ocs.0-synthetic\nDistribution: Debian 13\n\n"
            f"Platform: x86_64-ocs-r0\nHwSKU: OCS-{self._inputs}x{self._outputs}\nASIC: ocs\n"
            f"Serial Number: {self._site.serial}\nModel Number: OCS\n"
        )

    def _ports(self) -> str:
        count = max(self._inputs, self._outputs)
        names = [(f"{n}A", n <= self._inputs) for n in range(1, count + 1)]
        names += [(f"{n}B", n <= self._outputs) for n in range(1, count + 1)]
        return table(("id", "label", "state"), ((n, "", "normal") for n, there in names if there))

    def _statuses(self) -> list[tuple[str, ...]]:
        return [
            (*self._row(row), *(self._status(row[0], port) for port in row))
            for row in sorted(self._switch.read_back().items())
        ]

    def _status(self, ingress: int, port: int) -> str:
        if self._switch.has_failed(port):
            return "failed"
        return "tuning" if self._switch.unsteady().get(ingress) == "moving" else "tuned"

    def _row(self, row: tuple[int, int]) -> tuple[str, str, str]:
        a_side, b_side = f"{row[0]}A", f"{row[1] - self._inputs}B"
        return f"{a_side}-{b_side}", a_side, b_side


def _in_the_way(pairs: Pairs, ends: frozenset[int], held: Pairs) -> Pairs:
    """Return what is held on some ports and is not among the pairs."""
    return {i: e for i, e in held.items() if ends & {i, e} and pairs.get(i) != e}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table as SONiC prints it."""
    lines = [tuple(columns), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    spaced = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join(spaced) + "\n"
