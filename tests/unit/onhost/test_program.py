"""An ordinary program under a rank: its start, its output within limits, its end with the rank."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import pytest

from testbed.onhost.jobs.program import HEAD, LONGEST_LINE, TAIL


def options(*argv, **environment):
    return {"argv": list(argv), "environment": environment}


def python(source, **environment):
    return options(sys.executable, "-c", source, **environment)


def run(gang, told, ranks=1):
    """Run a program to its end; return its rank's process."""
    job = gang("program", told, ranks)
    job.join(1)
    for member in job.members:
        member.hear("done")
    return job.members[0]


def said(member, stream="stdout"):
    return "".join(e["text"] for e in member.of_kind("output") if e["stream"] == stream)


def end(member):
    (event,) = member.of_kind("program.end")
    return event


class StartedProcess:
    """A process that the program started, by the pid that it printed."""

    def __init__(self, pid):
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:  # it has ended already
            self._descriptor = None

    def is_over(self, limit=10.0):
        return self._descriptor is None or bool(select.select([self._descriptor], [], [], limit)[0])

    def close(self):
        if self._descriptor is not None:
            os.close(self._descriptor)


def test_output_and_exit_code_of_a_program_are_reported(gang):
    source = "import os, sys; print('out', os.environ['WORD']); sys.stderr.write('err\\n'); exit(3)"
    member = run(gang, python(source, WORD="given"))
    assert said(member) == "out given\n"
    assert said(member, "stderr") == "err\n"
    assert end(member).items() >= {"code": 3, "left": 0, "left_out": 0}.items()


def test_every_rank_runs_its_own_program(gang):
    job = gang("program", python("print(1)"), 2)
    job.join(1)
    for member in job.members:
        member.hear("done")
        assert said(member) == "1\n"


def test_a_rank_without_a_program_ends_at_once(gang):
    member = run(gang, options())
    assert not member.of_kind("program.end")


def test_missing_program_is_named_in_the_error(gang):
    member = run(gang, options("/no/such/program/here"))
    assert end(member)["failed"] == os.strerror(2)
    assert "code" not in end(member)


def test_the_exit_code_of_a_program_ended_by_a_signal_is_the_negative_signal(gang):
    member = run(gang, python("import os; os.kill(os.getpid(), 11)"))
    assert end(member)["code"] == -11


def test_the_report_file_that_a_program_writes_is_sent_to_the_orchestrator(gang):
    source = "import sys; open(sys.argv[1], 'w').write('{' + 'x' * 100000 + '}')"
    told = options(sys.executable, "-c", source, "{report}")
    assert said(run(gang, told), "report") == "{" + "x" * 100000 + "}"


def test_the_thread_limit_of_a_rank_is_not_passed_on_to_its_program(gang):
    member = run(gang, python("import os; print(os.environ.get('OMP_NUM_THREADS'))"))
    assert said(member) == "None\n"


def test_large_output_is_truncated_in_the_middle_without_blocking_the_program(gang):
    source = f"print('first'); [print('x' * 999) for _ in range({4 * (HEAD + TAIL) // 1000})]"
    member = run(gang, python(source + "; print('last')"))
    text = said(member)
    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert len(text) < HEAD + TAIL + 100
    left_out = end(member)["left_out"]
    assert f"[{left_out} bytes left out]" in text
    assert left_out > 2 * (HEAD + TAIL)


def test_an_endless_output_line_of_a_program_is_shortened(gang):
    member = run(gang, python(f"print('y' * {20 * LONGEST_LINE}); print('after')"))
    first, second = said(member).splitlines()[-2:]
    assert len(first) < LONGEST_LINE + 10
    assert second == "after"
    assert end(member)["left_out"] > 18 * LONGEST_LINE


def test_control_characters_of_output_are_replaced(gang):
    member = run(gang, python("import sys; sys.stdout.buffer.write(b'\\x1b[2J\\xff\\x00ok\\n')"))
    assert said(member) == "?[2J??ok\n"


SPAWNS = """
import os, signal, subprocess, sys, time
{first}
away = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(os.getpid(), away.pid, flush=True)
{then}
"""
WAIT = "time.sleep(1000)"


def begin(job, count=2):
    """Join and return the processes of the program and of what it started."""
    job.join(1)
    member = job.members[0]
    pids = member.hear("output")["text"].split()
    assert len(pids) == count
    return member, [StartedProcess(int(pid)) for pid in pids]


@pytest.fixture
def start_program(gang):
    """Begin a program that starts another, in a session of its own; end both in any case."""
    begun = []

    def start(then=WAIT, first=""):
        job = gang("program", python(SPAWNS.format(then=then, first=first)), 1)
        member, found = begin(job)
        begun.extend(found)
        return job, member, found

    yield start
    for process in begun:
        process.close()


def test_processes_left_by_a_program_are_killed_before_its_end_is_reported(start_program):
    _, member, (program, away) = start_program("")
    member.hear("done")
    assert program.is_over(0)
    assert away.is_over(0)
    assert end(member)["code"] == 0


def test_an_order_to_leave_ends_the_program_and_its_processes(start_program):
    job, member, (program, away) = start_program()
    job.tell("leave", generation=1)
    member.hear("left")
    assert program.is_over(0)
    assert away.is_over(0)


def test_killed_rank_ends_the_program_and_its_processes(start_program):
    _, member, (program, away) = start_program()
    member.process.kill()
    assert program.is_over()
    assert away.is_over()


def test_the_report_file_of_a_program_is_deleted_with_its_rank(gang):
    source = "import os, sys, time; print(os.getppid(), sys.argv[1], flush=True); time.sleep(1000)"
    job = gang("program", options(sys.executable, "-c", source, "{report}"), 1)
    job.join(1)
    member = job.members[0]
    pid, path = member.hear("output")["text"].split()
    supervisor, place = StartedProcess(int(pid)), Path(path).parent
    assert place.is_dir()
    member.process.kill()
    assert supervisor.is_over()
    supervisor.close()
    assert not place.exists()


def test_a_program_that_ignores_every_request_is_killed(start_program):
    job, member, (program, _) = start_program(first="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    job.tell("leave", generation=1)
    member.hear("left")
    assert program.is_over(0)
    assert end(member)["code"] == -signal.SIGKILL


def test_a_program_can_exit_cleanly_on_sigterm(gang):
    # `os._exit` skips Python's own clean-up, which can take longer than the grace period.
    source = """
import os, signal, time
def on_sigterm(*_):
    os.write(1, b"bye\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, on_sigterm)
print("here", flush=True)
time.sleep(1000)
"""
    job = gang("program", python(source), 1)
    job.join(1)
    member = job.members[0]
    member.hear("output")
    job.tell("leave", generation=1)
    member.hear("left")
    assert said(member) == "here\nbye\n"
    assert end(member)["code"] == 0


def test_stopped_program_ends_with_its_rank(start_program):
    _, member, (program, away) = start_program(
        "import signal; os.kill(os.getpid(), signal.SIGSTOP)"
    )
    member.process.kill()
    assert program.is_over()
    assert away.is_over()
