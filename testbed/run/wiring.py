"""Find out whether every fibre of a lab is where its file says, with light and frames.

One circuit at a time is lit and both its ends ask who is at the other. A port whose circuit stays
silent is tried again with a port that is known to be good; then the ways in which two fibres may
have been swapped are tried one by one, as if the lab file said so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from testbed.bench.bench import Bench
from testbed.bench.fabric import Fabric
from testbed.clock import Deadline, now
from testbed.errors import EXIT_BUG, EXIT_PASSED, HostError, InstrumentError, LabError
from testbed.fabric.circuits import Circuit, HostPort, Wiring
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox
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


@dataclass(frozen=True, slots=True)
class PortFinding:
    """What was found of one host port's fibres."""

    port: HostPort
    state: str
    """`found`, `lossy`, `swapped` or `dark`."""
    text: str
    lost: float | None = None
    """The share of frames lost over its circuit; None where none was carried."""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return asdict(self) | {"port": str(self.port)}


class WiringCheck:
    """The check of every host port that is wired to a switch; its hosts are open.

    `tell` hears each finding as soon as it is certain.
    """

    def __init__(
        self,
        bench: Bench,
        journal: Journal,
        log: EventLog,
        tell: Callable[[PortFinding], None],
    ) -> None:
        self._bench = bench
        self._journal = journal
        self._log = log
        self._tell = tell
        self._wiring: Wiring = bench.lab.wiring()
        self._settle = max((s.capabilities.settle_max for s in bench.switches.values()), default=0)
        self._good: list[HostPort] = []
        self._stopped = False
        self._slowest = 0.0
        self._link_limit = _LINK_LIMIT

    def stop(self) -> None:
        """Light no further circuit; the one that is lit is taken down as always."""
        self._stopped = True

    def run(self) -> list[PortFinding]:
        """Light one circuit after the other and return a finding per port, in the file's order.

        Raise BusyError when somebody's circuit is on a port that is needed, LabError once stopped.
        """
        findings: dict[HostPort, PortFinding] = {}
        suspects: list[HostPort] = []
        for pair in self._pairs():
            losses = self._carries(Circuit.between(*pair), self._wiring)
            if losses is None:
                suspects += pair
            else:
                self._good += pair
                findings |= {port: self._heard(port, pair, losses) for port in pair}
        silent = [port for port in dict.fromkeys(suspects) if port not in findings]
        for port in list(silent):
            if finding := self._tried_alone(port):
                findings[port] = finding
                silent.remove(port)
        findings |= {port: self._examine(port, silent) for port in silent}
        return [findings[port] for port in self._wiring]

    def _pairs(self) -> Iterator[tuple[HostPort, HostPort]]:
        """Pair the ports of each switch, an odd one with a port that has its turn already.

        A host drops what it hears from itself, so the first ports of all hosts come first.
        """
        columns = {
            HostPort(h, p): n for h, ps in self._bench.lab.ports().items() for n, p in enumerate(ps)
        }
        switches = sorted({fibres.tx.switch for fibres in self._wiring.values()})
        for switch in switches:
            ports = [port for port, fibres in self._wiring.items() if fibres.tx.switch == switch]
            links = list(pairwise(sorted(ports, key=lambda port: columns[port])))
            yield from links[::2]
            if len(ports) % 2 and links:
                yield links[-1]

    def _heard(
        self, port: HostPort, pair: tuple[HostPort, HostPort], losses: Mapping[HostPort, float]
    ) -> PortFinding:
        partner = pair[1] if port == pair[0] else pair[0]
        lost = losses[port]
        state = "lossy" if lost else "found"
        text = f"hears {partner} and is heard; {lost:.1%} of {FRAMES} frames lost"
        return self._found(PortFinding(port, state, text, lost))

    def _tried_alone(self, port: HostPort) -> PortFinding | None:
        """Try a port of a silent circuit with one that is known to be good."""
        reference = self._reference(port)
        if reference is None:
            return None
        losses = self._carries(Circuit.between(port, reference), self._wiring)
        if losses is None:
            return None
        self._good.append(port)
        return self._heard(port, (port, reference), losses)

    def _examine(self, port: HostPort, silent: list[HostPort]) -> PortFinding:
        """Say what is wrong with a port that stayed silent, as others did."""
        reference, fibres = self._reference(port), self._wiring[port]
        if reference is None:
            text = f"no port of {fibres.tx.switch} answers, so nothing can be said of this one"
            return self._found(PortFinding(port, "dark", text))
        circuit = Circuit.between(port, reference)
        for other in silent:
            if other == port or self._wiring[other].tx.switch != fibres.tx.switch:
                continue
            for what, swapped in self._swaps(port, other):
                if losses := self._carries(circuit, swapped):
                    return self._found(PortFinding(port, "swapped", what, losses[port]))
        text = f"no light to or from {fibres.tx} and {fibres.rx}: unplugged, broken or elsewhere"
        return self._found(PortFinding(port, "dark", text))

    def _reference(self, suspect: HostPort) -> HostPort | None:
        switch = self._wiring[suspect].tx.switch
        known = [port for port in self._good if self._wiring[port].tx.switch == switch]
        return next((port for port in known if port.host != suspect.host), None)

    def _swaps(self, one: HostPort, other: HostPort) -> Iterator[tuple[str, Wiring]]:
        """Yield the ways in which the fibres of two ports may have been swapped."""
        mine, theirs = self._wiring[one], self._wiring[other]
        for what, a, b in (
            (
                f"its transmit fibre and that of {other} are swapped: {mine.tx} and {theirs.tx}",
                replace(mine, tx=theirs.tx),
                replace(theirs, tx=mine.tx),
            ),
            (
                f"its receive fibre and that of {other} are swapped: {mine.rx} and {theirs.rx}",
                replace(mine, rx=theirs.rx),
                replace(theirs, rx=mine.rx),
            ),
            (f"its fibres and those of {other} are swapped", theirs, mine),
        ):
            yield what, {**self._wiring, one: a, other: b}

    def _carries(self, circuit: Circuit, wiring: Wiring) -> dict[HostPort, float] | None:
        """Light one circuit; return the share of frames lost each way, None when it is silent."""
        if self._stopped:
            raise LabError("the check of the wiring was ended before all ports were tried")
        bench, limits = self._bench, self._bench.lab.light_limits()
        fabric = Fabric(bench.switches, wiring, circuit.ends, self._journal, self._log, limits)
        deadline = Deadline.after(_CHANGE_LIMIT + self._settle)
        fabric.adopt(frozenset(), deadline)
        try:
            fabric.change(frozenset({circuit}), _OWNER, deadline)
            return self._losses(circuit)
        except InstrumentError as error:  # the switch itself sees no light there
            self._log.append("note", str(circuit), text=str(error))
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
        hosts = self._bench.hosts
        asked = {
            near: hosts[near.host].ask_identity(
                near.port,
                hosts[far.host],
                far.port,
                limit=limit,
                first=first,
                count=1_000_000 if first else FRAMES,
            )
            for near, far in (circuit.ends, circuit.ends[::-1])
        }
        deadline = Deadline.after(limit + 1.0)
        answers = {}
        for port, answer in asked.items():
            try:
                answers[port] = answer.result(deadline.left).value
            except TimeoutError:
                raise HostError(port.host, "its agent does not answer") from None
        return answers

    def _found(self, finding: PortFinding) -> PortFinding:
        self._log.append("wiring.port", str(finding.port), state=finding.state, text=finding.text)
        self._tell(finding)
        return finding


def conduct(
    lab: Lab,
    run: RunDirectory,
    log: EventLog,
    inbox: Inbox,
    tell: Callable[[PortFinding], None],
) -> tuple[list[PortFinding], list[str]]:
    """Open a lab, check its wiring and give everything back; return findings and what is left.

    The log ends with `run.end`, whatever happened; what stopped the check is raised after that.
    """
    journal = Journal(run.journal)
    bench = Bench(lab, run, journal, log, inbox.listen)
    cleanup = Cleanup(inbox, log)
    findings: list[PortFinding] = []
    problem: Exception | None = None
    try:
        findings = _checked(bench, journal, log, inbox, cleanup, tell)
    except Exception as error:  # whatever it is, it must not keep the circuit lit
        problem = error
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
    if problem:
        raise problem
    return findings, cleanup.failures


def _checked(
    bench: Bench,
    journal: Journal,
    log: EventLog,
    inbox: Inbox,
    cleanup: Cleanup,
    tell: Callable[[PortFinding], None],
) -> list[PortFinding]:
    opening, limit = Deadline.after(_OPEN_LIMIT), Deadline.after(_CHECK_LIMIT)
    cleanup.push("instruments", lambda _: bench.close_instruments(), _CHANGE_LIMIT)
    switches = list(bench.lab.switches)
    opened = inbox.submit(lambda: bench.open_instruments(switches, [], opening))
    inbox.result(opened, opening, "opening the switches")
    cleanup.push("agents", bench.close_hosts, _CHANGE_LIMIT)
    hosts = sorted({port.host for port in bench.lab.wiring()})
    inbox.result(
        inbox.submit(lambda: bench.open_hosts(hosts, opening)), opening, "starting the agents"
    )
    check = WiringCheck(bench, journal, log, tell)
    running = inbox.submit(check.run)

    def stop(deadline: Deadline) -> None:
        check.stop()
        wait([running], deadline.left)

    cleanup.push("circuit", stop, 2 * _CHANGE_LIMIT)
    return inbox.result(running, limit, "the check of the wiring")
