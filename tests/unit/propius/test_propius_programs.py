"""The programs of experiments, whose ranks are processes of this machine on loopback addresses."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest

from testbed.propius.redis_process import redis_server
from testbed.tenancy.learning_run import LearningRun

LONGEST_S = 240


def output_of(directory, program, *arguments, ranks):
    """Run all ranks of a program; return what rank 0 wrote, once all have ended well."""
    draw = random.SystemRandom().randrange
    first = f"127.{draw(1, 255)}.{draw(256)}.{draw(1, 200)}"  # its ports are nobody else's
    line = [sys.executable, "-m", f"testbed.propius.{program}", *arguments, first]
    said = [directory / f"{rank}.txt" for rank in range(ranks)]
    with ExitStack() as stack:
        processes = []
        for rank, path in enumerate(said):
            where = {"TESTBED_RANK": str(rank), "TESTBED_RANKS": str(ranks), "TESTBED_SEED": "7"}
            both = {"stdout": stack.enter_context(path.open("w")), "stderr": subprocess.STDOUT}
            processes.append(subprocess.Popen(line, env={**os.environ, **where}, **both))
            stack.callback(processes[-1].wait)
            stack.callback(processes[-1].kill)
        for process, path in zip(processes, said, strict=True):
            assert process.wait(LONGEST_S) == 0, path.read_text()
    return said[0].read_text()


def number(pattern, text):
    return float(re.search(pattern, text, re.MULTILINE)[1])


@pytest.mark.timeout(300)
def test_managers_bind_no_client_twice_though_they_are_killed(tmp_path):
    said = output_of(tmp_path, "binding_program", "2", "yes", ranks=3)
    assert number(r"^([0-9]+) acceptances", said) > 0
    assert number(r"^([0-9]+) managers killed", said) > 0
    assert "\n0 bound beyond demand, 0 told otherwise than recorded\n0 bound twice of" in said


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_random_selection_is_in_vain_where_devices_do_not_meet_constraints(tmp_path):
    """55 % of clients meet the constraints of a job, on average of the three levels."""
    share = {}
    for levels in ([], ["levels"]):
        said = output_of(
            tmp_path, "binding_program", "2", "no", "random-selection", *levels, ranks=3
        )
        share[bool(levels)] = number(r"not bound ([0-9.]+) %", said)
    assert 70 > share[True] > 35 > share[False]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "fault",
    [
        "leaf",
        *(
            pytest.param(each, marks=pytest.mark.soak)
            for each in ("managers", "store", "store-lost", "silent-job")
        ),
    ],
)
def test_every_round_ends_with_the_right_sum_whatever_fails(tmp_path, fault):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    said = output_of(tmp_path, "faults_program", fault, ranks=5)
    assert "12 rounds ended, 0 hung, 0 sums wrong" in said
    assert "\n0 clients demanded that nobody waits for" in said
    assert number(r"^([0-9]+) servers? of Redis", said) == (redis_server() is not None)
    assert number(r" ([0-9]+) clients missing", said) >= (fault == "leaf")
    assert (number(r"^([0-9]+) times a job registered", said) > 0) is (fault == "store-lost")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("traced", [False, True], ids=["always there", "as a trace says"])
def test_clients_that_are_processes_of_their_own_learn_for_two_jobs(tmp_path, traced):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    run = LearningRun(clients=24, rounds=3, demand=5, needed=4)
    if traced:
        run = replace(run, clients=48, seed=7, speedup=1200.0, start=6 * 3_600_000, patience=5.0)
    said = output_of(tmp_path, "clients_program", run.text_for(0, 5), ranks=5)
    assert said.count("off by 0.0000 millionths") == 2
    assert "\n6 rounds ended" in said
    started, most = re.search(
        r"^([0-9]+) client processes .*, ([0-9]+) at once", said, re.M
    ).groups()
    assert (int(started), int(most)) == (24, 24) or traced
    assert int(started) >= 16
    assert number(r"^([0-9]+) tasks", said) >= 6 * run.needed - 10 * traced
