"""Carry out the commands of a policy, and return their outcomes as observations.

Commands that block run in workers; their outcome comes back through the inbox as an observation.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import assert_never

from testbed.clock import Deadline
from testbed.control import protocol
from testbed.errors import HostError, InstrumentError, TestbedError
from testbed.record.log import EventLog
from testbed.run.circuits import verify_links
from testbed.run.fencing import Fencing
from testbed.run.running_job import RunningJob

_LOOK_LIMIT = 5.0
_CHANGE_LIMIT = 10.0
_SPARE_LIMIT = 2.0


class _Superseded(Exception):
    """Other circuits are wanted by now."""


class PolicyExecutor:
    """Runs a policy on the job of one trial."""

    def __init__(self, policy: protocol.Policy, job: RunningJob, log: EventLog) -> None:
        self._policy = policy
        self._bench = bench = job.bench
        self._inbox = job.inbox
        self._job = job
        self._log = log
        ports = bench.lab.ports()
        fences = {host: bench.lab.fences(host) for host in bench.lab.hosts}
        situation = protocol.Situation(job.hosts, job.spares, ports, job.generation, fences)
        self._state = policy.begin(situation)
        self.happened = False
        """A recovery was begun."""
        self._fencing = Fencing(bench, log)
        self._wanted: protocol.SetCircuits | None = None
        """The circuits that were commanded last; an earlier command may still be under way."""
        self._changing = Lock()
        self.failure = ""
        """Why the policy gave up."""

    def await_fault(self) -> None:
        """Make only recoveries that begin from now on count; earlier ones were false alarms."""
        self.happened = False

    @property
    def is_over(self) -> bool:
        """Return whether a recovery has begun and ended, successfully or not."""
        return self.happened and not self.is_under_way

    @property
    def is_under_way(self) -> bool:
        """Return whether a recovery is in progress, after a fault or a false alarm."""
        return self._policy.is_recovering(self._state)

    def observe(self, observation: protocol.Observation) -> None:
        """Pass an observation to the policy, and carry out its commands."""
        self._state, commands = self._policy.step(self._state, observation)
        for command in commands:
            self._carry_out(command)

    def _carry_out(self, command: protocol.Command) -> None:
        match command:
            case protocol.ProbeHost(host, limit):
                self._in_worker(lambda: self._probe(host, limit))
            case protocol.Decide(why, victim, spare):
                self.happened = True
                self._log.append("recovery.decided", victim, because=why, replacement=spare)
            case protocol.Fence():
                self._in_worker(lambda: self._fencing.apply(command))
            case protocol.SetCircuits():
                self._wanted = command
                self._in_worker(lambda: self._set_circuits(command))
            case protocol.Leave(ranks, generation):
                self._job.leave(ranks, generation)
            case protocol.PrepareSpare(rank, host):
                self._prepare_spare(rank, host)
            case protocol.Join(generation, _, committed, restore):
                self._job.join(generation, committed, restore, probe=False)
            case protocol.GiveUp(reason):
                self.happened, self.failure = True, reason
                self._log.append("recovery.failed", reason=reason)
            case _:
                assert_never(command)

    def _in_worker(self, action: Callable[[], protocol.Observation | None]) -> None:
        def work() -> None:
            try:
                outcome = action()
            except TestbedError as error:
                outcome = protocol.CommandFailed(str(error))
            except Exception as error:  # a bug must end the recovery, not leave it waiting
                outcome = protocol.CommandFailed(f"{type(error).__name__}: {error}")
            if outcome is not None:
                self._inbox.observe(outcome)

        self._inbox.submit(work)

    def _probe(self, host: str, limit: float) -> protocol.Observation:
        """Ask a host's agent; where it does not answer in time, have its outlet looked at."""
        agent = self._bench.hosts.get(host)
        if agent is None:  # it was given up while the probe waited for its turn
            return protocol.HostSilent(host)
        try:
            agent.link.ask("alive", Deadline.after(limit + agent.link.usual_round_trip))
        except HostError:
            if self._bench.power.feeds(host):
                self._in_worker(lambda: self._look(host))
            return protocol.HostSilent(host)
        return protocol.HostAnswered(host)

    def _look(self, host: str) -> protocol.Observation | None:
        """Read a host's outlet, which changes nothing; one that cannot be read proves nothing."""
        try:
            is_off = self._bench.power.is_off(host, Deadline.after(_LOOK_LIMIT))
        except TestbedError:
            return None
        return protocol.HostOff(host) if is_off else None

    def _set_circuits(self, wanted: protocol.SetCircuits) -> protocol.Observation | None:
        """Make circuits; the outcome of a command is dropped once another was given."""
        deadline = Deadline.after(_CHANGE_LIMIT)
        try:
            verdicts = verify_links(
                self._bench, wanted.verify, self._log, lambda: self._change(wanted, deadline)
            )
        except (TestbedError, _Superseded):
            if self._is_stale(wanted):
                return None
            raise
        bad = [verdict for verdict in verdicts if not verdict.good]
        if not bad:
            return protocol.LinksGood(wanted.newcomer)
        reason = f"{bad[0].circuit} reads back but {bad[0].detail}"
        is_spare = wanted.newcomer in bad[0].circuit.hosts
        return protocol.CommandFailed(reason, is_spare, wanted.newcomer)

    def _is_stale(self, wanted: protocol.SetCircuits) -> bool:
        return wanted is not self._wanted

    def _change(self, wanted: protocol.SetCircuits, deadline: Deadline) -> None:
        """Change the circuits; a switch that failed at it is read and commanded once more.

        The second change is planned anew, from what the switch then reads. Neither is made once
        other circuits are wanted.
        """
        fabric = self._bench.fabric
        with self._changing:
            if self._is_stale(wanted):
                raise _Superseded
            try:
                fabric.change(wanted.circuits, "recovery", deadline)
            except InstrumentError as error:
                if self._is_stale(wanted):
                    raise
                why = str(error.args[0]).removeprefix(f"{error.instrument}: ")
                self._log.append("retry", error.instrument, what="a change", why=why)
                fabric.change(wanted.circuits, "recovery", deadline)

    def _prepare_spare(self, rank: int, host: str) -> None:
        job = self._job
        # A spare that failed at its links still has its rank.
        if job.hosts[rank] in self._fencing.hosts:
            job.processes.pop(job.hosts[rank], None)
        job.hosts = (*job.hosts[:rank], host, *job.hosts[rank + 1 :])
        job.spares = tuple(spare for spare in job.spares if spare != host)
        if host in job.processes and job.processes[host].is_ready:
            self._inbox.observe(protocol.SpareReady(host))
        elif host not in job.processes:
            self._in_worker(lambda: self._start_spare(host))

    def _start_spare(self, host: str) -> protocol.Observation | None:
        """Start the spare's process, which reports itself when it is ready."""
        try:
            self._job.start_process(host, Deadline.after(_SPARE_LIMIT))
        except HostError as error:
            return protocol.CommandFailed(str(error), spare=True, newcomer=host)
        return None
