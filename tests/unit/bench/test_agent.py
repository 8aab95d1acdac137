"""The agent on a host: real processes, real signals, and nothing left behind."""

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed.errors import HostError
from testbed.onhost.agent.processes import MARK, seconds_computed, start_time, state_of
from testbed.onhost.agent.ranks import Ranks
from tests.unit.bench.agent_on_pipes import configuration, watched


def test_an_agent_reports_its_identity_in_its_greeting(agents):
    facts = agents().hello()
    assert facts["python"] == platform.python_version()
    assert facts["numpy"] == version("numpy")
    assert facts["hostname"] == platform.node()
    assert facts["kernel"] == platform.release()
    assert facts["root"] == (os.geteuid() == 0)
    assert facts["hardware"] == {}


def test_the_agent_reports_hardware_addresses_of_ports_and_names_a_missing_port(agents):
    assert agents().hello(p0="lo")["hardware"] == {"p0": "00:00:00:00:00:00"}
    with pytest.raises(HostError, match="nosuch0"):
        agents().hello(p0="nosuch0")


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"do": "no-such-thing"}, "no-such-thing|no_such_thing"),
        (
            {"do": "tell", "slot": 3, "message": {"do": "exit"}, "grace": 0.0},
            "no rank runs in slot 3",
        ),
        ({"do": "signal", "slot": 3, "signal": "KILL"}, "no rank runs in slot 3"),
        ({"do": "start"}, "slot"),
        ({"do": "ask-identity", "port": "p9"}, "p9"),
    ],
)
def test_a_failed_request_is_answered_with_an_error_and_the_agent_continues(
    agent, request_, complaint
):
    with pytest.raises(HostError, match=complaint):
        agent.ask(request_.pop("do"), **request_)
    assert agent.ask("alive") == {}


def test_a_request_without_a_number_is_not_answered_even_where_it_fails(agent):
    agent.link.notify("tell", slot=3, message={"do": "exit"}, grace=0.0)
    agent.link.notify("alive")
    assert agent.ask("alive") == {}
    assert not agent.link.is_over


def test_ending_a_rank_that_never_ran_succeeds(agent):
    assert agent.ask("end", slot=0) == {"gone": True}


def test_a_rank_is_started_and_commanded_and_its_exit_is_reported(agent):
    pid = agent.start_rank(configure=False)
    with watched(pid) as ended:
        agent.tell(0, "exit")
        left = agent.events.wait_for("exit")
        assert ended()
    assert (left["slot"], left["code"]) == (0, 0)


def test_two_ranks_on_two_slots_run_a_job_together(agent):
    ready = []
    for rank in range(2):
        agent.ask("start", slot=rank, env={})
        agent.tell(rank, "configure", **configuration(rank, ranks=2))
        ready.append(agent.events.wait_for("ready", count=rank + 1))
    members = [
        {"rank": rank, "address": said["address"], "port": said["port"]}
        for rank, said in enumerate(ready)
    ]
    plan = {"generation": 1, "members": members, "step": 0, "restore": {}, "probe": False}
    for rank in range(2):
        agent.tell(rank, "join", rank=rank, **plan)
    agent.events.wait_for("done", count=2)
    assert len(agent.events.of("sample")) == 4


def test_a_rank_has_the_environment_that_it_was_started_with(agent):
    pid = agent.start_rank(configure=False, NCCL_SOCKET_IFNAME="mgmt0")
    assert b"NCCL_SOCKET_IFNAME=mgmt0\0" in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_slot_holds_one_rank_at_a_time(agent):
    agent.start_rank(configure=False)
    with pytest.raises(HostError, match="slot 0 has a rank already"):
        agent.start_rank(configure=False)
    assert agent.ask("end", slot=0) == {"gone": True}
    agent.start_rank(configure=False)


def test_a_rank_that_is_ended_is_gone_and_reports_no_exit(agent):
    pid = agent.start_rank(configure=False)
    with watched(pid) as ended:
        assert agent.ask("end", slot=0) == {"gone": True}
        assert ended(0)
    assert agent.ask("end", slot=0) == {"gone": True}
    assert not agent.events.of("exit")


def test_a_killed_rank_is_reported_with_its_signal(agent):
    agent.start_rank()
    answer = agent.ask("signal", slot=0, signal="KILL")
    assert answer["state"] in "ZX"
    sent, done = answer["mono"]
    left = agent.events.wait_for("exit")
    assert left["code"] == -signal.SIGKILL
    assert sent <= done
    assert sent <= left["mono"]


def test_a_frozen_rank_is_reported_once_until_it_continues(agent):
    agent.start_rank(heartbeat=0.3)
    assert agent.ask("signal", slot=0, signal="STOP")["state"] == "T"
    missed = agent.events.wait_for("heartbeat-missed")
    assert missed["slot"] == 0
    assert missed["silence"] > 0.3
    assert agent.ask("signal", slot=0, signal="CONT")["state"] in "RSD"
    agent.tell(0, "leave", generation=0)
    agent.events.wait_for("left")
    agent.ask("signal", slot=0, signal="STOP")
    agent.events.wait_for("heartbeat-missed", count=2)
    assert len(agent.events.of("heartbeat-missed")) == 2


def test_no_heartbeat_is_reported_missing_when_the_agent_itself_was_stopped(agent):
    agent.start_rank(heartbeat=1.0)
    os.killpg(agent.process.pid, signal.SIGSTOP)  # ranks are in groups of their own
    time.sleep(1.2)
    os.killpg(agent.process.pid, signal.SIGCONT)
    agent.ask("clock")
    agent.ask("clock")  # it has looked at the heartbeats in between
    assert not agent.events.of("heartbeat-missed")
    agent.ask("signal", slot=0, signal="STOP")
    agent.events.wait_for("heartbeat-missed")


_OCCUPY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print(flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    pass
"""


def _pin(process, processor):
    for task in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(task.name), {processor})


def test_a_rank_that_waits_for_a_processor_is_not_reported_missing(agent):
    mine, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip("it takes two processors")
    _pin(agent.process.pid, others[0])
    _pin(agent.start_rank(heartbeat=0.2), mine)
    occupied = [sys.executable, "-c", _OCCUPY, str(mine), "0.8"]
    with subprocess.Popen(occupied, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as busy:
        if not busy.stdout.read(1):
            pytest.skip("it takes CAP_SYS_NICE to have a process preempt others")
        assert busy.wait(10) == 0
    agent.ask("clock")
    assert not agent.events.of("heartbeat-missed")
    agent.ask("signal", slot=0, signal="STOP")
    agent.events.wait_for("heartbeat-missed")


def test_a_process_is_seen_to_compute_unless_it_waits_is_stopped_or_is_gone():
    def settled(is_right):
        end = time.monotonic() + 10
        while not is_right(seconds_computed(process.pid)):
            assert time.monotonic() < end
            time.sleep(0.01)
        return True

    with subprocess.Popen([sys.executable, "-c", "input()\nwhile True: pass"], stdin=-1) as process:
        assert settled(lambda found: found is None)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert settled(lambda found: found is not None and found > 0.2)
        process.send_signal(signal.SIGSTOP)
        assert settled(lambda found: found is None)
        process.kill()
    assert seconds_computed(process.pid) is None


def test_a_silent_rank_that_has_computed_for_its_heartbeat_limit_does_not_wait_for_a_processor():
    ranks = object.__new__(Ranks)  # of which only the limit counts here
    ranks._silence_limit = 0.2
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        rank = SimpleNamespace(pid=process.pid, computed=None)
        waited = [ranks._waits_for_processor(rank)]
        end = time.monotonic() + 10
        while waited[-1] and time.monotonic() < end:
            time.sleep(0.01)
            waited.append(ranks._waits_for_processor(rank))
        computed = seconds_computed(process.pid)
        process.kill()
    assert waited[0] and not waited[-1]
    assert computed - rank.computed >= 0.2


def test_no_heartbeat_of_a_rank_is_missing_before_it_is_configured(agent):
    pid = agent.start_rank(configure=False)
    while len(list(Path(f"/proc/{pid}/task").iterdir())) < 2:
        time.sleep(0.01)  # until the thread runs that sends heartbeats
    time.sleep(0.1)
    agent.ask("clock")
    agent.ask("clock")
    assert not agent.events.of("heartbeat-missed")


def test_a_frozen_rank_that_reads_no_input_does_not_block_its_agent(agent):
    agent.start_rank()
    agent.ask("signal", slot=0, signal="STOP")
    agent.tell(0, "leave", generation=0, more="than a line holds" * 100_000)
    assert agent.events.wait_for("exit")["code"] == -signal.SIGKILL


def test_a_starting_rank_is_not_reported_missing_within_its_grace_period(agent):
    pid = agent.ask("start", slot=0, env={})["pid"]
    os.kill(pid, signal.SIGSTOP)
    agent.tell(0, "configure", grace=0.35, **configuration(heartbeat=0.05))
    configured = agent.ask("clock")[0]
    missed = agent.events.wait_for("heartbeat-missed")
    assert missed["mono"] >= configured + 0.3


def test_the_grace_period_of_a_rank_ends_when_it_is_ready(agent):
    agent.start_rank(heartbeat=0.1, grace=1000.0)
    agent.ask("signal", slot=0, signal="STOP")
    agent.events.wait_for("heartbeat-missed")


def test_the_error_output_of_a_rank_is_reported_before_its_exit(agent):
    agent.ask("start", slot=0, env={})
    agent.tell(0, "configure", job={"kind": "no such job", "options": {}}, heartbeat=1.0)
    failed = agent.events.wait_for("failed")
    left = agent.events.wait_for("exit")
    assert left["code"] == 1
    names = [message["event"] for message in agent.events.received]
    assert names.index("log") < names.index("exit")
    assert failed["why"].startswith(agent.events.of("log")[-1]["line"].partition(":")[0])


# --- nothing stays --------------------------------------------------------------------------


def test_an_agent_that_is_ended_kills_its_ranks_first(agent):
    with watched(agent.start_rank()) as ended:
        assert agent.ask("bye") == {"left": []}
        assert ended()
    assert agent.wait() == 0


@contextmanager
def marked(mark):
    """Run a process that carries an agent's mark; give a way to wait for its end."""
    with subprocess.Popen(["sleep", "600"], env={MARK: mark}) as process:
        try:
            with watched(process.pid) as ended:
                yield ended
        finally:
            process.kill()


def test_an_agent_ends_what_a_launcher_on_another_host_has_started_for_its_run(agents):
    """An MPI launcher hands on the mark of the agent on its own host."""
    agent, other = agents(), agents()
    agent.hello(run="run-of-mpi")
    other.hello(run="another-run-of-mpi")
    there = other.start_rank()
    mine = f"another-run-of-mpi/h9/{os.getpid()}-{start_time(os.getpid())}"
    with marked("run-of-mpi/h9/7-1") as ended, marked(mine) as mine_ended:
        assert agent.ask("bye") == {"left": []}
        assert ended()
        assert other.ask("bye") == {"left": []}
        assert not mine_ended(0), "its own agent is here and lives"
    assert start_time(there) is None


def test_an_agent_whose_connection_closes_ends_its_ranks_and_itself(agent):
    with watched(agent.start_rank()) as ended:
        agent.link.close()
        assert ended()
    assert agent.wait() == 0
    assert not agent.events.of("lost")


def test_an_agent_without_messages_for_too_long_ends_its_ranks_and_itself(agents):
    agent = agents()
    agent.hello(patience=0.3)
    with watched(agent.start_rank(configure=False)) as ended:
        assert ended()
    assert agent.wait() == 0
    agent.events.wait_for("lost")


def test_an_agent_that_gets_keepalives_does_not_exit(agents):
    agent = agents()
    agent.hello(patience=0.3)
    agent.link.keep_alive(0.3)
    assert not threading.Event().wait(0.7)
    assert agent.ask("alive") == {}


def test_a_rank_with_a_share_of_the_processor_is_stopped_and_continued_in_its_cycles(agent):
    pid = agent.start_rank()
    agent.ask("slow", slot=0, share=0.5, period=0.04, quota=False)
    end, turns, before = time.monotonic() + 1.0, 0, ""
    while time.monotonic() < end:
        stands = "T" if state_of(pid) == "T" else "runs"
        turns, before = turns + (stands != before), stands
        time.sleep(0.002)
    agent.ask("slow", slot=0, share=1.0, period=0.04, quota=False)
    assert turns > 10  # of fifty


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_rank_outlives_its_agent_whatever_ends_the_agent(agent, number, frozen):
    pid = agent.start_rank()
    with watched(pid) as ended:
        if frozen:
            agent.ask("signal", slot=0, signal="STOP")
        os.kill(agent.process.pid, number)
        assert ended()
    agent.wait()
    assert "ended" in agent.events.wait_for("lost")["reason"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_of_the_terminal_does_not_end_an_agent(agent, number):
    os.kill(agent.process.pid, number)
    assert agent.ask("alive") == {}


@pytest.mark.parametrize(
    "noise",
    [b"\xff\xff\xff\xff", b"\0\0\0\x02[]", b"\0\0\0\x03{x}", b'\0\0\0\x0f{"do": "alive"}'],
)
def test_an_agent_that_receives_garbage_undoes_its_changes_and_ends(agent, noise):
    with watched(agent.start_rank(configure=False)) as ended:
        agent.channel.send(noise)
        assert ended()
    assert agent.wait() == 1
    agent.events.wait_for("lost")


def test_a_rank_that_exits_while_it_is_killed_does_not_end_the_agent(agent):
    """Everything about the rank is ready at once, after the word that lets go of it."""
    pid = agent.start_rank()
    os.kill(agent.process.pid, signal.SIGSTOP)
    answer = agent.link.post("end", slot=0)
    with watched(pid) as ended:
        os.kill(pid, signal.SIGKILL)
        assert ended()
    os.kill(agent.process.pid, signal.SIGCONT)
    assert answer.result(10).value == {"gone": True}
    assert agent.ask("alive") == {}
