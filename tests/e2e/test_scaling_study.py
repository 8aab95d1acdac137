"""Runs of models: recorded like any other, with no lab and no twin behind them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.commandline import ROOT, CommandLine

SHIPPED = ROOT / "experiments" / "stragglar-scaling.yaml"


def test_a_model_runs_without_a_twin_and_its_record_says_so(
    testbed: CommandLine, tmp_path: Path
) -> None:
    small = re.sub(r"\n  n(?!4:|4\.|8|16|32)\d+[:.].*", "", SHIPPED.read_text())
    (tmp_path / "small.yaml").write_text(small)
    where = ("--lab", str(ROOT / "configs" / "rack.yaml"), "--results", str(testbed.results))
    summary = testbed(
        "run", str(tmp_path / "small.yaml"), "--twin", "--json", "--no-report", *where
    ).json()
    assert (summary["label"], summary["cleanup"]) == ("model", "verified")
    assert summary["metrics"]["n8.exposed_speedup"]["median"] == pytest.approx(1.363, abs=1e-3)
    assert [check["verdict"] for check in summary["checks"]] == ["passed"] * 36
    (run,) = testbed.results.glob("*-stragglar-scaling-*")
    log = (run / "events.jsonl").read_text()
    kinds = {json.loads(line)["kind"] for line in log.splitlines()}
    assert kinds == {"run.begin", "phase", "trial.begin", "model", "trial.end", "run.end"}
    assert not (run / "report.html").exists(), "it ran with --no-report"
    rebuilt = testbed("report", str(run), "--json")
    assert (run / "report.html").exists()
    assert rebuilt.json()["metrics"] == summary["metrics"]


@pytest.mark.soak
def test_the_modelled_scaling_of_stragglar_equals_that_of_the_paper(testbed: CommandLine) -> None:
    summary = testbed.run("stragglar-scaling").json()
    for arm in ("n4", "n8", "n16", "n32", "n64", "n128", "n256", "n4096"):
        print(f"{arm}: {summary['metrics'][f'{arm}.exposed_speedup']['median']:.3f}")
    assert summary["metrics"]["n4096.rounds"]["median"] == 4106
