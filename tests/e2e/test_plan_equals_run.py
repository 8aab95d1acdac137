"""Every shipped experiment does on a twin what its plan says: circuits, places and faults.

Recoveries take the course that the plan predicts, too, unless something was observed otherwise;
`test_run.py` asks the same of one run every day.
"""

import pytest

from tests.e2e.commandline import ROOT

HARDWARE = {"nccl-tests"}
"""Experiments that a twin cannot run."""
NEEDS_TORCH = {"gloo", "morphlux-gloo", "unchanged-replicas", "unchanged-script"}
EXPERIMENTS = sorted(
    {path.stem for path in (ROOT / "experiments").glob("*.yaml")} - HARDWARE - NEEDS_TORCH
)


@pytest.mark.soak
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_a_run_does_otherwise_than_planned_names_its_cause(testbed, name):
    done = testbed.run(name, "--repeat", "2", "--seed", "7", limit=1200)
    assert done.code in (0, 1, 3), done.err
    print(*testbed.deviations(), sep="\n")
