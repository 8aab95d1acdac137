"""The command `propius`: serves a role until its time is over, and refuses what it cannot serve."""

from __future__ import annotations

import json

import pytest

from testbed.cli import run as command_line
from testbed.tenancy.traces import Population, generate


def test_a_role_is_served_and_says_where(tmp_path, capsys):
    store = str(tmp_path / "records.db")
    assert command_line(["propius", "scheduler", "--store", store, "--for", "10 ms"]) == 0
    assert "the scheduler listens at 127.0.0.1:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trunk"], "unknown role 'trunk'"),
        (["leaf"], "a leaf needs its root"),
        (["root", "file"], "a root takes no files"),
        (["balancer"], "a balancer needs client managers"),
        (["scheduler", "--store", "STORE", "--policy", "static-partition"], "without a scheduler"),
        (["scheduler", "--store", "STORE", "--policy", "fofi"], "fofi"),
        (["job-manager", "--store", "STORE", "--listen", "nowhere"], "'nowhere' is no HOST:PORT"),
        (["job-manager", "--store", "STORE", "--listen", "127.0.0.1:99999"], "is no HOST:PORT"),
        (["job-manager", "--store", "redis://foo:bar"], "write redis://HOST:PORT"),
        (["balancer", "--managers", "foo"], "--managers: 'foo' is no HOST:PORT"),
        (["leaf", "--root", "bad:xx"], "--root: 'bad:xx' is no HOST:PORT"),
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


def test_a_trace_of_a_seed_is_shown_with_its_hash(capsys):
    assert command_line(["propius", "trace", "--seed", "3", "--clients", "50"]) == 0
    said = capsys.readouterr().out
    digest = generate(Population(clients=50), 3).digest
    assert f"sha256     {digest}\n" in said and "clients    50, 0 of them never there" in said
    assert command_line(["propius", "trace", "--seed", "3", "--clients", "50", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["digest"], found["clients"]) == (digest, 50)
    assert {each["name"] for each in found["quantiles"]} >= {"session", "computation"}


def test_a_trace_in_a_file_is_shown(tmp_path, capsys):
    row = {"computation": 5, "communication": 7, "active": [0], "inactive": [50]}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"a": {**row, "finish_time": 200}}))
    assert command_line(["propius", "trace", str(path)]) == 0
    assert "available  25.0 % of the time, 1 sessions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "neither was given"),
        (["FILE", "--seed", "1"], "both were given"),
        (["FILE", "FILE", "FILE"], "not 3"),
        (["FILE"], "trace.json:1:23: computation of a is 'fast', and must be a positive number"),
        (["nowhere"], "the trace nowhere cannot be read"),
        (["--seed", "1", "--clients", "0"], "--clients 0 cannot be drawn"),
    ],
)
def test_a_trace_that_cannot_be_shown_is_refused_in_one_sentence(tmp_path, capsys, words, said):
    path = tmp_path / "trace.json"
    path.write_text('{"a": {"computation": "fast", "finish_time": 5}}')
    words = [str(path) if word == "FILE" else word for word in words]
    assert command_line(["propius", "trace", *words]) == 2
    assert said in capsys.readouterr().err
