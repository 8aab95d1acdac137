"""Clients as processes: each its own, killed where it is, and never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.propius.client_processes import ClientProcesses
from testbed.propius.task_counts import Field

PATIENCE = 30.0


def work(client, counts):
    """Be in a round for ever; say by the counts who does it."""
    counts.begin()
    counts.push(1, overran=client == 1)
    counts.row[Field.CODES] = os.getpid()
    time.sleep(PATIENCE)


def wait_until(is_so):
    deadline = Deadline.after(PATIENCE)
    while not is_so():
        assert not deadline.passed
        time.sleep(0.01)


def test_each_client_is_a_process_and_what_it_counted_outlives_it():
    them = ClientProcesses(3, work)
    for client in range(3):
        them.start(client)
    wait_until(lambda: them.rows[:, Field.CODES].all())
    assert len({os.getpid(), *them.rows[:, Field.CODES]}) == 4
    them.end(1)
    assert sorted(them.here) == [0, 2]
    them.start(1)
    wait_until(lambda: them.rows[1, Field.TASKS] == 2)
    them.close()
    assert (them.started, them.most, them.here) == (4, 3, [])
    assert them.rows[:, Field.VANISHED].tolist() == [0, 1, 0]
    assert them.rows[:, Field.OVERRAN].tolist() == [0, 2, 0]
    assert them.rows[:, Field.CODES + 1].tolist() == [1, 2, 1]
    assert (them.rows[:, Field.WORKED] > 0).all() and not them.rows[:, Field.SINCE].any()


def test_a_process_that_ends_by_itself_is_said_with_its_code(capfd):
    def fail(client, counts):
        raise ValueError("no such leaf")

    them = ClientProcesses(1, fail)
    them.start(0)
    wait_until(lambda: "ValueError: no such leaf" in capfd.readouterr().err)
    with pytest.raises(LabError, match=r"the process of client 0 ended by itself with code 1"):
        while True:
            them.check()
            time.sleep(0.01)
    them.close()


PARENT = """
import os, time
from testbed.propius.client_processes import ClientProcesses

them = ClientProcesses(2, lambda client, counts: time.sleep(60))
for client in range(2):
    them.start(client)
print(*them._ids.values(), flush=True)
time.sleep(60)
"""


def is_running(id):
    try:
        return Path(f"/proc/{id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_processes_end_with_the_one_that_forked_them():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    ids = [int(word) for word in parent.stdout.readline().split()]
    assert len(ids) == 2 and all(map(is_running, ids))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not any(map(is_running, ids)))
