"""An agent that was killed with -9: the next one on the host takes back what it left."""

import json
import os
import signal
import subprocess
from concurrent.futures import wait
from contextlib import contextmanager

import pytest

from testbed.errors import HostError
from testbed.onhost.agent import processes
from tests.unit.bench.agent_on_pipes import watched
from tests.unit.bench.private_host import is_possible

PEERS = {f"10.9.0.{n}": f"02:00:00:00:0{n // 100}:{n % 100:02}" for n in range(100, 200)}

pytestmark = pytest.mark.skipif(
    not is_possible(),
    reason="this machine gives no user and network namespaces, or has no ip",
)


def set_up(agent, address="10.9.0.1/24"):
    ports = {"p0": {"interface": "eth1", "address": address}}
    request = {"host": "h0", "ports": ports, "peers": PEERS, "token": "t", "manage": True}
    return agent.ask("network", **request, sudo=False)


def kill(agent):
    os.kill(agent.process.pid, signal.SIGKILL)
    agent.wait()


@contextmanager
def stopped(agent):
    os.kill(agent.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)


def left_by(run, *promised):
    return [{"run": run, "host": "h0", "recorded": ["processes", *promised], "left": []}]


def test_the_next_agent_undoes_and_reports_what_a_killed_agent_set_up(host, agent_of):
    before = host.network()
    first = agent_of("run-1")
    set_up(first)
    kill(first)
    assert host.network() != before
    assert agent_of("run-2").leftovers == left_by("run-1", "network")
    assert host.network() == before
    assert agent_of("run-3").leftovers == []


def test_a_port_that_was_down_in_between_is_taken_back_whole(host, agent_of):
    """It has lost its neighbours then, and all routes but those that somebody gave it again."""
    before = host.network()
    agent = agent_of("run-1")
    set_up(agent)
    (peer, *_) = PEERS
    host.run("ip", "link", "set", "eth1", "down")
    host.run("ip", "link", "set", "eth1", "up")
    host.run("ip", "route", "add", f"{peer}/32", "dev", "eth1", "metric", "1")
    assert host.network() != before
    assert agent.ask("bye") == {"left": []}
    assert host.network() == before


def test_the_next_agent_waits_for_commands_that_a_killed_agent_started(host, agent_of, agents):
    """Its `ip` lives on and does all that it was told to."""
    before = host.network()
    first = agent_of("run-1")
    set_up(first)
    assert host.network() != before
    slow = subprocess.Popen(
        [*host.enter.split(), "ip", "-batch", "-"], stdin=subprocess.PIPE, text=True
    )
    kill(first)
    following = agents(f"exec {host.enter} sh -c")
    answer = following.link.post("hello", run="run-2", host="h0", patience=60.0, interfaces={})
    assert not wait([answer], 0.5).done, "nobody waited for it"
    slow.communicate("route del 10.9.0.100/32\nroute add 10.9.0.100/32 dev eth1 metric 1\n")
    assert answer.result(10).value["leftovers"] == left_by("run-1", "network")
    assert host.network() == before


def test_an_agent_that_ends_normally_leaves_no_journal(host, agent_of):
    agent = agent_of("run-1")
    set_up(agent)
    assert host.journals()
    assert agent.ask("bye") == {"left": []}
    assert agent.wait() == 0
    assert not host.journals()


def test_a_read_only_agent_reports_leftovers_and_keeps_them(host, agent_of):
    first = agent_of("run-1")
    set_up(first)
    kill(first)
    after = host.network()
    looking = agent_of("")
    assert looking.leftovers == left_by("run-1", "network")
    assert host.network() == after
    for request in ({"do": "start", "slot": 0, "env": {}}, {"do": "end", "slot": 0}):
        with pytest.raises(HostError, match="started read-only"):
            looking.ask(request.pop("do"), **request)
    with pytest.raises(HostError, match="started read-only"):
        set_up(looking, "10.9.0.2/24")
    assert host.network() == after
    assert agent_of("run-2").leftovers == left_by("run-1", "network")


def test_processes_that_a_rank_started_are_killed_in_any_session(host, agent_of, tmp_path):
    """The rank itself dies with its agent; of its children only the next agent knows."""
    (tmp_path / "sitecustomize.py").write_text(
        "import subprocess, sys\n"
        f"child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
    )
    first = agent_of("run-of-an-orphan")
    # The agent's /tmp is its own: the file's directory must be seen from there.
    host.run("sh", "-c", f"mkdir -p {tmp_path}")
    site = (tmp_path / "sitecustomize.py").read_text()
    host.run("sh", "-c", f"cat > {tmp_path}/sitecustomize.py <<'E'\n{site}E")
    first.start_rank(PYTHONPATH=str(tmp_path))
    orphan = int(host.run("cat", str(tmp_path / "pid")))
    with watched(orphan) as ended:
        kill(first)
        assert not ended(0)
        assert agent_of("run-2").leftovers == left_by("run-of-an-orphan")
        assert ended()


def test_a_process_stopped_by_a_killed_agent_does_not_stay_stopped(host, agent_of):
    first = agent_of("run-1")
    pid = first.start_rank()
    first.ask("signal", slot=0, signal="STOP")
    with watched(pid) as ended:
        kill(first)
        assert ended()
    assert agent_of("run-2").leftovers == left_by("run-1", "stop")


def test_a_stop_that_was_undone_is_no_longer_in_the_journal(host, agent_of):
    first = agent_of("run-1")
    first.start_rank()
    for name in ("STOP", "CONT"):
        first.ask("signal", slot=0, signal=name)
    first.start_rank(slot=1)
    first.ask("signal", slot=1, signal="STOP")
    first.ask("end", slot=1)
    kill(first)
    assert agent_of("run-2").leftovers == left_by("run-1")


def test_a_living_agent_of_another_run_is_not_ended(host, agent_of):
    first = agent_of("run-1")
    set_up(first)
    pid = first.start_rank()
    keep = host.network()
    with watched(pid) as ended:
        assert agent_of("run-2").leftovers == []
        assert not ended(0)
    assert host.network() == keep
    assert first.ask("alive") == {}


def test_an_agent_that_its_run_abandoned_ends_before_the_next_one_starts(host, agent_of):
    """Else it would take back, a moment later, what its successor found to be there already."""
    before = host.network()
    first = agent_of("run-1")
    set_up(first)
    wanted = host.network()
    first.link.close()
    second = agent_of("run-1")
    set_up(second)
    first.wait()
    assert host.network() == wanted
    second.ask("bye")
    assert host.network() == before


def test_an_abandoned_agent_that_hangs_is_killed(host, agent_of):
    before = host.network()
    first = agent_of("run-1")
    set_up(first)
    pid = first.start_rank()
    with stopped(first), watched(pid) as ended:
        assert agent_of("run-1").leftovers == left_by("run-1", "network")
        assert ended()
    assert first.wait() == -signal.SIGKILL
    assert host.network() == before


def test_a_host_on_which_no_undo_can_be_written_is_refused(host, agents):
    host.run(
        "sh",
        "-c",
        "for d in /run /tmp /dev/shm; do mount --options-mode ignore -o remount,ro $d; done",
    )
    agent = agents(f"exec {host.enter} sh -c")
    with pytest.raises(HostError, match=r"no undo can be written on this host: .*Read-only"):
        agent.hello(run="run-1", p0="eth1")


def test_nothing_is_changed_when_its_undo_does_not_fit_on_the_disk(host, agent_of):
    before = host.network()
    host.run("sh", "-c", "mount --options-mode ignore -o remount,size=4k /run")
    agent = agent_of("run-1")
    with pytest.raises(HostError, match=r"writing .* failed: No space left"):
        set_up(agent)
    assert host.network() == before
    host.run("sh", "-c", "mount --options-mode ignore -o remount,size=1m /run")
    set_up(agent)
    kill(agent)
    assert agent_of("run-2").leftovers == left_by("run-1", "network")
    assert host.network() == before


def test_the_journal_of_another_boot_is_void(host, agent_of):
    first = agent_of("run-1")
    set_up(first)
    kill(first)
    after = host.network()
    host.run("sh", "-c", 'sed -i \'1s/"kernel": "./"kernel": "x/\' /run/testbed-agents-0/*')
    assert agent_of("run-2").leftovers == []
    assert host.network() == after


def test_journals_in_a_directory_that_others_can_write_are_ignored(host, agent_of):
    first = agent_of("run-1")
    set_up(first)
    kill(first)
    host.run("chmod", "0777", "/run/testbed-agents-0")
    assert agent_of("run-2").leftovers == []


def test_an_unknown_undo_is_kept_and_the_host_is_refused(host, agent_of):
    first = agent_of("run-1")
    kill(first)
    line = json.dumps({"id": 7, "undo": "from the future"})
    host.run("sh", "-c", f"echo '{line}' | tee -a /run/testbed-agents-0/*")
    for run in ("run-2", "run-3"):
        (found,) = agent_of(run).leftovers
        assert found["run"] == "run-1"
        assert found["left"] == ["this version of testbed cannot undo 'from the future'"]


def test_a_process_is_identified_by_its_start_time_and_number():
    with subprocess.Popen(["sleep", "600"]) as process:
        start = processes.start_time(process.pid)
        assert processes.end_process(process.pid, "1", 0.0)
        assert processes.start_time(process.pid) == start
        assert processes.end_process(process.pid, start, 5.0)
        assert processes.start_time(process.pid) is None
