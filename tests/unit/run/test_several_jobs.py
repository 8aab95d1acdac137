"""Several jobs in one experiment: their hosts, circuits and faults, and what is refused."""

import io
from dataclasses import replace

import pytest

from testbed.errors import FileError
from testbed.report.plan_page import print_plan
from testbed.run.planning.fault_plans import struck_later
from testbed.run.planning.placement import place
from testbed.run.planning.planner import make_plan
from testbed.run.planning.steps import ProgramCircuits, StartJob
from testbed.schema import load_experiment, load_lab
from tests.unit.run.test_arm_plans import CONFIGS

TWO = """\
experiment: two
question: How do two jobs fare side by side?
needs: {hosts: 6, fabric: circuit}
jobs:
  left: {kind: train, ranks: 2, spares: 1, steps: 30}
  right: {kind: train, ranks: 2, steps: 20, hosts: [h1, h2]}
faults: [{kind: power-cut, job: left, target: random, at: {step: 8}}]
policy: {kind: splice}
variants: {struck: {}, control: {faults: []}}
checks:
  struck.left.recovery_time: {every: "< 1 s"}
  control.right.steps: {equals: 20}
"""


@pytest.fixture
def read(tmp_path):
    """Return the function that reads TWO, with some of its text replaced."""

    def read(*changes):
        text = TWO
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (tmp_path / "e.yaml").write_text(text)
        return load_experiment(tmp_path / "e.yaml")

    return read


def rack():
    return load_lab(CONFIGS / "rack.yaml")


def test_a_job_without_hosts_gets_those_that_no_other_names(read):
    placed = place(read(), rack())
    assert list(placed) == ["left", "right"]
    assert (placed["left"].hosts, placed["left"].spares) == (("h0", "h3"), ("h4",))
    assert placed["right"].hosts == ("h1", "h2")
    assert placed.used == ("h0", "h3", "h4", "h1", "h2")
    for job in placed.values():
        assert {host for circuit in job.circuits for host in circuit.hosts} == set(job.hosts)


def test_the_plan_starts_every_job_and_lights_the_circuits_of_all(read):
    plan = make_plan(read(), rack(), seed=7)
    (lit,) = (step for step in plan.steps if isinstance(step, ProgramCircuits))
    assert frozenset(lit.circuits) == place(read(), rack()).circuits
    assert [step.name for step in plan.steps if isinstance(step, StartJob)] == ["left", "right"]
    for arm in plan.to_json()["arms"]:
        assert [job["name"] for job in arm["jobs"]] == ["left", "right"]
        assert all(fault["job"] == "left" for fault in arm["faults"])


def test_a_fault_strikes_a_rank_of_its_own_job(read):
    struck = ("job: left, target: random", "job: right, target: h2")
    recovery = ('struck.left.recovery_time: {every: "< 1 s"}', "struck.left.steps: {equals: 30}")
    without = (" spares: 1,", "")
    moved = ("right: {kind: train, ranks: 2,", "right: {kind: train, ranks: 2, spares: 1,")
    hosts = ("[h1, h2]", "[h1, h2, h0]")
    plan = make_plan(read(struck, recovery, without, moved, hosts), rack(), seed=7)
    (fault,) = (fault for trial in plan.trials for fault in trial.faults)
    assert fault.rank == 1


OF_RIGHT = "{kind: rank-kill, job: right, target: rank 1, at: {step: 3}}"


SPARE_OF_RIGHT = (
    ("right: {kind: train, ranks: 2,", "right: {kind: train, ranks: 2, spares: 1,"),
    ("[h1, h2]", "[h1, h2, h3]"),
    ("at: {step: 8}}]", f"at: {{step: 8}}}}, {OF_RIGHT}]"),
)


def test_faults_of_two_jobs_strike_ranks_of_each_and_each_is_recovered_by_its_own_spare(read):
    plan = make_plan(read(*SPARE_OF_RIGHT), rack(), seed=7)
    (trial,) = (trial for trial in plan.trials if trial.faults)
    left, right = trial.faults
    assert struck_later([left, replace(right, after=0.1)]) == {}
    assert (left.job, left.step, left.entry) == ("left", 8, 0)
    assert (right.job, right.step, right.entry, right.rank) == ("right", 3, 1, 1)
    spares = {
        one.job: [decision.replacement for decision in one.decisions] for one in trial.recoveries
    }
    assert spares == {"left": ["h5"], "right": ["h3"]}


def test_the_page_of_a_plan_names_the_job_of_each_fault(read):
    page = io.StringIO()
    print_plan(make_plan(read(*SPARE_OF_RIGHT), rack(), seed=7), page, 120)
    rows = [row for row in page.getvalue().splitlines() if "power-cut" in row or "rank-kill" in row]
    assert [" of left " in row for row in rows] == [True, False]
    assert "1 of right" in rows[1]


def test_each_struck_job_has_a_recovery_of_its_own_to_check(read):
    check = ("control.right.steps: {equals: 20}", 'struck.right.recovery_time: {every: "< 1 s"}')
    make_plan(read(*SPARE_OF_RIGHT, check), rack(), seed=7)


LATE = "{kind: straggler, job: right, target: rank 1, at: {step: 1}, delay: 1 s}"


def test_a_rank_of_one_job_may_be_late_while_a_host_of_another_dies(read):
    slowed = ("faults: [{kind: power", f"faults: [{LATE}, {{kind: power")
    # A policy would stand for a controller of both jobs; the late rank of this one is not replaced.
    of_left = ("policy: {kind: splice}", "controllers: [{kind: splice, job: left}]")
    plan = make_plan(read(slowed, of_left), rack(), seed=7)
    (trial,) = (trial for trial in plan.trials if trial.faults)
    late, cut = trial.faults
    assert (late.job, late.kind, late.entry) == ("right", "straggler", 0)
    assert (cut.job, cut.kind, cut.entry) == ("left", "power-cut", 1)
    assert [one.job for one in trial.recoveries] == ["left"]
    assert struck_later(trial.faults) == {"left": cut}, "its pace is known by then"
    beside = ("control.right.steps: {equals: 20}", "struck.right.mean_step_time: {max: '< 1 s'}")
    make_plan(read(slowed, of_left, beside), rack(), seed=7)
    make_plan(
        read(slowed, of_left, (beside[0], "struck.right.dip: {max: '< 1 s'}")), rack(), seed=7
    )


REFUSED = {
    "a late rank of a job with another fault": (
        [
            ("faults: [{kind: power", f"faults: [{LATE.replace('right', 'left')}, {{kind: power"),
            ('struck.left.recovery_time: {every: "< 1 s"}', "struck.left.steps: {equals: 30}"),
        ],
        "7:17: straggler only slows a rank down, and the trial has another fault of job left",
    ),
    "a host of two jobs": (
        [("steps: 30", "steps: 30, hosts: [h0, h1, h3]")],
        "6:53: h1 is a host of job left already",
    ),
    "shared hosts of circuits": (
        [
            ("steps: 30", "steps: 30, hosts: [h0, h1, h3]"),
            ("hosts: [h1, h2]", "hosts: [h1, h2], shares_hosts_with: [left]"),
        ],
        "6:53: h1 is a host of job left too, and circuits join a port to one peer",
    ),
    "hosts shared with no job": (
        [("hosts: [h1, h2]", "hosts: [h1, h2], shares_hosts_with: [lefd]")],
        "6:82: jobs.right.shares_hosts_with.0: 'lefd' is not another job of this experiment",
    ),
    "too few hosts in the lab": (
        [("ranks: 2, spares: 1", "ranks: 4, spares: 1")],
        "5:30: ranks and spares need 5 hosts, and lab rack has 4 left beside other jobs",
    ),
    "more hosts than are needed": (
        [("hosts: 6", "hosts: 4")],
        "3:16: jobs left and right use 5 hosts together (with spares), more than the 4 declared",
    ),
    "no trial would end": (
        [("spares: 1, steps: 30", "spares: 1"), (" steps: 20,", ""), ("equals: 20", "min: '> 1'")],
        "5:9: a trial of control would never end: job left has no fault and no last step",
    ),
    "a fault that one of two jobs would not survive": (
        [("at: {step: 8}}]", f"at: {{step: 8}}}}, {OF_RIGHT}]"), ("struck.left.", "struck.right.")],
        "11:3: checks.struck.right.recovery_time: no trial of struck.right has 'recovery_time'",
    ),
    "two faults of one rank, beside one of another job": (
        [("at: {step: 8}}]", f"at: {{step: 8}}}}, {OF_RIGHT}, {OF_RIGHT.replace('3}', '4}')}]")],
        "7:171: another fault of the trial hits rank 1 already",
    ),
    "a fault without its job": (
        [("job: left, ", "")],
        "7:10: faults.0: the fault names no `job`, and the experiment has several",
    ),
    "a check without its job": (
        [("control.right.steps", "control.steps")],
        "12:3: checks.control.steps: 'control' is not an arm of this experiment",
    ),
    "the recovery of a job that nothing strikes": (
        [("struck.left.recovery_time", "struck.right.recovery_time")],
        "11:3: checks.struck.right.recovery_time: no trial of struck.right has 'recovery_time'",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_at_its_place_in_the_file(read, what):
    changes, said = REFUSED[what]
    with pytest.raises(FileError) as refused:
        make_plan(read(*changes), rack(), seed=7)
    assert str(refused.value).partition("e.yaml:")[2].startswith(said)


def test_a_check_may_leave_out_the_only_arm(read):
    alone = ("variants: {struck: {}, control: {faults: []}}\n", "")
    checks = ("struck.left.", "left."), ("control.right.", "right.")
    found = [(check.arm, check.metric) for check in read(alone, *checks).all_checks()]
    assert found == [("only.left", "recovery_time"), ("only.right", "steps")]


SHARED = """\
experiment: shared
question: How do two jobs fare on the same hosts?
needs: {hosts: 4, fabric: packet}
jobs:
  left: {kind: train, ranks: 2, steps: 30, hosts: [h0, h1]}
  right: {kind: train, ranks: 3, steps: 20, hosts: [h1, h2, h3], shares_hosts_with: [left]}
"""


def test_jobs_that_share_a_host_have_processes_of_their_own_there(tmp_path):
    (tmp_path / "e.yaml").write_text(SHARED)
    lab = load_lab(CONFIGS / "packet-rack.yaml")
    placed = place(load_experiment(tmp_path / "e.yaml"), lab)
    assert placed["left"].places == (("h0", 0), ("h1", 0))
    assert placed["right"].places == (("h1", 1), ("h2", 0), ("h3", 0))
    assert placed.used == ("h0", "h1", "h2", "h3")


def test_nothing_that_fences_hosts_acts_on_shared_ones(tmp_path):
    fault = "faults: [{kind: rank-kill, job: left, target: random, at: {step: 2}}]\n"
    text = SHARED.replace("ranks: 2,", "ranks: 2, spares: 1,").replace("[h0, h1]", "[h0, h1, h4]")
    text = text.replace("hosts: 4", "hosts: 5") + fault + "policy: {kind: splice}\n"
    (tmp_path / "e.yaml").write_text(text)
    with pytest.raises(FileError, match="splice may fence hosts, and job left shares h1 with job"):
        place(load_experiment(tmp_path / "e.yaml"), load_lab(CONFIGS / "packet-rack.yaml"))
