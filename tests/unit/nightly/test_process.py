"""A run as a process of its own: it ends when it must, and its last words are kept."""

from __future__ import annotations

import os
import signal
import threading

from testbed.nightly.process import conduct
from tests.unit.nightly.nights import ROOT

LAB = ["--lab", str(ROOT / "configs" / "rack.yaml")]
LONG = ["run", str(ROOT / "experiments" / "stragglar-scaling.yaml"), *LAB]
"""A model of thousands of ranks, which takes many seconds."""


def test_a_refused_nightly_task_reports_the_reason(tmp_path):
    ended = conduct(["run", "nowhere.yaml"], os.environ, tmp_path / "log", 60.0, [])
    assert (ended.code, ended.summary, ended.why) == (2, None, "")
    assert "nowhere" in ended.said


def test_a_nightly_task_that_takes_too_long_is_ended(tmp_path):
    results = ["--results", str(tmp_path), "--json"]
    ended = conduct([*LONG, *results], os.environ, tmp_path / "log", 0.0, [])
    assert ended.why == "too long" and ended.code in (128 + signal.SIGTERM, -signal.SIGTERM)


def test_a_signal_is_forwarded_to_the_run(tmp_path):
    signals: list[int] = []
    timer = threading.Timer(1.0, signals.append, [signal.SIGINT])
    timer.start()
    results = ["--results", str(tmp_path), "--json"]
    ended = conduct([*LONG, *results], os.environ, tmp_path / "log", 60.0, signals)
    timer.join()
    assert ended.why == "signal" and ended.code in (128 + signal.SIGINT, -signal.SIGINT)
