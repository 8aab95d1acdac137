"""Undo the entries of a dead run's journal, last first, each with its own time limit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any

from testbed.bench.bench import Bench
from testbed.bench.instrument_factory import opening_seconds
from testbed.bench.lease_resources import host_of, part_of, whole_of
from testbed.bench.parallel import run_parallel
from testbed.clock import Deadline, utc
from testbed.errors import EXIT_PASSED, EXIT_UNSAFE, LabError, TestbedError, UnsafeError
from testbed.record.journal import Entry, Journal, open_entries
from testbed.record.lease import Lease
from testbed.record.lease_rules import Resource
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox
from testbed.run.twin_control import TwinControl
from testbed.run.twin_settings import SETTINGS
from testbed.schema import Lab

_OPEN_LIMIT = 10.0
_STEP_LIMIT = 45.0
"""Seconds for a step; a switch whose read-back lags must come to rest in them."""
_HOST_LIMIT = 30.0
"""Seconds in which a host that is starting must have answered; all are asked side by side."""


@dataclass
class JournalReplay:
    """The clean-up of one dead run by its journal."""

    lab: Lab
    directory: RunDirectory
    journal: Journal
    log: EventLog
    inbox: InitVar[Inbox]
    twin: TwinControl | None
    _opened: dict[str, TestbedError | None] = field(default_factory=dict)
    _inherited: frozenset[Resource] = frozenset()
    _was_off: set[str] = field(default_factory=set)
    """Hosts that had no power: nothing of the run can be left on them."""

    def __post_init__(self, inbox: Inbox) -> None:
        """Make a bench and a clean-up of its own."""
        self._bench = Bench(
            self.lab, self.directory, self.journal, self.log, lambda host, message, received: None
        )
        self._cleanup = Cleanup(inbox, self.log)

    def run(self, lease: Lease) -> int:
        """Undo every open entry and return the exit code."""
        entries = open_entries(self.directory.journal)
        self.log.append("recover.begin", self.directory.id, **beginning(entries))
        self._bench.guard.hold(lease)
        self._inherited = lease.inherited
        self._push_all(entries)
        try:
            self._cleanup.run()
        finally:
            self._bench.close_instruments()
        left = self._cleanup.failures
        codes = self._cleanup.exit_codes()
        code = EXIT_UNSAFE if EXIT_UNSAFE in codes else min(codes, default=EXIT_PASSED)
        self.log.append("recover.end", self.directory.id, left=left, exit_code=code)
        return code

    def _push_all(self, entries: list[Entry]) -> None:
        """Push the steps so that what was recorded last is undone first, and hosts at the end.

        A host may have to start first, and its agent takes back all that happened there.
        """
        by_host: dict[str, list[Entry]] = {}
        elsewhere = []
        for entry in reversed(entries):
            if "host" in entry:
                by_host.setdefault(entry["host"], []).append(entry)
            else:
                elsewhere.append(entry)
        if by_host:
            self._cleanup.push("hosts", partial(self._clean_hosts, by_host), _HOST_LIMIT)
        for entry in elsewhere:
            self._cleanup.push(describe(entry), partial(self._restore, entry), _STEP_LIMIT)

    def _restore(self, entry: Entry, deadline: Deadline) -> None:
        try:
            match entry["undo"]:
                case "circuits":
                    self._restore_circuits(entry, deadline)
                case "outlet":
                    self._restore_power(entry, deadline)
                case "attenuation":
                    self._restore_attenuation(entry, deadline)
                case "far-end-fault":
                    self._twin_control.clear(entry["switch"], entry["fault"])
                    self.journal.settle(entry["id"])
                case "tuning":
                    self._twin_control.tune(entry["settings"])
                    self.journal.settle(entry["id"])
                case kind:
                    raise UnsafeError(
                        f"this version of testbed cannot undo {kind!r}",
                        hint=f"undo by hand what its journal says: {dict(entry)}",
                    )
        except (KeyError, TypeError, ValueError) as error:
            raise UnsafeError(
                f"the journal entry {dict(entry)} cannot be understood: {error!r}",
                hint="find out what it changed, and undo that by hand",
            ) from error

    def _restore_circuits(self, entry: Entry, deadline: Deadline) -> None:
        """Restore every switch that answers, whatever the others do."""
        closed = self._open(entry["ports"], deadline)
        self._bench.open_fabric(())
        fabric = self._bench.fabric
        exclusive = exclusive_switches(self.lab, entry, self._inherited, self.directory)
        fabric.adopt_undo(entry, exclusive)
        try:
            for words in fabric.bring_back(deadline):
                self.log.append("note", describe(entry), text=words)
        except TestbedError as error:
            raise _joined([*closed, error]) from error
        if closed:
            raise _joined(closed)
        fabric.discard_undo(deadline)

    def _restore_power(self, entry: Entry, deadline: Deadline) -> None:
        host = self._bench.power.adopt_undo(entry)
        self._open_all([entry["unit"]], deadline)
        if self._bench.power.is_off(host, deadline):
            self._was_off.add(host)
            text = f"{host} had no power, and starts now"
            self.log.append("note", describe(entry), text=text)
        self._bench.power.restore(host, deadline)

    def _restore_attenuation(self, entry: Entry, deadline: Deadline) -> None:
        self._bench.attenuation.adopt_undo(entry)
        self._open_all([entry["attenuator"]], deadline)
        self._bench.attenuation.restore_all(deadline)

    @property
    def _twin_control(self) -> TwinControl:
        if self.twin is None:
            raise UnsafeError(
                "the twin of this run was not found", hint="if it is up, name it with --twin"
            )
        return self.twin

    def _clean_hosts(self, entries: Mapping[str, list[Entry]], deadline: Deadline) -> None:
        """Verify side by side that nothing of the run is left on any host."""

        def clean(host: str) -> None:
            if host in self._was_off:
                self.log.append("note", host, text="what ran there ended with its power")
            else:
                self._bench.reap(host, deadline)
            for entry in entries[host]:
                self.journal.settle(entry["id"])

        if problems := [error for error in _errors(clean, entries).values() if error]:
            raise _joined(problems)

    def _open_all(self, names: Iterable[str], deadline: Deadline) -> None:
        if closed := self._open(names, deadline):
            raise _joined(closed)

    def _open(self, names: Iterable[str], deadline: Deadline) -> list[TestbedError]:
        """Open the instruments that are not open yet, side by side; return why some are not.

        Raise BusyError when one that answered is leased by another run under another name.
        """

        def open_one(name: str) -> None:
            if name not in self.lab.instruments():
                text = f"{name} is not an instrument of the lab"
                raise UnsafeError(text, hint="check by hand what the run left changed there")
            limit = deadline.within(opening_seconds(self.lab, [name], _OPEN_LIMIT))
            self._bench.open_instruments([name], limit)

        wanted = list(names)
        with self._cleanup.wait.waiting():
            self._opened |= _errors(open_one, (n for n in wanted if n not in self._opened))
        self._bench.guard.lease_reported_identities()
        return [error for name in wanted if (error := self._opened[name])]


def _errors(action: Callable[[str], None], names: Iterable[str]) -> dict[str, TestbedError | None]:
    """Do something with every name in parallel; return by name what went wrong, if it did."""

    def act(name: str) -> TestbedError | None:
        try:
            action(name)
        except TestbedError as error:
            return error
        return None

    return run_parallel(act, list(names))


def _joined(problems: list[TestbedError]) -> TestbedError:
    """Return several problems as one; where something is known to be changed, that counts."""
    if len(problems) == 1:
        return problems[0]
    text = "; ".join(map(str, problems))
    return UnsafeError(text) if EXIT_UNSAFE in {p.exit_code for p in problems} else LabError(text)


# --- what an entry is about -----------------------------------------------------------------


def beginning(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return the data of the event `recover.begin` for a run with these entries."""
    return {"utc": utc(), "promises": [describe(entry) for entry in entries]}


def describe(entry: Mapping[str, Any]) -> str:
    """Describe the change that a journal entry undoes."""
    match entry:
        case {"undo": "circuits", "ports": dict(switches)}:
            return f"circuits of {', '.join(map(str, switches))}"
        case {"undo": "outlet", "unit": unit, "outlet": outlet}:
            return f"outlet {unit}.{outlet}"
        case {"undo": "attenuation", "attenuator": name, "channel": channel}:
            return f"channel {channel} of {name}"
        case {"undo": "far-end-fault", "switch": switch, "fault": fault}:
            return f"fault {fault} of the far end of {switch}"
        case {"undo": "tuning"}:
            return "settings of the twin"
        case {"undo": "agent", "host": host}:
            return f"agent and ranks on {host}"
        case {"undo": kind, "host": host}:
            return f"{kind} on {host}"
    return str(entry["undo"])


def resources(lab: Lab, entries: Iterable[Entry]) -> Iterator[Resource]:
    """Yield the resources that must be leased while these entries are undone."""
    for entry in entries:
        match entry:
            case {"undo": "circuits", "ports": dict(switches)}:
                for name in lab.switches.keys() & switches.keys():
                    ports = switches[name] if isinstance(switches[name], list) else ()
                    for port in ports:
                        yield from part_of(lab, name, str(port))
            case {"undo": "outlet", "unit": unit, "outlet": outlet} if unit in lab.power:
                yield from part_of(lab, unit, outlet)
            case {"undo": "attenuation", "attenuator": name} if name in lab.attenuators:
                yield from whole_of(lab, name)
            case {"undo": "tuning"}:
                yield SETTINGS
            case {"host": name} if name in lab.hosts:
                yield from host_of(lab, name)


def exclusive_switches(
    lab: Lab, entry: Mapping[str, Any], inherited: Collection[Resource], run: RunDirectory
) -> list[str]:
    """Return the switches of an entry that no other run can have used since.

    These are the switches that the run had leased as a whole. `inherited` are the leases that the
    run still had when they were taken over.
    """
    known = [name for name in entry["ports"] if name in lab.switches]
    held = [name for name in known if whole_of(lab, name) <= {*inherited}]
    if held and any(event.kind == "lease.regained" for event in read_events(run.events)):
        return []
    return held
