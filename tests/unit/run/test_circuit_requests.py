"""Circuits that ranks ask for, as the orchestrator hears it; `tests/e2e` has them made."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.clock import Deadline
from testbed.errors import FileError
from testbed.fabric.circuits import HostPort
from testbed.run.circuits import CircuitRequests
from testbed.run.inbox import Report
from testbed.run.places import Place
from testbed.run.planning.placement import place
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
    return place(load_experiment(tmp_path / "e.yaml"), load_lab(ROOT / "configs" / lab))


def asks(number, of, circuits=1):
    return {
        "event": "circuits",
        "mono": 1.0,
        "generation": 1,
        "number": number,
        "circuits": circuits,
        "of": of,
    }


def test_a_circuit_request_is_carried_out_once_all_its_ranks_made_it(bench, log):
    requests = CircuitRequests(bench, log, (), lambda rank, message: None)
    assert not requests.add(0, asks(1, [0, 1]))
    assert not requests.add(0, asks(2, [0, 2]))
    assert requests.add(1, asks(1, [0, 1]))
    assert requests.add(2, asks(2, [0, 2]))
    assert requests.add(3, asks(3, [3]))


def test_an_impossible_circuit_request_fails_the_job(job, log):
    """Here no switch is open."""
    job.requests = CircuitRequests(job.bench, log, (frozenset(),), job.tell)
    job.inbox.handler = job.handle
    for host in ("h0", "h1"):
        job.processes[Place(host)] = object()
        report = Report(host, {"event": "rank", "slot": 0, "said": asks(1, [0, 1], 0)}, 0.0)
        job.inbox.listen(report.host, report.message, report.received)
    assert job.inbox.wait(lambda: bool(job.failure), Deadline.after(10))
    assert "fabric" in job.failure


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
            "splice re-points circuits, and so do the ranks of job main; remove splice",
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
        placed(tmp_path, lab, *changes)
