"""Open and close the instruments and hosts of a lab that one run uses."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import partial

from testbed.bench.attenuation import Attenuation
from testbed.bench.clocks import HostClocks, measure_offset
from testbed.bench.fabric import Fabric
from testbed.bench.health import troubles_of_host, troubles_of_light
from testbed.bench.host import BenchHost, ChangesLeftOnHost
from testbed.bench.instrument_set import InstrumentSet
from testbed.bench.link import Listener
from testbed.bench.parallel import run_parallel
from testbed.bench.permission import Guard
from testbed.bench.power import Power
from testbed.clock import Deadline
from testbed.errors import BusyError, HostError, UnsafeError
from testbed.fabric.circuits import HostPort
from testbed.onhost.frames import Message
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.schema import Lab, usable_fibres
from testbed.secret import redacted

_REOPEN_TRY = 0.4
"""Shorter than the second after which TCP sends its first packet again."""
_REAP_TRY = 8.0
"""Long enough for an agent that ends another one first."""
_REOPEN_PAUSE = 0.05
_END_TRY = 5.0
_AGENT_LIMIT = 20.0
"""Seconds that one host may take to start an agent, however many come before it."""
AGENTS_AT_ONCE = 64
"""Agents that are started at the same time.

A login over SSH takes tens of milliseconds of a processor: of a thousand at once all would be late.
"""


class Bench:
    """The open instruments and hosts of a lab that one run uses.

    `listener` is called with the events of every agent, in the thread that reads all links; the
    ranks' standard error goes to `logs/` instead.
    """

    fabric: Fabric

    def __init__(
        self, lab: Lab, run: RunDirectory, journal: Journal, log: EventLog, listener: Listener
    ) -> None:
        self.lab = lab
        self.hosts: dict[str, BenchHost] = {}
        self._instruments = InstrumentSet(lab, run, log)
        self.switches = self._instruments.switches
        self.meters = self._instruments.meters
        outlets = {name: host.power for name, host in lab.hosts.items()}
        self.guard = Guard(lab)
        """Checked immediately before every act on the lab: none is permitted before it holds a
        lease, which its owner releases after the bench is closed."""
        self.power = Power(self._instruments.units, outlets, journal, self.guard)
        self.attenuation = Attenuation(
            self._instruments.attenuators,
            lab.attenuated(),
            self.meters,
            lab.tapped(),
            lab.wiring(),
            journal,
            self.guard,
        )
        self._run = run
        self._journal = journal
        self._log = log
        self._listener = listener
        self.clocks = HostClocks(log)
        self.token = secrets.token_hex(16)
        """The run's secret, by which its agents and ranks authenticate each other."""
        self._agents: dict[str, int] = {}
        """By host, the journal entry for what our agent changes there."""

    def open_instruments(self, names: Iterable[str], deadline: Deadline) -> None:
        """Open and identify instruments in parallel, and lock lines that cannot be shared.

        Switches are first in the log, then power units, then attenuators and meters. Raise
        BusyError when another run uses such a line, InstrumentError when one does not answer.
        """
        switches, units = self.lab.switches, self.lab.power
        wanted = sorted(names, key=lambda name: (name not in switches, name not in units, name))
        for name, identity in self._instruments.open(wanted, deadline).items():
            self.guard.answered.instrument(name, identity)

    def open_fabric(self, ports: Iterable[HostPort]) -> None:
        """Create `fabric` for the given host ports, and the fibres between the open switches."""
        lab, record = self.lab, (self._journal, self._log)
        limits, added = lab.light_limits(), self.attenuation.added
        between = [
            pair
            for pair in usable_fibres(lab)
            if all(end.switch in self.switches for end in pair.ends)
        ]
        self.fabric = Fabric(
            self.switches,
            lab.wiring(),
            ports,
            *record,
            self.guard,
            limits,
            added=added,
            between=between,
        )

    def open_hosts(self, names: Iterable[str], deadline: Deadline) -> None:
        """Start the agents of hosts and set up their networks, in parallel.

        Raise BusyError when another run uses one of them under another name.
        """
        self.start_agents(names := list(names), deadline)
        self.guard.lease_reported_identities()
        self.set_up_hosts(names, deadline)

    def start_agents(self, names: Iterable[str], deadline: Deadline) -> None:
        """Start the agents of hosts, `AGENTS_AT_ONCE`, without any change to the hosts."""

        def start(name: str) -> None:
            self._start_agent(name, deadline.within(_AGENT_LIMIT))

        run_parallel(start, names := list(names), AGENTS_AT_ONCE)
        for name in names:
            self.guard.answered.host(name, self.hosts[name].all_hardware)

    def set_up_hosts(self, names: Iterable[str], deadline: Deadline) -> None:
        """Set up the networks of hosts in parallel."""
        run_parallel(lambda name: self._set_up(name, deadline), list(names))

    def check_health(self, names: Collection[str], deadline: Deadline) -> None:
        """Log problems of the open hosts and of their light."""
        for name in names:
            # What dead agents left there is taken back by now.
            for trouble in troubles_of_host({**self.hosts[name].facts, "leftovers": ()}):
                self._log.append("health", name, text=trouble)
        for name, switch in self.switches.items():
            for trouble in troubles_of_light(self.lab, name, switch, names, deadline):
                self._log.append("health", name, text=trouble)

    def reopen_host(self, name: str, deadline: Deadline) -> None:
        """Open a host that is booting: retry until it answers; raise the last error."""
        self._start_with_retries(name, _REOPEN_TRY, deadline)
        self._set_up(name, deadline)

    def reap(self, name: str, deadline: Deadline) -> None:
        """Remove the processes and changes of this run from a host: agent, ranks, network settings.

        A new agent for the same run ends the one that it finds, or undoes the changes that the dead
        agent left. The call waits for a host that is booting. Raise HostError when it does not
        answer.
        """
        if name not in self.lab.hosts:
            hint = "check by hand what the run left running or changed there"
            raise UnsafeError(f"{name} is not a host of the lab", hint=hint)
        self._start_with_retries(name, _REAP_TRY, deadline)
        self._end_agent(self.hosts.pop(name), deadline)

    def _settle(self, name: str) -> None:
        """Settle the journal entry of a host on which nothing of this run is left."""
        if (entry := self._agents.pop(name, None)) is not None:
            self._journal.settle(entry)

    def _start_with_retries(self, name: str, each: float, deadline: Deadline) -> None:
        """Start an agent on a host that may still be starting, and retry until it answers.

        Each attempt has twice the time of the one before: the host may just be busy.
        """
        while True:
            try:
                return self._start_agent(name, deadline.within(each))
            except HostError as error:
                if deadline.passed or isinstance(error, ChangesLeftOnHost):
                    raise
                time.sleep(_REOPEN_PAUSE)
                each *= 2

    def measure_clocks(self, deadline: Deadline) -> None:
        """Measure every host's clock precisely; log and skip a host that does not answer."""

        def measure(host: BenchHost) -> None:
            try:
                self.clocks.add_offset(host.name, measure_offset(host.link, deadline))
            except HostError as error:
                self._log.append("note", host.name, text=f"its clock was not measured: {error}")

        run_parallel(measure, list(self.hosts.values()))

    def drop_host(self, name: str) -> None:
        """Close the link to a host that does not answer, without waiting for it."""
        if host := self.hosts.pop(name, None):
            host.link.close()

    def drop_cut_hosts(self) -> None:
        """Drop the links to agents of hosts whose power the run has cut."""
        for name in self.power.cut_hosts & self.hosts.keys():
            self.drop_host(name)
        for name in self.power.cut_hosts:
            self._settle(name)

    def close_hosts(self, deadline: Deadline) -> None:
        """Have every agent undo its changes; raise UnsafeError with those that remain.

        Where an agent was lost for another reason than a power cut, or does not undo everything, a
        new agent is started to undo the rest.
        """
        self.drop_cut_hosts()
        problems: list[str] = []

        def close(name: str) -> None:
            try:
                if name in self.hosts:
                    with suppress(HostError):
                        return self._end_agent(self.hosts.pop(name), deadline.within(_END_TRY))
                self.reap(name, deadline)
            except BusyError as error:
                problems.append(f"changes of this run may remain on {name}: {error}")
            except (HostError, UnsafeError) as error:
                problems.append(str(error))

        run_parallel(close, sorted({*self.hosts, *self._agents}))
        if problems:
            hint = "check by hand what the run left running or changed on these hosts"
            raise UnsafeError("; ".join(problems), hint=hint)

    def _end_agent(self, host: BenchHost, deadline: Deadline) -> None:
        host.clean_up(deadline)
        self._settle(host.name)

    def close_instruments(self) -> None:
        """Close lines and transcripts and release the locks, without any change to devices."""
        self._instruments.close()

    def _start_agent(self, name: str, deadline: Deadline) -> None:
        self.guard.host(name)
        is_first = name not in self._agents
        if is_first:
            self._agents[name] = self._journal.record_undo("agent", host=name)
        try:
            self._run_agent(name, deadline)
        except HostError:
            if is_first:  # it changed nothing, and ends with its line
                self._settle(name)
            raise

    def _run_agent(self, name: str, deadline: Deadline) -> None:
        spec = self.lab.hosts[name]
        self.hosts[name] = BenchHost(name, spec, self._on_event, deadline, self._run.id)
        self.power.cut_hosts.discard(name)
        for found in self.hosts[name].facts["leftovers"]:
            what = ", ".join(found["recorded"])
            text = f"took back what a dead agent of run {found['run']} left: {what}"
            self._log.append("note", name, text=text)

    def _on_event(self, host: str, message: Message, received: float) -> None:
        if message["event"] != "log":
            self._listener(host, message, received)
            return
        self.keep_output(host, "ranks.log", redacted(message["line"]) + "\n")

    def keep_output(self, host: str, name: str, text: str) -> None:
        """Append a host's output to one of its files under `logs/`."""
        with suppress(OSError):  # a full disk ends the run elsewhere
            path = self._run.log(host, name)
            with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)

    def _set_up(self, name: str, deadline: Deadline) -> None:
        host = self.hosts[name]
        others = [other for other in self.hosts.values() if other.name != name]
        self.guard.host(name)
        peers = {a: h for other in others for a, h in other.hardware_addresses().items()}
        changes = host.set_up_network(peers, self.token, deadline)
        facts = {"network_changes": changes, **host.facts}
        self.clocks.start(self._log.append("host.ready", name, **facts))
        host.watch_clock(partial(self.clocks.add_offset, name))
