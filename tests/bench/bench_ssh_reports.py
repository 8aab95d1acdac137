"""How much processor time of the orchestrator it takes to receive the reports of agents over SSH.

Run with `make bench`. `bench_symptoms.py` leaves SSH out, so what it finds for a thousand agents is
not what a run over SSH does: paramiko decrypts in this process, in a thread for each host.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

from testbed.bench import ssh
from testbed.bench.link import AgentLink
from testbed.cli.running import SWITCH_INTERVAL
from testbed.clock import Deadline
from tests.unit.conftest import SshHost

ROOT = Path(__file__).parents[2]
HOSTS = 32
REPORTS_S = 30.0
SECONDS = 10.0
LIMIT_S = 4e-4
"""Processor time of one report: 64 hosts with ten steps a second take a quarter of a core."""

AGENT = """
import sys, time
from tests.bench.simulated_agents import step
rank, rate, seconds = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
sys.stdin.buffer.read(1)
begin = time.monotonic()
for number in range(int(rate * seconds)):
    time.sleep(max(0.0, begin + (number + rank / 1000) / rate - time.monotonic()))
    sys.stdout.buffer.write(step(rank, number))
    sys.stdout.buffer.flush()
sys.stdin.buffer.read(1)
"""


def test_the_processor_time_of_a_report_over_ssh(tmp_path: Path) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL)
    total, came, all_came = int(REPORTS_S * SECONDS) * HOSTS, [0] * HOSTS, Event()

    def listen(host: str, message: dict[str, Any], received: float) -> None:
        came[int(host[1:])] += message["event"] == "rank"
        if sum(came) == total:
            all_came.set()

    with ExitStack() as stack:
        host = SshHost(tmp_path)
        stack.callback(host.close)
        stack.enter_context(host.at_home())
        channels = []
        for rank in range(HOSTS):
            arguments = [sys.executable, "-c", AGENT, str(rank), str(REPORTS_S), str(SECONDS)]
            command = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join(arguments)}"
            target = f"127.0.0.1:{host.port}"
            channels.append(ssh.run(f"h{rank}", target, command, Deadline.after(30)))
            stack.callback(channels[-1].close)
        for rank, channel in enumerate(channels):
            AgentLink(f"h{rank}", channel, listen)
        time.sleep(2)  # their interpreters have started
        began = os.times()
        for channel in channels:
            channel.send(b"!")
        assert all_came.wait(SECONDS + 30), f"{sum(came)} of {total} reports came"
        ended = os.times()
    user, system = ((b - a) / total for a, b in zip(began[:2], ended[:2], strict=True))
    print(
        f"\n{total} reports of {HOSTS} hosts over SSH, {HOSTS * REPORTS_S:.0f} a second: "
        f"{(user + system) * 1e6:.0f} us of a core each ({user * 1e6:.0f} user, "
        f"{system * 1e6:.0f} system; limit {LIMIT_S * 1e6:.0f}); ten thousand a second would take "
        f"{(user + system) * 1e4:.1f} cores"
    )
    assert user + system <= LIMIT_S
