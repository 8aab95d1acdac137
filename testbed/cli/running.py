"""The command `run`: run an experiment on hardware, or on a twin that it starts or joins."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import (
    RESULTS,
    ExperimentFile,
    JsonOption,
    LabOption,
    QueueOption,
    ResultsOption,
    SetOption,
    TwinOption,
    WaitOption,
    app,
)
from testbed.cli.exit_on_signal import explain_signal_exit, record_signals
from testbed.cli.file_lookup import COMMAND_VARIABLE
from testbed.cli.files import Inputs, RepeatOption, SeedOption, read
from testbed.cli.free_hosts import enter_queue
from testbed.cli.lease_stores import leases_of
from testbed.cli.record import open_record
from testbed.cli.refused_runs import delete_if_refused
from testbed.cli.twins import CurrentTwin, check_rate, command_line, inside_twin, is_inside_twin
from testbed.errors import UsageError
from testbed.plugins import kind
from testbed.record.lab_queue import QueueRequest
from testbed.record.queue_place import QueuePlace
from testbed.record.rundir import RunDirectory
from testbed.run.planning.plan import Plan
from testbed.secret import masked
from testbed.twin.precedence import give_up_precedence, has_precedence

if TYPE_CHECKING:
    from testbed.run.inbox import Inbox

SWITCH_INTERVAL = 0.0005
"""Python's own 5 ms between threads would be in every recovery time, several times."""


WorkersOption = Annotated[
    str,
    typer.Option(
        metavar="N|HOST:PORT",
        help="Compute the trials of a model on N processes, or by the Dask scheduler there.",
        show_default=False,
    ),
]

ReportOption = Annotated[
    bool,
    typer.Option(
        "--report/--no-report",
        help="Draw report.html at the end, which takes a second or more of the processor; "
        "`testbed report` draws it at any time.",
    ),
]


_NO_PRECEDENCE = (
    "hosts of the twin compete with its instruments and with this run for processors: to let these "
    "go first takes CAP_SYS_NICE (root), and a command typed outside the twin"
)


@app.command(
    epilog="Examples: testbed run experiments/lumion.yaml --twin --repeat 3; "
    "testbed run experiments/lumion.yaml --twin -S 'lab.twin.settle=200 ms'"
)
def run(
    experiment: ExperimentFile,
    lab: LabOption = "",
    twin: TwinOption = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
    repeat: RepeatOption = None,
    seed: SeedOption = None,
    results: ResultsOption = RESULTS,
    wait_lock: WaitOption = 0.0,
    queue: QueueOption = None,
    workers: WorkersOption = "",
    report: ReportOption = True,
    json: JsonOption = False,
) -> int:
    """Run an experiment and record it; the last lines are the verdict and the next command."""
    if queue is not None and wait_lock:
        raise UsageError("--queue and --wait-lock are two ways to wait", hint="give one of them")
    with ExitStack() as leaving:
        with explain_signal_exit(lambda: ["nothing was opened or changed"]):
            inputs = read(experiment, lab, set_, repeat, seed, twin=twin)
            on_paper = inputs.plan.on_paper
            if workers and not on_paper:
                raise _without_a_model(inputs.plan)
            if twin and not on_paper:
                return inside_twin(twin, inputs.lab, inputs.lab_file, set_)
            place = None
            if not on_paper:
                _check_place(inputs)
                if queue is not None:
                    inputs, place = enter_queue(inputs, repeat, _queue_request(inputs))
                    leaving.callback(place.leave)
            from testbed.cli.after_run import PostRun
            from testbed.run.inbox import Inbox

            inbox = Inbox()
        with record_signals(inbox.interrupt):
            if on_paper:
                directory = _compute(inputs, results, inbox, workers)
            else:
                directory = _conduct(inputs, results, inbox, queue or wait_lock, place)
                delete_if_refused(directory)
            return PostRun(directory, inbox.signals).report(json=json, is_drawn=report)


def _conduct(
    inputs: Inputs, results: Path, inbox: Inbox, wait: float, place: QueuePlace | None
) -> RunDirectory:
    """Carry the plan out and record it; return its run directory.

    It waits for what it needs at most `wait` seconds, with `place` in the lab's queue.
    """
    from testbed.report.live import LiveView
    from testbed.run.orchestrator import Orchestrator
    from testbed.run.run_leases import RunLeases

    sys.setswitchinterval(SWITCH_INTERVAL)
    on_twin = is_inside_twin(inputs.lab)
    directory, log = open_record(results, inputs, "measured-twin" if on_twin else "measured-hw")
    reason, leases = inputs.plan.experiment, leases_of(inputs.lab)
    orchestrator = Orchestrator(
        inputs.plan,
        inputs.experiment,
        inputs.lab,
        directory,
        log,
        inbox,
        CurrentTwin() if on_twin else None,
        RunLeases(leases, directory, reason, log, inbox, wait, place),
    )
    with LiveView(sys.stderr, inputs.plan) as view:
        log.subscribe(view)
        if on_twin and not has_precedence():
            log.append("note", inputs.lab.lab, text=_NO_PRECEDENCE)
        orchestrator.run()
    log.close()
    if on_twin:
        give_up_precedence()  # what is computed from now on can wait
    return directory


def _without_a_model(plan: Plan) -> UsageError:
    return UsageError(
        f"--workers computes models, and {plan.experiment} runs on hosts", hint="leave it out"
    )


def _check_place(inputs: Inputs) -> None:
    """Refuse what cannot be done where this command runs, which is a twin or hardware."""
    if is_inside_twin(inputs.lab):
        check_rate(inputs.lab)
        _check_far_ends(inputs.plan)
    else:
        _refuse_what_only_twins_do(inputs)


def _queue_request(inputs: Inputs) -> QueueRequest:
    """Return what a run tells the queue of its lab."""
    limit = inputs.experiment.limits.run
    typed = masked(os.environ.get(COMMAND_VARIABLE) or command_line())
    return QueueRequest(inputs.lab.queue, limit, len(inputs.plan.trials), typed)


def _compute(inputs: Inputs, results: Path, inbox: Inbox, workers: str) -> RunDirectory:
    """Compute the plan's model and record it; return its run directory."""
    from testbed.report.live import LiveView
    from testbed.run.model_run import compute
    from testbed.run.model_workers import one_after_another, workers_at

    with workers_at(workers) if workers else nullcontext(one_after_another) as compute_all:
        directory, log = open_record(results, inputs, "model")
        with LiveView(sys.stderr, inputs.plan) as view:
            log.subscribe(view)
            compute(inputs.plan, inputs.experiment, directory, log, inbox, compute_all)
        log.close()
    return directory


def _refuse_what_only_twins_do(inputs: Inputs) -> None:
    for arm in inputs.experiment.arms():
        for key in arm.lab_overrides:
            raise UsageError(
                f"variant {arm.name} sets {key}, which has an effect on a twin only",
                hint="run it with --twin",
            )
    for trial in inputs.plan.trials:
        for fault in trial.far_end_faults:
            raise UsageError(
                f"variant {trial.arm} injects {fault.kind} into {fault.switch}, and "
                "switch-* faults require a twin",
                hint="run it with --twin",
            )


def _check_far_ends(plan: Plan) -> None:
    """Refuse a fault that the far end of its switch does not know, before anything runs."""
    for fault in {fault for trial in plan.trials for fault in trial.far_end_faults}:
        known = CurrentTwin().known_faults(fault.switch)
        if kind("faults", fault.kind).far_end not in known:
            raise UsageError(
                f"the twin of {fault.switch} does not support the fault {fault.kind}",
                hint=f"its far end supports: {', '.join(known)}",
            )
