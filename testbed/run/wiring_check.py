"""Check that every fibre of a lab is connected as its file says, with light and datagrams.

One circuit at a time is lit and both its ends query each other's identity. A port whose circuits
stay silent is tried again with a port that is known to be good; then each possible swap of two
fibres is tried, as if the lab file said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

from testbed.bench.bench import Bench
from testbed.bench.fabric import Fabric
from testbed.clock import Deadline, now
from testbed.errors import (
    EXIT_BUG,
    EXIT_PASSED,
    Garbled,
    HostError,
    InstrumentError,
    LabError,
    LinkLost,
    NoReply,
    TestbedError,
    UnsafeError,
)
from testbed.fabric.circuits import Circuit, HostPort, Wiring
from testbed.fabric.fibre_search import FibreSearch, PortFinding
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox, Interrupted
from testbed.run.run_leases import RunLeases
from testbed.schema import Lab

FRAMES = 200
"""Frames sent each way over a circuit that answers, to see whether it loses any."""

_LINK_LIMIT = 10.0
"""Seconds that carrier and first answer may take beyond the switch's settle time…"""
_PATIENCE = 4.0
"""… until a circuit has answered: then so many times what the slowest took, …"""
_LINK_LEAST = 0.25
"""… and so many seconds."""
_FRAMES_LIMIT = 2.0
_CHANGE_LIMIT = 15.0
_OPEN_LIMIT = 20.0
_CHECK_LIMIT = 3600.0
_OWNER = "wiring"


@dataclass
class WiringCheck:
    """The check of every host port that is wired to a switch; its hosts are open.

    `tell` receives each finding as soon as it is certain.
    """

    bench: Bench
    journal: Journal
    log: EventLog
    tell: Callable[[PortFinding], None]
    _stopped: bool = False
    _slowest: float = 0.0
    _link_limit: float = _LINK_LIMIT
    _settle: float = 0.0

    def end(self, running: Future[list[PortFinding]], deadline: Deadline) -> None:
        """Make `run`, which is in progress, stop, and wait until its last circuit is removed.

        Raise UnsafeError when it did not stop, or when the circuit could not be removed.
        """
        self._stopped = True
        wait([running], deadline.left)
        if not running.done():
            raise UnsafeError(
                "the last circuit of the wiring check was not removed in time",
                hint="check the circuits of the switch",
            )
        if isinstance(error := running.exception(), UnsafeError):
            raise error

    def run(self) -> list[PortFinding]:
        """Light one circuit after the other and return a finding per port, in the file's order.

        Raise BusyError when another client's circuit uses a needed port, LabError once `end` was
        called.
        """
        switches = self.bench.switches.values()
        self._settle = max((s.capabilities.settle_max for s in switches), default=0)
        return FibreSearch(self.bench.lab.wiring(), self._carries, self._found).run()

    def _carries(self, circuit: Circuit, wiring: Wiring) -> dict[HostPort, float] | None:
        """Light one circuit; return the share of frames lost each way, None when it is silent.

        An error on the line to a switch proves nothing about a fibre: it is tried once more.
        """
        try:
            return self._lit(circuit, wiring)
        except (NoReply, LinkLost, Garbled) as error:
            self.log.append("note", str(circuit), text=f"{error}; it is tried once more")
            return self._lit(circuit, wiring)

    def _lit(self, circuit: Circuit, wiring: Wiring) -> dict[HostPort, float] | None:
        if self._stopped:
            raise LabError("the check of the wiring was ended before all ports were tried")
        bench, record = self.bench, (self.journal, self.log)
        limits = bench.lab.light_limits()
        fabric = Fabric(bench.switches, wiring, circuit.ends, *record, bench.guard, limits)
        deadline = Deadline.after(_CHANGE_LIMIT + self._settle)
        fabric.adopt({}, deadline)
        try:
            fabric.set_circuits(_OWNER, frozenset({circuit}), deadline)
            return self._losses(circuit)
        except (NoReply, LinkLost, Garbled):
            raise
        except InstrumentError as error:  # the switch itself sees no light there
            self.log.append("note", str(circuit), text=str(error))
            return None
        finally:
            fabric.restore(Deadline.after(_CHANGE_LIMIT))

    def _losses(self, circuit: Circuit) -> dict[HostPort, float] | None:
        begin = now()
        asked = self._asked(circuit, self._settle + self._link_limit, first=True)
        if not all(answer["good"] for answer in asked.values()):
            return None
        self._slowest = max(self._slowest, now() - begin)
        self._link_limit = min(self._link_limit, _PATIENCE * self._slowest + _LINK_LEAST)
        counted = self._asked(circuit, _FRAMES_LIMIT, first=False)
        return {port: 1 - a["answered"] / a["asked"] for port, a in counted.items()}

    def _asked(
        self, circuit: Circuit, limit: float, *, first: bool
    ) -> dict[HostPort, Mapping[str, int]]:
        """Have both ends ask who is at the other; return their answers."""
        hosts, count = self.bench.hosts, 1_000_000 if first else FRAMES
        asked = {
            near: hosts[near.host].ask_identity(
                near.port, hosts[far.host], far.port, limit=limit, first=first, count=count
            )
            for near, far in circuit.directions
        }
        deadline = Deadline.after(limit + 1.0)
        answers = {}
        for port, answer in asked.items():
            try:
                answers[port] = answer.result(deadline.left).value
            except TimeoutError:
                raise HostError(port.host, "its agent does not answer") from None
        return answers

    def _found(self, finding: PortFinding) -> None:
        self.log.append("wiring.port", str(finding.port), state=finding.state, text=finding.text)
        self.tell(finding)


def run_wiring_check(
    lab: Lab,
    run: RunDirectory,
    log: EventLog,
    inbox: Inbox,
    run_leases: RunLeases,
    tell: Callable[[PortFinding], None],
) -> tuple[list[PortFinding], list[str]]:
    """Check the wiring of a lab; return the findings, and the changes that could not be undone.

    The log always ends with `run.end`; an error that stopped the check is raised after that.
    """
    journal = Journal(run.journal)
    bench = Bench(lab, run, journal, log, inbox.listen)
    cleanup = Cleanup(inbox, log)
    findings: list[PortFinding] = []
    problem: Exception | None = None
    hosts = sorted({port.host for port in lab.wiring()})
    try:
        cleanup.push("leases", run_leases.give_back, _CHANGE_LIMIT)
        run_leases.take(bench, hosts)
        findings = _checked(WiringCheck(bench, journal, log, tell), hosts, inbox, cleanup)
    except Exception as error:  # whatever it is, it must not keep the circuit lit
        problem = error
    run_leases.before_cleanup(cleanup)
    cleanup.run()
    journal.close()
    inbox.close()
    log.append(
        "run.end",
        error=str(problem or ""),
        exit_code=getattr(problem, "exit_code", EXIT_BUG) if problem else EXIT_PASSED,
        cleanup="failed" if cleanup.failures else "verified",
        left=cleanup.failures,
    )
    if problem and cleanup.failures:
        raise _unsafe(problem, cleanup.failures)
    if problem:
        raise problem
    return findings, cleanup.failures


def _unsafe(problem: Exception, left: list[str]) -> TestbedError:
    """Return a problem with what is left behind; a signal stays the problem that is reported."""
    words = f"not taken back: {'; '.join(left)}"
    if isinstance(problem, Interrupted):
        problem.hint = words
        return problem
    return UnsafeError(f"{problem}; {words}", hint="check the circuits of the switch")


def _checked(
    check: WiringCheck, hosts: list[str], inbox: Inbox, cleanup: Cleanup
) -> list[PortFinding]:
    """Open the switches and the hosts, and check all fibres between them."""
    bench, opening, limit = check.bench, Deadline.after(_OPEN_LIMIT), Deadline.after(_CHECK_LIMIT)
    cleanup.push("instruments", lambda _: bench.close_instruments(), _CHANGE_LIMIT)
    open_all = partial(bench.open_instruments, bench.lab.switches)
    inbox.in_worker("opening the switches", open_all, opening)
    bench.guard.lease_reported_identities()
    cleanup.push("agents", bench.close_hosts, _CHANGE_LIMIT)
    inbox.in_worker("starting the agents", partial(bench.open_hosts, hosts), opening)
    running = inbox.submit(check.run)
    cleanup.push("circuit", partial(check.end, running), 2 * _CHANGE_LIMIT)
    return inbox.result(running, limit, "the check of the wiring")
