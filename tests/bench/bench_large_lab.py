"""How long a lab of 10 240 ports takes to be read, checked and planned, on one core.

Processor seconds. Five switches of 4096 ports lead to 5120 hosts with two ports each; the first
port of the first host behind each switch is on the switch before, so that one ring joins all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from testbed.run.planning.plan import Plan
from testbed.run.planning.planner import make_plan
from testbed.schema import Experiment, Lab, load_experiment, load_lab

SWITCHES = 5
GROUPS = 4
"""Of hosts behind each switch."""
GROUP = 256
LIMIT_S = 2.0
ROUNDS = 3

EXPERIMENT = """\
experiment: large
question: How long does the plan take?
needs: {{hosts: {hosts}, fabric: circuit}}
jobs:
  main: {{kind: train, ranks: {hosts}, steps: 30}}
faults:
  - {{kind: rank-kill, target: random, at: {{step: 20}}}}
"""

T = TypeVar("T")


def test_ten_thousand_ports_are_read_checked_and_planned(tmp_path: Path) -> None:
    lab, experiment = _files(tmp_path, SWITCHES)
    read, loaded = _least(lambda: _read(lab, experiment))
    planning, plan = _least(lambda: make_plan(*loaded, seed=7))
    hashing, _ = _least(plan.digest)
    _check(plan, SWITCHES)
    print(
        f"\n{2 * SWITCHES * GROUPS * GROUP} ports: read and checked in {read:.2f} s, planned "
        f"in {planning:.2f} s, hashed in {hashing:.2f} s, the least of {ROUNDS}"
    )
    assert read + planning + hashing < LIMIT_S


def test_the_time_grows_with_the_number_of_ports(tmp_path: Path) -> None:
    spans = []
    for switches in (1, 2, 4):
        lab, experiment = _files(tmp_path, switches)
        spans.append(_least(lambda: make_plan(*_read(lab, experiment), seed=7).digest())[0])  # noqa: B023
    print("\n2048, 4096 and 8192 ports:", ", ".join(f"{span:.2f} s" for span in spans))
    assert spans[-1] < 8 * spans[0]  # four times the ports, and twice that for a busy machine


def _files(directory: Path, switches: int) -> tuple[Path, Path]:
    """Write a lab of 2048 ports for each switch, and an experiment on all its hosts."""
    lines = ["lab: large", "allow: [rank-kill]", "hosts:"]
    for switch in range(switches):
        for group in range(GROUPS):
            number = switch * GROUPS + group
            if not group:
                before = (switch - 1) % switches
                fibres = f"tx: ocs{before}.1, rx: ocs{before}.2049"
                lines.append(f"  r{number}-0: {{ports: {{p0: {{{fibres}}}}}}}")
            lines += [f"  r{number}-[0-{GROUP - 1}]:", f"    ssh: r{number}-<n>", "    ports:"]
            for port in range(2):
                first = 2 * GROUP * group + port + 1
                at = f"interface: eth{port + 1}, address: 10.{number}.<n>.{port + 1}/8"
                fibres = f"tx: ocs{switch}.<2n+{first}>, rx: ocs{switch}.<2n+{first + 2048}>"
                lines.append(f"      p{port}: {{{at}, {fibres}}}")
    lines.append("switches:")
    for switch in range(switches):
        resource = f"TCPIP::192.0.2.{switch + 1}::5025::SOCKET"
        driven = f'driver: polatis, resource: "{resource}", size: [2048, 2048]'
        lines.append(f"  ocs{switch}: {{{driven}, ports: [1-4096]}}")
    lab, experiment = directory / "lab.yaml", directory / "experiment.yaml"
    lab.write_text("\n".join(lines) + "\n")
    experiment.write_text(EXPERIMENT.format(hosts=switches * GROUPS * GROUP))
    return lab, experiment


def _read(lab: Path, experiment: Path) -> tuple[Experiment, Lab]:
    return load_experiment(experiment), load_lab(lab)


def _check(plan: Plan, switches: int) -> None:
    ((job,),) = (arm.jobs for arm in plan.arms)
    hosts = switches * GROUPS * GROUP
    assert (len(job.hosts), len(job.circuits)) == (hosts, hosts)


def _least(action: Callable[[], T]) -> tuple[float, T]:
    """Return the least time of some rounds, and what the last one returned."""
    spans = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        found = action()
        spans.append(time.process_time() - begin)
    return min(spans), found
