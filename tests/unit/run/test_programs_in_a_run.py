"""Ordinary programs in a run: what plans say of them, what ranks are told, what is kept."""

from __future__ import annotations

import json

import pytest

from testbed.errors import FileError, LabError
from testbed.fabric.circuits import Circuit
from testbed.jobs.program_descriptors import CommandOptions, Pattern, TorchrunOptions
from testbed.jobs.programs import Command, Torchrun
from testbed.run.agent_reports import record
from testbed.run.inbox import Report
from testbed.run.places import Membership, Place
from testbed.run.planning.job_circuits import RingPorts
from testbed.run.planning.program_commands import refuse_a_twin
from testbed.run.planning.steps import StartJob
from testbed.run.running_job import RunningJob
from testbed.schema import load_experiment

JOB = "main: {kind: train, ranks: 2, spares: 1, topology: ring}"
COMMAND = (
    "main: {kind: command, ranks: 2, command: [run, me], "
    "metrics: {rate: {pattern: '(.*)', unit: Mbit/s, better: higher}}}"
)
NCCL = "main: {kind: nccl-tests, ranks: 2, launch: agent}"


def undisturbed(desk, job=COMMAND):
    """Have the experiment run a program, and nothing broken."""
    desk.change("experiment", JOB, job)
    start, end = desk.experiment.index("faults:"), desk.experiment.index("trials:")
    desk.experiment = desk.experiment[:start] + desk.experiment[end:]
    metric = "rate" if job == COMMAND else "busbw_1mib"
    old = 'warm.recovery_time: {every: "< 1 s"}'
    desk.change("experiment", old, metric + ': {every: "> 1 Mbit/s"}')
    return desk


def test_a_plan_states_the_command_of_every_host(desk):
    plan = undisturbed(desk).plan()
    (start,) = [step for step in plan.steps if isinstance(step, StartJob)]
    assert start.commands == (("run", "me"), ("run", "me"))


def test_a_metric_of_a_program_can_be_checked_and_a_misspelt_one_is_named(desk):
    undisturbed(desk).plan()
    desk.change("experiment", "  rate: {every", "  rat: {every")
    assert "'rat' is not a metric; did you mean 'rate'" in desk.refusal()


def test_a_program_metric_may_not_have_the_name_of_a_built_in_metric(desk):
    undisturbed(desk).change("experiment", "{rate: {pattern", "{step_time: {pattern")
    desk.change("experiment", "  rate: {every", "  step_time: {every")
    assert "'step_time' is already the name of a metric of the testbed" in desk.refusal()


def test_an_experiment_with_a_fault_and_a_program_job_is_refused(desk):
    desk.change("experiment", JOB, COMMAND)
    assert "job main runs a program, which has no steps" in desk.refusal()


def test_a_program_that_the_lab_cannot_run_is_refused(desk):
    undisturbed(desk, NCCL.replace("agent", "mpirun"))
    assert "nccl-tests cannot run in lab bench: its data would not" in desk.refusal()


def test_a_program_that_needs_hardware_is_refused_on_a_twin(desk):
    undisturbed(desk, NCCL).plan()
    with pytest.raises(FileError, match="nccl-tests cannot run on a twin: it measures GPUs"):
        refuse_a_twin(load_experiment("experiment.yaml"))


def test_a_program_that_needs_no_hardware_is_accepted_on_a_twin(desk):
    undisturbed(desk).plan()
    refuse_a_twin(load_experiment("experiment.yaml"))


# --- running -------------------------------------------------------------------------------


PLACES = Place("h0"), Place("h1")


@pytest.fixture
def running(bench, inbox):
    """Two ranks, each with a program that prints its rate."""
    metrics = {"rate": Pattern("rate (.*)", "Mbit/s", "higher")}
    job = Command(CommandOptions(2, ("run", "me"), metrics))
    return RunningJob(bench, inbox, job, 7, 0.2, Membership(PLACES), trial_seed=9)


def say(job, host, event, **fields):
    said = {"event": event, "mono": 1.0, **fields}
    job.handle(Report(host, {"event": "rank", "slot": 0, "said": said}, 0.0))


def end(job, host, **fields):
    job.processes[Place(host)] = job.processes.get(Place(host)) or process()
    say(job, host, "program.end", **{"code": 0, "left": 0, "left_out": 0} | fields)


def process():
    from testbed.run.running_job import RankProcess

    return RankProcess("10.0.0.1", 4000)


def output(job, host, text, stream="stdout"):
    job.processes[Place(host)] = job.processes.get(Place(host)) or process()
    say(job, host, "output", stream=stream, text=text)


def log_of(bench, host, name):
    return (bench._run.path / "logs" / host / name).read_text()


def test_a_rank_gets_its_program_and_the_addresses_of_its_neighbours(running):
    told = running._for_rank(1)
    assert told["kind"] == "program"
    assert told["options"]["argv"] == ["run", "me"]
    place = told["options"]["environment"]
    assert place == {
        "TESTBED_RANK": "1",
        "TESTBED_RANKS": "2",
        "TESTBED_SEED": "9",
        "TESTBED_NEXT_INTERFACE": "eth2",
        "TESTBED_NEXT_LOCAL": "10.0.0.4",
        "TESTBED_NEXT_PEER": "10.0.0.1",
        "TESTBED_PREVIOUS_INTERFACE": "eth1",
        "TESTBED_PREVIOUS_LOCAL": "10.0.0.3",
        "TESTBED_PREVIOUS_PEER": "10.0.0.2",
    }


class Known:
    """A host whose agent said at which address it is reached."""

    def __init__(self, spec, address):
        self.spec, self.facts = spec, {"address": address}


@pytest.mark.parametrize(("address", "expected"), [("10.9.8.7", "10.9.8.7"), ("", "h0")])
def test_torchrun_meets_at_the_address_of_the_first_host_not_at_its_name_here(
    bench, inbox, address, expected
):
    bench.hosts["h0"] = Known(bench.lab.hosts["h0"], address)
    job = Torchrun(TorchrunOptions(2, ("train.py",)))
    running = RunningJob(bench, inbox, job, 7, 0.2, Membership(PLACES))
    line = running._for_rank(1)["options"]["argv"]
    assert line[line.index("--master-addr") + 1] == expected


def test_a_rank_is_told_where_each_of_its_circuits_leads(bench, inbox):
    job, ports = Command(CommandOptions(2, ("run",))), RingPorts("p1", "p1")
    lit = frozenset({Circuit.parse("h0.p1", "h1.p1")})
    ring = {"circuits": lit, "ring_ports": dict.fromkeys(("h0", "h1"), ports)}
    running = RunningJob(bench, inbox, job, 7, 0.2, Membership(PLACES), **ring)
    place = running._for_rank(0)["options"]["environment"]
    assert json.loads(place["TESTBED_LINKS"]) == [
        {"rank": 1, "interface": "eth2", "local": "10.0.0.2", "peer": "10.0.0.4"}
    ]
    for neighbour in ("NEXT", "PREVIOUS"):
        assert place[f"TESTBED_{neighbour}_INTERFACE"] == "eth2"
        assert place[f"TESTBED_{neighbour}_PEER"] == "10.0.0.4"


def test_output_of_programs_is_kept_under_logs_and_parsed_at_the_end(running, bench):
    output(running, "h0", "rate 4\n")
    output(running, "h0", "rate 6\n")
    output(running, "h1", "rate 8\n")
    output(running, "h1", "a warning\n", "stderr")
    end(running, "h0")
    end(running, "h1")
    assert running.programs.failure == ""
    assert log_of(bench, "h0", "program.stdout") == "rate 4\nrate 6\n"
    assert log_of(bench, "h1", "program.stderr") == "a warning\n"
    (reading,) = running.programs.readings()
    assert (reading.metric, reading.value, reading.count) == ("rate", 6e6, 3)


def test_secrets_in_program_output_are_masked_before_it_is_stored(running, bench):
    output(running, "h0", "HF_TOKEN=abc123\n")
    output(running, "h0", '{"env":["HOME=/x","A_SE', "report")
    output(running, "h0", 'CRET=abc123"]}', "report")
    say(running, "h0", "program.begin", argv=["env", "HF_TOKEN=abc123"])
    end(running, "h0")
    for name in ("program.stdout", "program.report"):
        assert "abc123" not in log_of(bench, "h0", name)
        assert "***" in log_of(bench, "h0", name)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"code": 3}, "the program 'run' on h1 failed: it ended with code 3: out of luck"),
        ({"code": -9}, "the program 'run' on h1 failed: it was ended by SIGKILL: out of luck"),
        ({"code": 0, "left": 2}, "2 processes of the program 'run' on h1 survived SIGKILL"),
    ],
)
def test_a_failed_program_is_reported_with_its_last_line_of_stderr(running, how, words):
    output(running, "h1", "first\nout of luck\n\n", "stderr")
    end(running, "h1", **how)
    assert running.programs.failure == words


def test_a_missing_program_fails_the_job(running):
    running.processes[Place("h0")] = process()
    say(running, "h0", "program.end", failed="No such file or directory", left_out=0)
    assert running.programs.failure == (
        "the program 'run' on h0 could not be started: No such file or directory"
    )


def test_a_program_whose_rank_was_lost_fails_the_job(running):
    running.processes[Place("h0")] = process()
    say(running, "h0", "program.end", pid=5, left_out=0)
    assert "was lost" in running.programs.failure


def test_the_first_failed_program_is_reported(running):
    end(running, "h0", code=1)
    end(running, "h1", code=2)
    assert running.programs.failure == "the program 'run' on h0 failed: it ended with code 1"


def test_unparsable_program_output_is_an_error_of_the_trial(running):
    output(running, "h0", "rate fast\n")
    end(running, "h0")
    with pytest.raises(LabError, match="matched 'fast', which is not a number"):
        list(running.programs.readings())


def test_output_of_programs_is_not_recorded_as_events(log):
    said = {"event": "output", "mono": 1.0, "stream": "stdout", "text": "x"}
    record(Report("h0", {"event": "rank", "slot": 0, "said": said}, 0.0), 0, log)
    begin = {"event": "program.begin", "mono": 1.0, "argv": ["a"]}
    seen = []
    log.subscribe(seen.append)
    record(Report("h0", {"event": "rank", "slot": 0, "said": begin}, 0.0), 0, log)
    (event,) = seen
    assert (event.seq, event.kind, event.subject) == (0, "program.begin", "rank 0")


def test_a_job_of_our_own_ranks_has_no_programs(job):
    assert job.programs is None
