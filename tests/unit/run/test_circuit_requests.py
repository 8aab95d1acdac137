"""Circuits that ranks ask for: planned, and impossible ones; `tests/e2e` has them made."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.clock import Deadline
from testbed.control.controller import JobObserved
from testbed.errors import FileError
from testbed.fabric.circuits import Circuit, HostPort
from testbed.run.agent_reports import observation
from testbed.run.context import RunContext
from testbed.run.inbox import Report
from testbed.run.planning.placement import place
from testbed.run.planning.planner import make_plan
from testbed.run.start_controllers import start_controllers
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]
EXPERIMENT = """\
experiment: small
question: Does it pay to re-point?
needs: {hosts: 4, fabric: circuit}
jobs:
  main: {kind: collective, ranks: 4, sizes: [64 KiB], algorithms: [ring, rhd]}
"""


def placed(tmp_path, lab, *changes):
    text = EXPERIMENT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (tmp_path / "e.yaml").write_text(text)
    (placement,) = place(
        load_experiment(tmp_path / "e.yaml"), load_lab(ROOT / "configs" / lab)
    ).values()
    return placement


def planned(tmp_path, lab, *changes):
    placed(tmp_path, lab, *changes)
    return make_plan(load_experiment(tmp_path / "e.yaml"), load_lab(ROOT / "configs" / lab), seed=7)


def asks(number, of, circuits=0):
    which = {"generation": 1, "number": number, "circuits": circuits, "of": of}
    return {"event": "rank", "slot": 0, "said": {"event": "circuits", "mono": 1.0, **which}}


def test_an_impossible_circuit_request_fails_the_job(desk, job, inbox, log):
    """Here the job may ask for circuits between hosts that no fibre leads to."""
    desk.plan()
    job.bench.open_fabric(())
    job.requests = (frozenset([Circuit.between(HostPort("h0", "p1"), HostPort("h1", "p0"))]),)
    job.job.controllers = ("circuit-requests",)
    context = RunContext(job.bench, inbox, None, log, None, None)
    executor = start_controllers(load_experiment("experiment.yaml"), {"main": job}, context, "job")

    def handle(item):
        if isinstance(item, Report):
            executor.observe(JobObserved(job.name, observation(item, job)))
        else:
            executor.handle(item)

    inbox.handler = handle
    for host in ("h0", "h1"):
        inbox.listen(host, asks(1, [0, 1]), 0.0)
    assert inbox.wait(lambda: bool(executor.failure), Deadline.after(10))
    assert "circuit-requests: circuits that the ranks asked for could not" in executor.failure


def test_the_first_circuits_are_the_ring_and_all_requested_ones_can_be_made(tmp_path):
    found = placed(tmp_path, "rack.yaml")
    assert found.asked[0] == found.circuits
    assert len(found.asked) == 2
    diagonal = {str(circuit) for circuit in found.asked[1] - found.asked[0]}
    assert diagonal == {"h0.p0–h2.p0", "h1.p1–h3.p1"}
    assert HostPort("h0", "p1") in {end for c in found.asked[1] for end in c.ends}


def test_on_a_packet_switch_ranks_request_no_circuits(tmp_path):
    found = placed(tmp_path, "packet-rack.yaml", ("fabric: circuit", "fabric: packet"))
    assert found.asked == () and found.circuits == frozenset()


@pytest.mark.parametrize(
    ("lab", "changes", "error"),
    [
        (
            "rack.yaml",
            [("jobs:", "policy: {kind: splice}\njobs:")],
            "splice and circuit-requests both act on the circuits of job main; job main needs "
            "circuit-requests; leave splice out",
        ),
        (
            "packet-rack.yaml",
            [("fabric: circuit", "fabric: packet"), ("64 KiB]", "64 KiB], circuits: both")],
            "a packet switch has no circuits to re-point or to forward over",
        ),
        (
            "rack.yaml",
            [("[ring, rhd]", "[ring, gloo]")],
            "gloo connects every rank to all others, which needs a packet switch",
        ),
    ],
)
def test_invalid_circuit_requests_are_refused(tmp_path, lab, changes, error):
    with pytest.raises(FileError, match=error):
        planned(tmp_path, lab, *changes)
