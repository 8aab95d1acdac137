"""Which arms may share the jobs that are running, with the controllers that live with these."""

from pathlib import Path

import pytest

from testbed.run.job_lifecycle import groups_without_common_hosts, started_with
from testbed.schema import load_experiment

TEXT = """\
experiment: small
question: Which arms share jobs?
lab: rails
needs: {hosts: 4, fabric: circuit}
jobs:
  main: {kind: allreduce, ranks: 8, ranks_per_host: 2, mesh: {dp: 4, tp: 2}, sizes: [1 KiB]}
variants:
  demand: {controllers: [{kind: rails, mode: on-demand}]}
  slow: {controllers: [{kind: rails, mode: on-demand}], lab.twin.settle: 1 s}
  early: {controllers: [{kind: rails, mode: provisioned}]}
trials: 1
"""


@pytest.fixture
def arms(tmp_path: Path):
    path = tmp_path / "small.yaml"
    path.write_text(TEXT)
    return {arm.name: arm for arm in load_experiment(path).arms()}


def test_arms_whose_rails_are_asked_for_otherwise_do_not_share_jobs(arms):
    assert started_with(arms["demand"]) != started_with(arms["early"])


def test_arms_that_differ_in_the_switch_alone_share_jobs(arms):
    assert started_with(arms["demand"]) == started_with(arms["slow"])


@pytest.mark.parametrize(
    ("hosts", "groups"),
    [
        ({"a": "01", "b": "23", "c": "4"}, [["a", "b", "c"]]),
        ({"a": "01", "b": "12", "c": "23"}, [["a", "c"], ["b"]]),
        ({"a": "00", "b": "0", "c": "0"}, [["a"], ["b"], ["c"]]),
        ({}, []),
    ],
)
def test_jobs_with_a_common_host_are_in_different_groups(hosts, groups):
    assert [*groups_without_common_hosts(hosts)] == groups
