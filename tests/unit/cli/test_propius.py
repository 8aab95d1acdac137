"""The command `propius`: serves a role until its time is over, and refuses what it cannot serve."""

from __future__ import annotations

import pytest

from testbed.cli import run as command_line


def test_a_role_is_served_and_says_where(tmp_path, capsys):
    store = str(tmp_path / "records.db")
    assert command_line(["propius", "scheduler", "--store", store, "--for", "10 ms"]) == 0
    assert "the scheduler listens at 127.0.0.1:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trunk"], "unknown role 'trunk'"),
        (["leaf"], "a leaf needs its root"),
        (["job-manager"], "a job-manager needs a store"),
        (["balancer"], "a balancer needs client managers"),
        (["scheduler", "--store", "STORE", "--policy", "static-partition"], "without a scheduler"),
        (["scheduler", "--store", "STORE", "--policy", "fofi"], "fofi"),
        (["job-manager", "--store", "STORE", "--listen", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(tmp_path, capsys, words, said):
    words = [str(tmp_path / "records.db") if word == "STORE" else word for word in words]
    assert command_line(["propius", *words, "--for", "10 ms"]) in (2, 4)
    assert said in capsys.readouterr().err
