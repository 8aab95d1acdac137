"""Carry out a plan, in the order of docs/lifecycle.md, and undo all changes in any case."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Timer
from typing import assert_never

from testbed.analysis.machine_load import BUSY, COUPLED
from testbed.bench.bench import AGENTS_AT_ONCE, Bench
from testbed.bench.instrument_factory import opening_seconds
from testbed.clock import Deadline
from testbed.errors import TestbedError
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.agent_reports import record
from testbed.run.circuits import make_all_circuits, verify_paths
from testbed.run.cleanup import Cleanup
from testbed.run.context import RunContext
from testbed.run.inbox import Inbox, Report
from testbed.run.job_lifecycle import JobLifecycle
from testbed.run.light_watch import LightWatch, Receivers
from testbed.run.machine_watch import Load, PauseDetector
from testbed.run.planning import steps
from testbed.run.planning.plan import Plan
from testbed.run.run_end import append_run_end
from testbed.run.run_leases import RunLeases
from testbed.run.time_limits import RESTORE_LIMIT, longest_restore, time_limit
from testbed.run.twin_control import TwinControl
from testbed.run.twin_settings import lab_for_twin
from testbed.schema import Experiment, Lab

_OPEN_LIMIT = 20.0
_SOON = 0.5
"""Seconds within which leases are taken that are free."""


@dataclass(eq=False)
class Orchestrator:
    """One run: it opens the bench, carries out the plan's steps and undoes all changes."""

    plan: Plan
    experiment: Experiment
    lab: Lab
    directory: RunDirectory
    log: EventLog
    inbox: Inbox
    twin: TwinControl | None
    run_leases: RunLeases

    def __post_init__(self) -> None:
        """Make what the steps work with; nothing is opened yet."""
        log, inbox, twin = self.log, self.inbox, self.twin
        self._journal = Journal(self.directory.journal)
        lab = lab_for_twin(self.lab, twin, self.experiment.arms()) if twin else self.lab
        self._bench = Bench(lab, self.directory, self._journal, log, inbox.listen)
        self._cleanup = Cleanup(inbox, log)
        self._pauses = PauseDetector(log)
        self._load = Load(twin.processes if twin else None)
        context = RunContext(
            self._bench, inbox, self._journal, log, self._cleanup, self._pauses, twin
        )
        self._jobs = JobLifecycle(self.experiment, context, self.plan)
        self._time: Timer | None = None
        self._light: LightWatch | None = None
        self._receivers = Receivers(self.lab, twin, log)

    def run(self) -> None:
        """Carry out the steps, then restore; the outcome is in the log's event `run.end`."""
        problem: Exception | None = None
        pause = ""
        try:
            with self.inbox.handled_by(self._jobs.handle):
                for step in self.plan.steps:
                    self._do(step)
        except Exception as error:
            problem = error
            if longest := self._pauses.longest():  # limits may have been missed for it
                pause = f"; this process stood still for {longest:.1f} s meanwhile"
        with self.inbox.handled_by(self._record):
            self._restore()
        signals, left = self.inbox.signals, self._cleanup.failures
        append_run_end(self.log, self.directory, problem, left, signals, besides=pause)

    def _do(self, step: steps.Step) -> None:
        self.inbox.check()
        match step:
            case steps.OpenInstruments():
                self.log.append("phase", "open")
                self._lease(step)
                self._open_instruments(step)
            case steps.OpenHosts(hosts):
                self._open_hosts(hosts)
            case steps.ProgramCircuits():
                self.log.append("phase", "prepare")
                self._program()
            case steps.VerifyPaths(ports):
                self.log.append("phase", "prepare")
                verify = partial(verify_paths, self._bench, ports, self.log)
                self.inbox.in_worker("verifying the paths", verify, Deadline.after(_OPEN_LIMIT))
            case steps.StartJob(name) if name == self._jobs.last:  # all of them begin together
                self._note_load()
                self._check_circuits()
                self._jobs.start_first_jobs()
                self.log.append("phase", "trials")
            case steps.StartJob():
                return
            case steps.RunTrial():
                if step != self.plan.trials[0]:  # its jobs run already, and may soon be done
                    self._check_circuits()
                self._run_trial(step)
            case steps.Restore():
                return
            case _:
                assert_never(step)

    def _check_circuits(self) -> None:
        """End the run if another program has changed our circuits since our last change."""
        check, limit = self._bench.fabric.check, Deadline.after(_OPEN_LIMIT)
        self.inbox.in_worker("reading the switches", check, limit)

    def _note_load(self) -> None:
        """Say so when other programs keep this machine busy before the job starts."""
        if (others := self._load.others()) is not None and others >= BUSY:
            text = (
                f"other programs took {others:.0%} of the time of its {os.cpu_count()} processors "
                "before the first trial: every time is longer than on an idle machine; end them, "
                "or wait"
            )
            self.log.append("health", "this machine", text=text.replace("%", " %", 1))

    def _run_trial(self, trial: steps.RunTrial) -> None:
        """Run a trial, and note how busy others kept the machine meanwhile."""
        self.log.trial = trial.number
        self._load.others()  # what others took before is not the trial's
        self._jobs.run_trial(trial, last=trial == self.plan.trials[-1])
        if (others := self._load.others()) is not None:
            busiest = self._load.busiest
            self.log.append("load", "this machine", others=round(others, 4), busiest=busiest)
            if busiest > COUPLED and _is_paced(self.experiment, trial.arm):
                text = f"in a second of trial {trial.number + 1} its processors were {busiest:.0%}"
                text = text.replace("%", " %") + " busy, so paced jobs may have waited for them"
                self.log.append("health", "this machine", text=text)
        self._receivers.note()
        self.log.trial = None

    def _lease(self, step: steps.OpenInstruments) -> None:
        """Lease all that the run needs before anything is opened; its time limit starts then."""
        self._cleanup.push("leases", self.run_leases.give_back, RESTORE_LIMIT)
        optics = (*step.attenuators, *step.meters)
        settings = self._jobs.needed_settings(self.directory.id)
        self.run_leases.take(self._bench, self._jobs.hosts, optics, settings)
        seconds, restore = self.experiment.limits.run, longest_restore(self.plan)
        self._time = time_limit(seconds, self.inbox)
        text = f"ends within {seconds:g} s, and {restore:.0f} s more to take everything back"
        self.log.append("note", "the run", text=text)

    def _lease_what_answered(self) -> None:
        """Lease instruments also by their identities; this wait is not part of the run's limit."""
        if self.run_leases.take_identified(self._bench) > _SOON and self._time:
            self._time.cancel()
            self._time = time_limit(self.experiment.limits.run, self.inbox)

    def _open_instruments(self, step: steps.OpenInstruments) -> None:
        names = (*step.switches, *step.power, *step.attenuators, *step.meters)
        bench, in_worker = self._bench, self.inbox.in_worker
        self._cleanup.push("instruments", lambda _: bench.close_instruments(), RESTORE_LIMIT)
        opening = Deadline.after(opening_seconds(bench.lab, names, _OPEN_LIMIT))
        open_all = partial(bench.open_instruments, names)
        in_worker("opening the instruments", open_all, opening)
        self._lease_what_answered()
        deadline = Deadline.after(_OPEN_LIMIT)
        hosts = self._jobs.hosts
        self._receivers.refuse_destroyed(hosts)
        bench.open_fabric(port for port in bench.lab.wiring() if port.host in hosts)
        adopt = partial(bench.fabric.adopt, self._jobs.first_circuits)
        in_worker("reading the switches", adopt, deadline)

    def _open_hosts(self, hosts: tuple[str, ...]) -> None:
        bench, in_worker = self._bench, self.inbox.in_worker
        for name in hosts:  # a missing secret is reported before anything is changed
            bench.lab.hosts[name].revealed_environment()
        self._cleanup.push("agents", bench.close_hosts, RESTORE_LIMIT)
        self._cleanup.push("power", bench.power.restore_all, RESTORE_LIMIT)
        if bench.lab.attenuators:
            self._cleanup.push("attenuation", bench.attenuation.restore_all, RESTORE_LIMIT)
        start = partial(bench.start_agents, hosts)
        waves = math.ceil(len(hosts) / AGENTS_AT_ONCE)
        in_worker("starting the agents", start, Deadline.after(waves * _OPEN_LIMIT))
        self._lease_what_answered()
        deadline = Deadline.after(_OPEN_LIMIT)
        set_up, look = partial(bench.set_up_hosts, hosts), partial(bench.check_health, hosts)
        in_worker("setting up the networks of the hosts", set_up, deadline)
        in_worker("looking at the light of the hosts", look, deadline)

    def _program(self) -> None:
        bench = self._bench
        undo = bench.fabric.discard_undo if self.experiment.keep else bench.fabric.restore
        self._cleanup.push("circuits", undo, RESTORE_LIMIT)
        make = partial(make_all_circuits, bench, self._jobs.first_circuits, self.log)
        self.inbox.in_worker("making the circuits", make, Deadline.after(_OPEN_LIMIT))
        self._light = LightWatch(bench.fabric, self.log, self.inbox.stop)

    def _restore(self) -> None:
        self.log.trial = None  # what still comes belongs to no trial
        if self._time:
            self._time.cancel()
        if self._light:
            self._light.end()
        self.run_leases.before_cleanup(self._cleanup)
        self._cleanup.run()
        with suppress(TestbedError):  # its error is in the log, or the twin is gone
            self._receivers.note()
        self._pauses.end()
        self._load.end()
        self._journal.close()
        self.inbox.close()

    def _record(self, item: object) -> None:
        if isinstance(item, Report):
            record(item, None, self.log)


def _is_paced(experiment: Experiment, name: str) -> bool:
    """Return whether a job of an arm states how long it computes."""
    jobs = next(arm.experiment.jobs for arm in experiment.arms() if arm.name == name)
    return any(getattr(job.options, "pace", None) is not None for job in jobs.values())
