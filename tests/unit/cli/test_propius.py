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


def test_a_role_without_a_store_opens_the_one_that_the_user_has_on_this_machine(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for role in ("job-manager", "client-manager"):
        assert command_line(["propius", role, "--for", "10 ms"]) == 0
    (kept,) = (tmp_path / "state/testbed").glob("*.db")
    assert (tmp_path / "state/testbed").stat().st_mode & 0o077 == 0
    said = capsys.readouterr().out
    assert f"the records of the job-manager are in {kept}\n" in said
    assert f"the records of the client-manager are in {kept}\n" in said


def test_a_store_that_cannot_be_made_is_said_in_one_sentence(tmp_path, capsys, monkeypatch):
    (tmp_path / "state").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert command_line(["propius", "job-manager", "--for", "10 ms"]) == 4
    said = capsys.readouterr().err
    assert "for a store cannot be made" in said and "--store" in said
