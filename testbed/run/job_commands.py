"""Carry out what controllers command to a running job, and tell them what came of it.

Commands that block run in workers; their outcome comes back through the inbox as an observation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

from testbed.clock import Deadline
from testbed.control import protocol
from testbed.control.controller import JobObserved, MembershipChanged
from testbed.errors import HostError, InstrumentError, TestbedError
from testbed.record.log import EventLog
from testbed.run.active_controller import ActiveController
from testbed.run.circuits import verify_links
from testbed.run.controllers import Handlers
from testbed.run.fencing import Fencing
from testbed.run.job_view import job_view
from testbed.run.places import Place
from testbed.run.running_job import RunningJob

_LOOK_LIMIT = 5.0
_CHANGE_LIMIT = 10.0
_SPARE_LIMIT = 2.0
_RESTART_LIMIT = 10.0


class _Superseded(Exception):
    """Other circuits are wanted by now, or a host that they lead to is being fenced."""


class JobCommands:
    """What carries out the commands to the running job of one trial."""

    def __init__(self, job: RunningJob, log: EventLog) -> None:
        self._bench = job.bench
        self._inbox = job.inbox
        self._job = job
        self._log = log
        self._fencing = Fencing(job.bench, log)
        self._wanted: protocol.SetCircuits | None = None
        """The circuits that were commanded last; an earlier command may still be under way."""
        self._changing = Lock()

    @property
    def handlers(self) -> Handlers:
        """Return what carries out each type of command."""
        return {
            protocol.ProbeHost: self._probe_host,
            protocol.NameFarEnd: self._name_far_end,
            protocol.Fence: self._fence,
            protocol.SetCircuits: self._set_circuits,
            protocol.Leave: self._leave,
            protocol.PrepareSpare: self._prepare_spare,
            protocol.RestartRank: self._restart_rank,
            protocol.Join: self._join,
            protocol.Checkpoint: self._checkpoint,
            protocol.Acknowledge: self._acknowledge,
            protocol.Tell: self._tell,
        }

    def _observed(self, outcome: protocol.Observation) -> JobObserved:
        return JobObserved(self._job.name, outcome)

    def _failed(self, reason: str) -> JobObserved:
        return self._observed(protocol.CommandFailed(reason))

    def _in_worker(
        self, sender: ActiveController, action: Callable[[], protocol.Observation | None]
    ) -> None:
        def act() -> JobObserved | None:
            outcome = action()
            return None if outcome is None else self._observed(outcome)

        sender.in_worker(act, self._failed)

    # --- ranks and hosts --------------------------------------------------------------------

    def _leave(self, command: protocol.Leave, sender: ActiveController) -> None:
        self._job.leave(command.ranks, command.generation)

    def _join(self, command: protocol.Join, sender: ActiveController) -> None:
        """Form a generation, and let all controllers know who is which rank in it."""
        job, committed = self._job, command.committed
        job.members.move_to(command.hosts)
        job.generation = command.generation
        self._log.append("membership", job.name, generation=command.generation, hosts=command.hosts)
        # Before any rank can have said something in this generation.
        self._inbox.observe(MembershipChanged(job.name, job_view(job, committed)))
        job.join(command.generation, committed, command.restore, probe=False)

    def _checkpoint(self, command: protocol.Checkpoint, sender: ActiveController) -> None:
        """Order what ranks report themselves, once it is durable."""
        if "checkpoint" not in self._job.job.for_rank():
            hint = "write `checkpoint: {every: 20}` in its options"
            sender.tell(self._failed(f"job {self._job.name} writes no checkpoints: {hint}"))
            return
        self._job.tell_all({"do": "checkpoint", "before_step": command.step})

    def _tell(self, command: protocol.Tell, sender: ActiveController) -> None:
        for rank in command.ranks:
            self._job.tell(rank, command.message)

    def _acknowledge(self, command: protocol.Acknowledge, sender: ActiveController) -> None:
        request = command.request
        which: dict[str, Any] = {"generation": request.generation, "number": request.number}
        for rank in sorted(request.of):
            self._job.tell(rank, {"do": "lit", **which})
        which |= {"seconds": command.seconds, "circuits": request.circuits}
        self._log.append("circuits.lit", **which)

    def _fence(self, command: protocol.Fence, sender: ActiveController) -> None:
        """Fence a host; circuits that lead to it and are not made yet are superseded."""
        wanted, slot = self._wanted, self._job.places[command.rank].slot
        if wanted and any(command.host in circuit.hosts for circuit in wanted.circuits):
            self._wanted = None
        self._in_worker(sender, partial(self._apply_fence, command, slot))

    def _apply_fence(self, command: protocol.Fence, slot: int) -> protocol.Observation:
        if command.means == "network" and self._changing.acquire(timeout=_CHANGE_LIMIT):
            self._changing.release()  # a change that had begun would have lit the host again
        return self._fencing.apply(command, slot)

    def _probe_host(self, command: protocol.ProbeHost, sender: ActiveController) -> None:
        self._in_worker(sender, lambda: self._probe(command, sender))

    def _name_far_end(self, command: protocol.NameFarEnd, sender: ActiveController) -> None:
        port = command.port
        if circuit := self._bench.fabric.owned.steady_at(port):
            (far,) = circuit.hosts - {port.host}
            sender.tell(self._observed(protocol.FarEndDark(port, far)))

    def _probe(self, command: protocol.ProbeHost, sender: ActiveController) -> protocol.Observation:
        """Ask a host's agent; where it does not answer in time, have its outlet looked at."""
        host = command.host
        agent = self._bench.hosts.get(host)
        if agent is None:  # it was given up while the probe waited for its turn
            return protocol.HostSilent(host)
        try:
            agent.link.ask("alive", Deadline.after(command.limit + agent.link.usual_round_trip))
        except HostError:
            if self._bench.power.feeds(host):
                self._in_worker(sender, lambda: self._look(host))
            return protocol.HostSilent(host)
        return protocol.HostAnswered(host, command.number)

    def _look(self, host: str) -> protocol.Observation | None:
        """Read a host's outlet, which changes nothing; one that cannot be read proves nothing."""
        try:
            is_off = self._bench.power.is_off(host, Deadline.after(_LOOK_LIMIT))
        except TestbedError:
            return None
        return protocol.HostOff(host) if is_off else None

    def _prepare_spare(self, command: protocol.PrepareSpare, sender: ActiveController) -> None:
        job, rank, host = self._job, command.rank, command.host
        # A spare that failed at its links still has its rank.
        if job.places[rank].host in self._fencing.hosts:
            job.processes.pop(job.places[rank], None)
        place = job.members.replace(rank, host)
        if place in job.processes and job.processes[place].is_ready:
            sender.tell(self._observed(protocol.SpareReady(host)))
        elif place not in job.processes:
            self._in_worker(sender, lambda: self._start_spare(place))

    def _start_spare(self, place: Place) -> protocol.Observation | None:
        """Start the spare's process, which reports itself when it is ready."""
        try:
            self._job.start_process(place, Deadline.after(_SPARE_LIMIT))
        except HostError as error:
            return protocol.CommandFailed(str(error), spare=True, newcomer=place.host)
        return None

    def _restart_rank(self, command: protocol.RestartRank, sender: ActiveController) -> None:
        job, rank, host = self._job, command.rank, command.host
        job.processes.pop(job.places[rank], None)
        if job.places[rank].host != host:
            job.processes.pop(job.members.replace(rank, host), None)
        place = job.places[rank]
        self._in_worker(sender, lambda: self._restart(place))

    def _restart(self, place: Place) -> protocol.Observation | None:
        """Start a rank's process anew; it reports itself when it is ready."""
        deadline = Deadline.after(_RESTART_LIMIT)
        try:
            self._bench.hosts[place.host].end_rank(place.slot, deadline)
            self._job.start_process(place, deadline)
        except (HostError, KeyError) as error:
            reason = f"the rank on {place.host} cannot be started again: {error}"
            return protocol.CommandFailed(reason, spare=True, newcomer=place.host)
        return None

    # --- circuits ---------------------------------------------------------------------------

    def _set_circuits(self, command: protocol.SetCircuits, sender: ActiveController) -> None:
        self._wanted = command
        sender.in_worker(
            lambda: self._observed(self._make_circuits(command)),
            lambda reason: self._observed(protocol.CommandFailed(reason, number=command.number)),
        )

    def _make_circuits(self, wanted: protocol.SetCircuits) -> protocol.Observation:
        """Make circuits; what came of a command does not count once another was given."""
        deadline = Deadline.after(_CHANGE_LIMIT)
        try:
            verdicts = verify_links(
                self._bench, wanted.verify, self._log, lambda: self._change(wanted, deadline)
            )
        except (TestbedError, _Superseded):
            if self._is_stale(wanted):
                return protocol.Superseded(wanted.newcomer, wanted.number)
            raise
        if self._is_stale(wanted):
            return protocol.Superseded(wanted.newcomer, wanted.number)
        bad = [verdict for verdict in verdicts if not verdict.good]
        if not bad:
            return protocol.LinksGood(wanted.newcomer, wanted.number)
        reason = f"{bad[0].circuit} reads back but {bad[0].detail}"
        is_spare = wanted.newcomer in bad[0].circuit.hosts
        return protocol.CommandFailed(reason, is_spare, wanted.newcomer, wanted.number)

    def _is_stale(self, wanted: protocol.SetCircuits) -> bool:
        return wanted is not self._wanted

    def _change(self, wanted: protocol.SetCircuits, deadline: Deadline) -> None:
        """Change the circuits; a switch that failed at it is read and commanded once more.

        The second change is planned anew, from what the switch then reads. Neither is made once
        other circuits are wanted.
        """
        if self._job.fabric == "packet":
            return  # all its ports reach each other
        fabric = self._bench.fabric
        with self._changing:
            if self._is_stale(wanted):
                raise _Superseded
            try:
                fabric.set_circuits(self._job.name, wanted.circuits, deadline, "recovery")
            except InstrumentError as error:
                if self._is_stale(wanted):
                    raise
                why = str(error.args[0]).removeprefix(f"{error.instrument}: ")
                self._log.append("retry", error.instrument, what="a change", why=why)
                fabric.set_circuits(self._job.name, wanted.circuits, deadline, "recovery")
