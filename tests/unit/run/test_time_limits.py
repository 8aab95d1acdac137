"""How long a run may take, clean-up included: what is said at its start holds at its end."""

from pathlib import Path

from testbed.run.planning.planner import make_plan
from testbed.run.time_limits import RESTORE_LIMIT, longest_restore
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]


def planned(name):
    experiment = load_experiment(ROOT / "experiments" / f"{name}.yaml")
    return make_plan(experiment, load_lab(ROOT / "configs" / "rack.yaml"), seed=1)


def test_the_limit_of_the_clean_up_is_the_sum_of_those_of_its_undo_steps():
    plain, faulty, double = map(planned, ("allreduce", "lumion", "unpleasant-switch"))
    each = longest_restore(faulty) - longest_restore(plain)
    assert RESTORE_LIMIT <= each <= RESTORE_LIMIT + 2
    assert longest_restore(double) == longest_restore(faulty) + each
