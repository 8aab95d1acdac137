"""What hangs costs its own deadline: a run ends when it said that it would, with the right code.

The time itself is asserted through the limit that the run's first lines state: a run that lasts
longer than that does not finish here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.private_spaces import can_be_private
from tests.e2e.commandline import COMMAND, ROOT, CommandLine, Finished, Started
from tests.e2e.running_twin import RunningTwin
from tests.e2e.test_failures_during_a_run import ONE, recover

pytestmark = pytest.mark.timeout(300)

LIMITED = [*ONE, "-S", "limits.run=12 s"]
ENDLESS = [*LIMITED, "-S", "faults.0.at.step=1000000", "-S", "limits.trial=1 h"]
START = 30.0
"""Seconds in which the command itself is loaded, and its report written."""


def start(testbed: CommandLine, twin: RunningTwin, *arguments: str) -> Started:
    return testbed.start("run", "experiments/lumion.yaml", "--twin", twin.name, *arguments)


def finish(run: Started) -> Finished:
    """Wait for a run for as long as it says that it may take."""
    said = run.await_event(lambda e: (e["kind"], e["subject"]) == ("note", "the run"))
    own, restore = map(float, re.findall(r"(\d+) s", said["data"]["text"]))
    assert own == 12
    done = run.finish(own + restore + START)
    (limit,) = [
        e["data"]["limit"]
        for e in run.events()
        if (e["kind"], e["subject"]) == ("phase", "restore")
    ]
    assert limit <= restore
    return done


@pytest.fixture
def twin(rack: str) -> RunningTwin:
    return RunningTwin(rack)


def test_a_run_ends_in_time_although_a_host_is_unreachable(
    testbed: CommandLine, twin: RunningTwin
) -> None:
    """One of six: the others are opened meanwhile, and taken back."""
    with twin.black_hole("h5"):
        run = start(testbed, twin, *LIMITED)
        done = finish(run)
    assert done.code == 4, done.out + done.err
    assert run.summary()["reason"].startswith("h5: SSH to h5 failed: ")
    assert run.summary()["cleanup"] == "verified"
    assert twin.marked() == []
    assert not any(twin.agents(f"h{number}") for number in range(6))


def test_a_run_ends_in_time_although_its_switch_never_answers(
    testbed: CommandLine, twin: RunningTwin
) -> None:
    with twin.silent("ocs"):
        run = start(testbed, twin, *LIMITED)
        done = finish(run)
    assert done.code == 4, done.out + done.err
    reason = run.summary()["reason"]
    assert reason.startswith("ocs: ") and "did not answer in time" in reason


@pytest.mark.soak
def test_a_run_ends_in_time_although_its_switch_stops_answering(
    testbed: CommandLine, twin: RunningTwin
) -> None:
    """Then the circuits stay, which is said, and `recover` brings them back later."""
    run = start(testbed, twin, *ENDLESS)
    run.await_event(lambda e: e["kind"] == "trial.begin")
    with twin.silent("ocs"):
        done = finish(run)
    assert done.code == 6, done.out + done.err
    (end,) = [e["data"] for e in run.events() if e["kind"] == "run.end"]
    assert "longer than its limit of 12 s" in end["error"]
    assert [left.partition(":")[0] for left in end["left"]] == ["circuits", "leases"]
    again = recover(testbed, twin)
    assert again.code == 0, again.out + again.err


@pytest.mark.soak
def test_an_endless_job_is_ended_by_the_time_limit_of_the_run(
    testbed: CommandLine, twin: RunningTwin
) -> None:
    run = start(testbed, twin, *ENDLESS)
    done = finish(run)
    assert done.code == 4, done.out + done.err
    assert run.summary()["cleanup"] == "verified"
    assert "longer than its limit of 12 s" in run.summary()["reason"]
    assert not [e for e in run.events() if e["kind"] == "trial.end"]


PRIVATE = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"]
NO_NAMES = """
import os, socket, subprocess, sys, tempfile
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
service = socket.socket(type=socket.SOCK_DGRAM)
service.bind(("127.0.0.1", 53))
for path, text in (("/etc/resolv.conf", "nameserver 127.0.0.1\\noptions timeout:30 attempts:2\\n"),
                   ("/etc/nsswitch.conf", "hosts: dns\\n")):
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    subprocess.run(["mount", "--bind", file.name, os.path.realpath(path)], check=True)
    os.unlink(file.name)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(
    not can_be_private([*PRIVATE, "true"]), reason="this machine gives no user namespaces"
)
def test_a_run_ends_in_time_although_the_name_service_never_answers(
    testbed: CommandLine, tmp_path: Path
) -> None:
    """As on hardware, whose instruments and hosts have names."""
    lab = tmp_path / "rack.yaml"
    text = (ROOT / "configs" / "rack.yaml").read_text()
    lab.write_text(text.replace("192.0.2.10", "ocs.example").replace("192.0.2.11", "pdu.example"))
    results = ["--results", str(testbed.results), "--lab", str(lab)]
    command = [*COMMAND, "run", "experiments/lumion.yaml", *results, *LIMITED]
    process = subprocess.Popen(
        [*PRIVATE, sys.executable, "-c", NO_NAMES, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    testbed.running.append(process)
    run = Started(process, testbed.results)
    done = finish(run)
    assert done.code == 4, done.out + done.err
    assert run.summary()["cleanup"] == "verified"
