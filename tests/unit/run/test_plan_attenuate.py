"""What the planner makes of the fault `attenuate`, and where it refuses it."""

from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.run.planning.planner import make_plan
from testbed.schema import load_experiment, load_lab

FILES = Path(__file__).parents[2] / "e2e" / "attenuation"


@pytest.fixture
def planned(tmp_path):
    """Plan the experiment of the attenuator's lab, with one text of the two files replaced."""

    def planned(old="", new=""):
        for name in ("lab", "experiment"):
            text = (FILES / f"{name}.yaml").read_text()
            (tmp_path / f"{name}.yaml").write_text(text.replace(old, new, 1) if old else text)
        experiment = load_experiment(tmp_path / "experiment.yaml")
        return make_plan(experiment, load_lab(tmp_path / "lab.yaml"), seed=1)

    return planned


def test_the_plan_names_the_port_and_opens_its_attenuator_and_meter(planned):
    plan = planned()
    faults = {trial.arm: trial.faults[0] for trial in plan.trials}
    assert {arm: (fault.rank, fault.port) for arm, fault in faults.items()} == {
        "into-the-switch": (0, "h0.p1"),
        "at-the-receiver": (1, "h1.p1"),
        **{f"{loss}-dB-less": (0, "h0.p1") for loss in (3, 4, 5, 6)},
    }
    assert (plan.steps[0].attenuators, plan.steps[0].meters) == (("voa",), ("opm",))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("target: h0.p1", "target: h0.p0", "no fibre of h0.p0 runs through an attenuator"),
        ("target: h0.p1", "target: h0", "attenuate needs a port of a host, and h0 is not one"),
        (
            "target: h0.p1",
            "target: random",
            "attenuate needs a port of a host, and random is not one",
        ),
        ("target: h0.p1", "target: h0.p7", "h0.p7 is not a port of lab attenuation; did you mean"),
        ("loss: 20 dB", "loss: 0 dB", "`loss` must be above 0 dB"),
        ("loss: 20 dB", "loss: 20 dBm", "'20 dBm' is not a loss"),
        (", loss: 20 dB", "", "the key 'loss' is missing"),
        ("allow: [attenuate]", "allow: []", "does not permit attenuate on h0"),
    ],
)
def test_an_impossible_attenuate_fault_is_refused(planned, old, new, reason):
    with pytest.raises(FileError) as refusal:
        planned(old, new)
    assert reason in str(refusal.value)
