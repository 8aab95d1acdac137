"""Collectives on a packet switch: real packets between eight hosts, one of them late on purpose."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.commandline import CommandLine

EXPERIMENT = """\
experiment: late
question: Who is late?
lab: packet-rack
needs: {hosts: 4, fabric: packet}
jobs:
  main: {kind: collective, ranks: 4, sizes: [512 KiB], iterations: 3}
variants:
  on-time: {}
  late: {faults: [{kind: straggler, target: rank 2, at: {step: 1}, delay: 200 ms}]}
  jerky:
    faults:
      - kind: straggler
        how: freeze-cycle
        share: 30 %
        period: 300 ms
        target: rank 2
        at: {step: 1}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    line = CommandLine(tmp_path_factory.mktemp("packet") / "results")
    return line.run_text(EXPERIMENT, "packet-rack", "--seed", "7")


def test_every_trial_on_a_packet_switch_is_valid_and_needs_no_recovery(
    finished: tuple[dict, Path],
) -> None:
    summary, _ = finished
    assert summary["cleanup"] == "verified"
    for trial in summary["trials"]:
        assert trial["valid"], trial
        assert trial["recovered"] is None and trial["marks"] is None


def test_a_rank_that_waited_or_came_before_the_straggler_confirms_the_fault(
    finished: tuple[dict, Path],
) -> None:
    summary, _ = finished
    receipts = {trial["variant"]: trial["receipt"] for trial in summary["trials"]}
    assert receipts["on-time"] is None
    for arm in ("late", "jerky"):
        # By StragglAR perhaps nobody waits: then it is confirmed by who came first.
        seen = re.fullmatch(
            r"(h\d) (?:waited|came) ([0-9.]+) s(?: earlier)?", receipts[arm]["observer"]
        )
        assert seen is not None, receipts[arm]
        assert seen[1] in {"h0", "h1", "h3"}
        assert float(seen[2]) >= 0.1


def test_the_delay_and_its_rank_are_measured_from_host_timestamps(
    finished: tuple[dict, Path],
) -> None:
    summary, _ = finished
    metrics = summary["metrics"]
    assert metrics["late.straggler"]["median"] == 2
    assert metrics["late.straggler_confidence"]["median"] > 99
    assert metrics["late.skew"]["median"] >= 0.19
    for algorithm in ("ring", "rhd", "direct", "stragglar"):
        total, exposed = (
            metrics[f"late.{what}_{algorithm}_512kib"] for what in ("total", "exposed")
        )
        assert total["median"] >= exposed["median"] + 0.19
        assert total["predicted"] >= 0.2
    assert "late.critical_delay_model" not in metrics
    assert metrics["on-time.critical_delay_model"]["predicted"] is not None


def test_on_a_packet_switch_no_circuit_is_made_and_every_port_is_verified_from_another(
    finished: tuple[dict, Path],
) -> None:
    _, run = finished
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert not [event for event in events if event["kind"] == "fabric.change"]
    proved = {e["data"]["host"]: e["subject"] for e in events if e["kind"] == "link.good"}
    row = {"h0": "h0.p0–h1.p0", "h1": "h1.p0–h2.p0", "h2": "h2.p0–h3.p0", "h3": "h0.p0–h3.p0"}
    assert proved == row
    samples = [e["data"] for e in events if e["kind"] == "sample"]
    assert samples and all(sample["verified"] for sample in samples)


def test_ports_send_the_number_of_bytes_that_the_schedules_state(
    finished: tuple[dict, Path],
) -> None:
    """By the counters of the interfaces, without the headers of frames."""
    summary, _ = finished
    size, metrics = 512 << 10, summary["metrics"]
    sent = {
        name: metrics[f"on-time.sent_{name}_512kib"]["median"] for name in ("ring", "stragglar")
    }
    early = 2 / 3 * size  # what the other three send each other while they wait
    late = sent["stragglar"] - early
    print(f"ring: {sent['ring'] / size:.3f} of the buffer, 2(n-1)/n is 1.5")
    print(f"after the straggler has come: {late / size:.3f}, the paper at most {4 / 3:.3f}")
    assert sent["ring"] == pytest.approx(1.5 * size, rel=0.05)
    assert 0.95 * size < late < 1.05 * 4 / 3 * size
