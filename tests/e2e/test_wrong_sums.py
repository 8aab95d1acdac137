"""A rank that adds wrongly: its job's trial fails, and says in which step and elements."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commandline import CommandLine

PLANTED = """
import numpy

true = numpy.add


class Add:
    calls = 0

    def __getattr__(self, name):
        return getattr(true, name)

    def __call__(self, one, other, out=None, **more):
        result = true(one, other, out=out, **more)
        if out is one and numpy.ndim(other) and out.size:  # what arrives, added to one's own
            self.calls += 1
            if self.calls > 60:
                out[0] += 0.5
        return result


numpy.add = Add()
"""
"""What the Python of one host's ranks reads first."""

EXPERIMENT = """
experiment: wrong-sums
question: Does anybody notice one element that was added wrongly?
lab: rack
needs: {hosts: 4, fabric: circuit}
jobs:
  main: {kind: train, ranks: 4, topology: ring, steps: 400, dim: 64, layers: 2, heads: 2}
"""


@pytest.mark.soak
def test_a_trial_with_a_wrong_sum_fails_with_step_and_elements(
    testbed: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    (tmp_path / "wrong.yaml").write_text(EXPERIMENT)
    planted = ["-S", f"lab.hosts.h1.env={{PYTHONPATH: {tmp_path}}}"]
    planted += ["-S", "lab.twin.clock_drift=0 ppm"]  # which needs PYTHONPATH for itself
    where = ["--twin", "--json", "--results", str(testbed.results)]
    done = testbed("run", str(tmp_path / "wrong.yaml"), *planted, *where)
    assert done.code == 1, done.err
    (trial,) = done.json()["trials"]
    assert "corrupt: in step " in trial["reason"], trial["reason"]
    assert "but the ranks' contributions add up to" in trial["reason"]
