"""The lab, opened: what a plan needs of it, ready to be used, and given back piece by piece."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from testbed.bench.attenuation import Attenuation
from testbed.bench.clocks import HostClocks
from testbed.bench.contracts import Attenuator, Identity, OpticalSwitch, PowerMeter, PowerUnit
from testbed.bench.fabric import Fabric
from testbed.bench.health import troubles_of_host, troubles_of_light
from testbed.bench.host import BenchHost, ChangesLeftOnHost
from testbed.bench.instrument_factory import Instrument, make_instrument
from testbed.bench.lease_resources import box_of, is_exclusive
from testbed.bench.link import Listener
from testbed.bench.permission import Guard
from testbed.bench.power import Power
from testbed.clock import Deadline
from testbed.errors import BusyError, HostError, UnsafeError
from testbed.fabric.circuits import HostPort
from testbed.onhost.frames import Message
from testbed.record.journal import Journal
from testbed.record.lease import Lease
from testbed.record.locks import InstrumentLock
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.record.transcript import Transcript
from testbed.schema import Lab
from testbed.secret import redacted

_T = TypeVar("_T")
_R = TypeVar("_R")

_REOPEN_TRY = 0.4
"""Shorter than the second after which TCP sends its first packet again."""
_REAP_TRY = 8.0
"""Long enough for an agent that ends another one first."""
_REOPEN_PAUSE = 0.05
_LEAVE_TRY = 5.0


class Bench:
    """A lab's instruments and hosts, as far as one run uses them.

    `listener` hears the events of every agent, in the thread of that agent's link; what ranks
    write to standard error goes to `logs/` instead.
    """

    fabric: Fabric

    def __init__(
        self, lab: Lab, run: RunDirectory, journal: Journal, log: EventLog, listener: Listener
    ) -> None:
        self.lab = lab
        self.hosts: dict[str, BenchHost] = {}
        self.switches: dict[str, OpticalSwitch] = {}
        outlets = {name: host.power for name, host in lab.hosts.items()}
        self._units: dict[str, PowerUnit] = {}
        self.guard = Guard(lab)
        """What every act on the lab asks at the moment it is done: nothing may be before `hold`."""
        self.power = Power(self._units, outlets, journal, self.guard)
        self.meters: dict[str, PowerMeter] = {}
        self._attenuators: dict[str, Attenuator] = {}
        self._instruments: dict[str, Instrument] = {}
        self.attenuation = Attenuation(
            self._attenuators,
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
        self._token = secrets.token_hex(16)
        self._agents: dict[str, int] = {}
        """By host, the promise that what an agent of ours did there is taken back."""
        self._locks: list[InstrumentLock] = []
        self._transcripts: dict[str, Transcript] = {}

    @property
    def token(self) -> str:
        """Return the run's secret, by which its agents and ranks know each other."""
        return self._token

    def hold(self, lease: Lease) -> None:
        """Use what a lease covers; whoever took it gives it back when the bench is closed."""
        self.guard.hold(lease)

    def lease_reported_identities(self) -> None:
        """Lease what is open here by what it said that it is, before anything of it is changed.

        Raise BusyError when somebody else has one of these boxes under another name.
        """
        self.guard.lease_reported_identities()

    def open_instruments(
        self,
        switches: Iterable[str],
        power: Iterable[str],
        deadline: Deadline,
        *,
        optics: Iterable[str] = (),
    ) -> None:
        """Open and identify instruments, side by side; lines that nobody can share are locked.

        `optics` are attenuators and power meters.
        Raise BusyError when somebody has such a line, InstrumentError when one does not answer.
        """
        wanted = [*sorted(switches), *sorted(power), *sorted(optics)]
        for box, name in {
            box_of(self.lab, n): n for n in wanted if is_exclusive(self.lab, n)
        }.items():
            if all(lock.resource != box for lock in self._locks):
                self._locks.append(InstrumentLock(name, box, self._run.id))
        for name in wanted:
            self._transcripts[name] = Transcript(
                self._run.wire(name), name, partial(self._note_retry, name)
            )
        for name in wanted:
            self._make(name)
        opened = run_parallel(lambda name: self._instruments[name].open(deadline), wanted)
        for name, identity in opened.items():
            self._announce(name, identity)
            self.guard.answered.instrument(name, identity)

    def open_fabric(self, ports: Iterable[HostPort]) -> None:
        """Make the one door to the fabric, for the given host ports."""
        lab, record = self.lab, (self._journal, self._log)
        limits, added = lab.light_limits(), self.attenuation.added
        self.fabric = Fabric(
            self.switches, lab.wiring(), ports, *record, self.guard, limits, added=added
        )

    def open_hosts(self, names: Iterable[str], deadline: Deadline) -> None:
        """Start the agents of hosts and set up their networks, side by side.

        Raise BusyError when somebody else has one of them under another name.
        """
        self.start_agents(names := list(names), deadline)
        self.lease_reported_identities()
        self.set_up_hosts(names, deadline)

    def start_agents(self, names: Iterable[str], deadline: Deadline) -> None:
        """Start the agents of hosts, side by side; they change nothing yet."""
        run_parallel(lambda name: self._start_agent(name, deadline), names := list(names))
        for name in names:
            self.guard.answered.host(name, self.hosts[name].all_hardware)

    def set_up_hosts(self, names: Iterable[str], deadline: Deadline) -> None:
        """Set up the networks of hosts, side by side."""
        run_parallel(lambda name: self._set_up(name, deadline), list(names))

    def check_health(self, names: Collection[str], deadline: Deadline) -> None:
        """Log what is not as it should be with hosts that were opened, and with their light."""
        for name in names:
            # What dead agents left there is taken back by now.
            for trouble in troubles_of_host({**self.hosts[name].facts, "leftovers": ()}):
                self._log.append("health", name, text=trouble)
        for name, switch in self.switches.items():
            for trouble in troubles_of_light(self.lab, name, switch, names, deadline):
                self._log.append("health", name, text=trouble)

    def open_host(self, name: str, deadline: Deadline) -> None:
        """Start one host's agent and set up its network."""
        self._start_agent(name, deadline)
        self._set_up(name, deadline)

    def reopen_host(self, name: str, deadline: Deadline) -> None:
        """Open a host that is starting: try until it answers; raise what the last try said."""
        self._start_with_retries(name, _REOPEN_TRY, deadline)
        self._set_up(name, deadline)

    def reap(self, name: str, deadline: Deadline) -> None:
        """See that nothing of this run is left on a host: its agent, its ranks, what they changed.

        An agent that is started there for the same run ends the one that it finds, or takes back
        what that one left. A host that is starting is waited for. Raise HostError when it does not
        answer.
        """
        if name not in self.lab.hosts:
            raise UnsafeError(f"{name} is no host of the lab", hint="look at it by hand")
        self._start_with_retries(name, _REAP_TRY, deadline)
        self._leave(self.hosts.pop(name), deadline)

    def _settle(self, name: str) -> None:
        """Keep the promise of a host on which nothing of this run is left."""
        if (promise := self._agents.pop(name, None)) is not None:
            self._journal.settle(promise)

    def _start_with_retries(self, name: str, each: float, deadline: Deadline) -> None:
        """Start an agent on a host that may still be starting, trying again until it answers.

        Each try is given twice the time of the one before: the host may just be busy.
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
        """Measure every host's clock well; one that does not answer is left out, and said."""

        def measure(host: BenchHost) -> None:
            try:
                self.clocks.add_offset(host.name, host.clock_offset(deadline))
            except HostError as error:
                self._log.append("note", host.name, text=f"its clock was not measured: {error}")

        run_parallel(measure, list(self.hosts.values()))

    def drop_host(self, name: str) -> None:
        """Forget a host that does not answer, without waiting for it."""
        if host := self.hosts.pop(name, None):
            host.drop()

    def drop_cut_hosts(self) -> None:
        """Forget the agents of hosts whose power we cut: they ended with everything else there."""
        for name in self.power.cut_hosts & self.hosts.keys():
            self.drop_host(name)
        for name in self.power.cut_hosts:
            self._settle(name)

    def close_hosts(self, deadline: Deadline) -> None:
        """Have every agent take back what it did; raise UnsafeError with what is left.

        A host whose agent was lost on the way, and not with its power, or does not take everything
        back now, is asked by a new one.
        """
        self.drop_cut_hosts()
        problems: list[str] = []

        def close(name: str) -> None:
            try:
                if name in self.hosts:
                    with suppress(HostError):
                        return self._leave(self.hosts.pop(name), deadline.within(_LEAVE_TRY))
                self.reap(name, deadline)
            except BusyError as error:
                problems.append(f"{name} is left with what this run has there: {error}")
            except (HostError, UnsafeError) as error:
                problems.append(str(error))

        run_parallel(close, sorted({*self.hosts, *self._agents}))
        if problems:
            raise UnsafeError("; ".join(problems), hint="look at these hosts")

    def _leave(self, host: BenchHost, deadline: Deadline) -> None:
        host.clean_up(deadline)
        self._settle(host.name)

    def close_instruments(self) -> None:
        """Close lines and transcripts and give back the locks; all is left as it is."""
        for instrument in self._instruments.values():
            instrument.close()
        for transcript in self._transcripts.values():
            transcript.close()
        while self._locks:
            self._locks.pop().release()

    def _start_agent(self, name: str, deadline: Deadline) -> None:
        self.guard.host(name)
        is_first = name not in self._agents
        if is_first:
            self._agents[name] = self._journal.promise("agent", host=name)
        try:
            self._run_agent(name, deadline)
        except HostError:
            if is_first:  # it changed nothing, and ends with its line
                self._settle(name)
            raise

    def _run_agent(self, name: str, deadline: Deadline) -> None:
        spec = self.lab.hosts[name]
        self.hosts[name] = BenchHost(name, spec, self._hear, deadline, self._run.id)
        self.power.cut_hosts.discard(name)
        for found in self.hosts[name].facts["leftovers"]:
            what = ", ".join(found["promised"])
            text = f"took back what a dead agent of run {found['run']} left: {what}"
            self._log.append("note", name, text=text)

    def _hear(self, host: str, message: Message, received: float) -> None:
        if message["event"] != "log":
            self._listener(host, message, received)
            return
        self.keep_output(host, "ranks.log", redacted(message["line"]) + "\n")

    def keep_output(self, host: str, name: str, text: str) -> None:
        """Append what was said on a host to one of its files under `logs/`."""
        with (
            suppress(OSError),  # a full disk ends the run elsewhere
            self._run.log(host, name).open(
                "a", encoding="utf-8", errors="backslashreplace"
            ) as file,
        ):
            file.write(text)

    def _set_up(self, name: str, deadline: Deadline) -> None:
        host = self.hosts[name]
        others = [other for other in self.hosts.values() if other.name != name]
        self.guard.host(name)
        peers = {a: h for other in others for a, h in other.hardware_addresses().items()}
        changes = host.set_up_network(peers, self._token, deadline)
        facts = {"network_changes": changes, **host.facts}
        self.clocks.start(self._log.append("host.ready", name, **facts))
        host.watch_clock(partial(self.clocks.add_offset, name))

    def _make(self, name: str) -> None:
        made: Any = make_instrument(self.lab, name, self._transcripts[name], self._instruments)
        self._instruments[name] = made
        for section, ready in (
            (self.lab.switches, self.switches),
            (self.lab.power, self._units),
            (self.lab.attenuators, self._attenuators),
            (self.lab.meters, self.meters),
        ):
            if name in section:
                ready[name] = made

    def _note_retry(self, name: str, why: str) -> None:
        self._log.append("retry", name, what="a read", why=why)

    def _announce(self, name: str, identity: Identity) -> None:
        data = asdict(identity)
        if name in self.switches:
            data["settle"] = self.switches[name].capabilities.settle
        self._log.append("instrument.ready", name, **data)


def run_parallel(action: Callable[[_T], _R], items: list[_T]) -> dict[_T, _R]:
    """Do something to every item at once; return the results, or raise the first error.

    All have ended when it returns or raises, except where a signal ends this process.
    """
    pool = ThreadPoolExecutor(max(1, len(items)))
    try:
        futures = {item: pool.submit(action, item) for item in items}
        wait(futures.values())
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return {item: future.result() for item, future in futures.items()}
