"""Run a plan, in the order of docs/lifecycle.md, and take everything back whatever happens."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from threading import Timer
from typing import TypeVar, assert_never

from testbed.analysis.machine_load import BUSY
from testbed.bench.bench import Bench
from testbed.bench.instrument_factory import opening_seconds
from testbed.clock import Deadline
from testbed.errors import EXIT_BUG, TestbedError
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.circuits import make_circuits, verify_paths
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox, Report
from testbed.run.light_watch import LightWatch
from testbed.run.limits import RESTORE_LIMIT, longest_restore, time_limit
from testbed.run.load import Load
from testbed.run.plan import (
    OpenHosts,
    OpenInstruments,
    Plan,
    ProgramCircuits,
    Restore,
    RunTrial,
    StartJob,
    Step,
    VerifyPaths,
)
from testbed.run.receivers import Receivers
from testbed.run.reports import record
from testbed.run.stage import Stage
from testbed.run.standstill import Standstill
from testbed.run.tenure import Tenure
from testbed.run.trial import Around
from testbed.run.tuning import TwinDoor
from testbed.schema import Experiment, Lab

_T = TypeVar("_T")

_OPEN_LIMIT = 20.0
_SOON = 0.5
"""Seconds that taking leases takes where nobody is waited for."""


class Orchestrator:
    """One run: it opens the bench, does the plan's steps and gives everything back."""

    def __init__(
        self,
        plan: Plan,
        experiment: Experiment,
        lab: Lab,
        run: RunDirectory,
        log: EventLog,
        inbox: Inbox,
        twin: TwinDoor | None,
        tenure: Tenure,
    ) -> None:
        self._plan = plan
        self._experiment = experiment
        self._log = log
        self._inbox = inbox
        self._run_directory = run
        self._journal = Journal(run.journal)
        self._bench = Bench(lab, run, self._journal, log, inbox.listen)
        self._cleanup = Cleanup(inbox, log)
        self._standstill = Standstill(log)
        self._load = Load(on_twin=twin is not None)
        around = Around(
            self._bench, inbox, self._journal, log, self._cleanup, self._standstill, twin
        )
        self._stage = Stage(experiment, lab, around, plan.seed, twin)
        self._tenure = tenure
        self._time: Timer | None = None
        self._light: LightWatch | None = None
        self._receivers = Receivers(lab, twin, log)

    def run(self) -> None:
        """Do the steps, then restore; how it went is in the log's `run.end`."""
        self._inbox.handler = self._record
        error, code, trace = "", 0, ""
        try:
            for step in self._plan.steps:
                self._do(step)
        except TestbedError as problem:
            error, code = f"{problem}{self._pause()}", problem.exit_code
        except Exception as problem:
            error, code = f"{type(problem).__name__}: {problem}", EXIT_BUG
            trace = traceback.format_exc()
        self._restore()
        self._log.append(
            "run.end",
            error=error,
            exit_code=code,
            cleanup="failed" if self._cleanup.failures else "verified",
            left=self._cleanup.failures,
            signals=list(self._inbox.signals),
        )
        if trace:
            self._run_directory.write_text("traceback.txt", trace)

    def _pause(self) -> str:
        """Return in words what every limit may have been missed for."""
        pause = self._standstill.longest()
        return f"; this process stood still for {pause:.1f} s meanwhile" if pause else ""

    def _do(self, step: Step) -> None:
        self._inbox.check()
        match step:
            case OpenInstruments():
                self._log.append("phase", "open")
                self._lease(step)
                self._open_instruments(step)
            case OpenHosts(hosts):
                self._open_hosts(hosts)
            case ProgramCircuits():
                self._log.append("phase", "prepare")
                self._program(step)
            case VerifyPaths(ports):
                self._log.append("phase", "prepare")
                self._wait(
                    "verifying the paths",
                    lambda: verify_paths(self._bench, ports, self._log),
                    Deadline.after(_OPEN_LIMIT),
                )
            case StartJob():
                self._note_load()
                self._stage.start_first_job()
                self._log.append("phase", "trials")
            case RunTrial():
                self._check_circuits()
                self._play(step)
            case Restore():
                return
            case _:
                assert_never(step)

    def _note_load(self) -> None:
        """Say so when other programs keep this machine busy before the job starts."""
        others = self._load.others()
        if others is not None and others >= BUSY:
            text = (
                f"other programs took {others:.0%} of the time of its {os.cpu_count()} processors "
                "before the first trial: every time is longer than on an idle machine; end them, "
                "or wait"
            )
            self._log.append("health", "this machine", text=text.replace("%", " %", 1))

    def _play(self, trial: RunTrial) -> None:
        """Run a trial, and note how busy others kept the machine meanwhile."""
        self._log.trial = trial.number
        self._load.others()  # what was before is nobody's
        self._stage.play(trial, last=trial == self._plan.trials[-1])
        if (others := self._load.others()) is not None:
            self._log.append("load", "this machine", others=round(others, 4))
        self._receivers.note()
        self._log.trial = None

    def _lease(self, step: OpenInstruments) -> None:
        """Have all that the run needs before anything is opened; its time begins after that."""
        self._cleanup.push("leases", self._tenure.end, RESTORE_LIMIT)
        optics = (*step.attenuators, *step.meters)
        settings = self._stage.settings(self._run_directory.id)
        self._tenure.begin(self._bench, self._stage.hosts, optics, settings)
        seconds, restore = self._experiment.limits.run, longest_restore(self._plan)
        self._time = time_limit(seconds, self._inbox)
        text = f"ends within {seconds:g} s, and {restore:.0f} s more to take everything back"
        self._log.append("note", "the run", text=text)

    def _lease_what_answered(self) -> None:
        """Have what answered by what it is; a wait for it is no part of the run's own limit."""
        if self._tenure.widen(self._bench) > _SOON and self._time:
            self._time.cancel()
            self._time = time_limit(self._experiment.limits.run, self._inbox)

    def _open_instruments(self, step: OpenInstruments) -> None:
        optics = (*step.attenuators, *step.meters)
        names = (*step.switches, *step.power, *optics)
        bench = self._bench
        deadline = Deadline.after(opening_seconds(bench.lab, names, _OPEN_LIMIT))
        self._cleanup.push("instruments", lambda _: bench.close_instruments(), RESTORE_LIMIT)
        self._wait(
            "opening the instruments",
            lambda: bench.open_instruments(step.switches, step.power, deadline, optics=optics),
            deadline,
        )
        self._lease_what_answered()
        deadline = Deadline.after(_OPEN_LIMIT)
        hosts = self._stage.hosts
        self._receivers.refuse_destroyed(hosts)
        bench.open_fabric(port for port in bench.lab.wiring() if port.host in hosts)
        circuits = self._stage.first_circuits
        self._wait("reading the switches", lambda: bench.fabric.adopt(circuits, deadline), deadline)

    def _open_hosts(self, hosts: tuple[str, ...]) -> None:
        bench, deadline = self._bench, Deadline.after(_OPEN_LIMIT)
        for name in hosts:  # a secret that is not there is told before anything is changed
            bench.lab.hosts[name].revealed_environment()
        self._cleanup.push("agents", bench.close_hosts, RESTORE_LIMIT)
        self._cleanup.push("power", bench.power.restore_all, RESTORE_LIMIT)
        if bench.lab.attenuators:
            self._cleanup.push("attenuation", bench.attenuation.restore_all, RESTORE_LIMIT)
        self._wait("starting the agents", lambda: bench.start_agents(hosts, deadline), deadline)
        self._lease_what_answered()
        deadline = Deadline.after(_OPEN_LIMIT)
        what = "setting up the networks of the hosts"
        self._wait(what, lambda: bench.set_up_hosts(hosts, deadline), deadline)
        what = "looking at the light of the hosts"
        self._wait(what, lambda: bench.check_health(hosts, deadline), deadline)

    def _program(self, step: ProgramCircuits) -> None:
        bench, deadline = self._bench, Deadline.after(_OPEN_LIMIT)
        wanted = frozenset(step.circuits)
        undo = self._keep_circuits if self._experiment.keep else bench.fabric.restore
        self._cleanup.push("circuits", undo, RESTORE_LIMIT)
        self._wait(
            "making the circuits",
            lambda: make_circuits(bench, wanted, self._log, deadline),
            deadline,
        )
        self._light = LightWatch(bench.fabric, self._log, self._inbox.stop)

    def _check_circuits(self) -> None:
        """Stop the run when somebody else has moved our light since our last change."""
        fabric, deadline = self._bench.fabric, Deadline.after(_OPEN_LIMIT)
        self._wait("reading the switches", lambda: fabric.check(deadline), deadline)

    def _keep_circuits(self, _: Deadline) -> None:
        self._bench.fabric.discard_undo()

    def _restore(self) -> None:
        self._log.trial = None  # what still comes belongs to no trial
        self._inbox.handler = self._record
        if self._time:
            self._time.cancel()
        if self._light:
            self._light.end()
        self._tenure.prepare_end(self._cleanup)
        self._cleanup.run()
        with suppress(TestbedError):  # what it raises is in the log, or the twin is gone
            self._receivers.note()
        self._standstill.end()
        self._load.end()
        self._journal.close()
        self._inbox.close()

    def _wait(self, what: str, action: Callable[[], _T], deadline: Deadline) -> _T:
        """Do something that blocks in a worker, so that a signal ends the wait at once."""
        return self._inbox.result(self._inbox.submit(action), deadline, what)

    def _record(self, item: object) -> None:
        if isinstance(item, Report):
            record(item, None, self._log)
