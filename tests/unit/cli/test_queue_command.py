"""The command `queue`, as everybody types it, while experiments wait."""

import json
import re
import time
from contextlib import ExitStack

import pytest

from testbed.bench.lease_resources import named
from testbed.cli import run as command_line
from testbed.record import lease_store, locks
from testbed.record.lab_queue import Cancelled, LabQueue, QueueRequest
from testbed.record.queue_place import QueuePlace
from testbed.schema import load_lab

LAB = """\
lab: small
hosts: {h0: {ssh: 192.0.2.20}}
switches: {ocs: {driver: polatis, resource: "tcp://192.0.2.10:5025", ports: [1-16]}}
queue: fifo
"""


class Shared:
    """A lab whose queue is on a machine of its own, and the places in it."""

    def __init__(self, file, stack):
        self.file = str(file)
        self.lab = load_lab(file, [])
        self._stack = stack
        self.clock = time.time

    def enter(self, reason, *parts, user="ann"):
        request = QueueRequest(self.lab.queue, 600.0, 1, f"testbed run {reason} --queue")
        queue = LabQueue(lease_store.FileStore(clock=self.clock), lab="small")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOGNAME", user)
            place = QueuePlace(queue, named(self.lab, parts), reason, request)
        self._stack.callback(place.leave)
        return place

    def started(self, *arguments):
        lease = self.enter(*arguments).start()
        self._stack.callback(lease.release)
        return lease


@pytest.fixture
def shared(tmp_path, monkeypatch):
    for module in (locks, lease_store):
        monkeypatch.setattr(module, "SHARED", tmp_path / "shared")
    monkeypatch.setenv("LOGNAME", "ann")
    (tmp_path / "lab.yaml").write_text(LAB)
    with ExitStack() as stack:
        yield Shared(tmp_path / "lab.yaml", stack)


def typed(capsys, *words, code=0):
    assert command_line(["queue", *words]) == code
    printed = capsys.readouterr()
    return printed.out if code == 0 else printed.err


def rows(capsys):
    return json.loads(typed(capsys, "--json"))


def test_the_queue_shows_what_runs_what_waits_and_for_what(shared, capsys):
    assert typed(capsys) == "the queue is empty\n"
    shared.started("runs", "ocs.1", "ocs.2", "h0")
    shared.enter("wide", "ocs.2-4")
    shared.enter("behind", "ocs.4", user="bob")
    lines = typed(capsys, "--lab", shared.file).splitlines()
    assert re.fullmatch(r"runs    [0-9a-f]{6} runs of ann for .* of about 10 min", lines[0])
    assert re.fullmatch(r"1       [0-9a-f]{6} wide of ann for .*", lines[1])
    assert lines[2] == "        needs ocs.2-4"
    assert re.fullmatch(r"        waits: ocs\.2: held by ann in lab small .*: runs", lines[3])
    assert re.fullmatch(r"2       [0-9a-f]{6} behind of bob for .*", lines[4])
    found = rows(capsys)
    assert [(one["state"], one.get("position")) for one in found] == [
        ("running", None),
        ("waiting", 1),
        ("waiting", 2),
    ]
    assert found[1]["resources"] == ["ocs.2-4"] and found[1]["policy"] == "fifo"
    assert found[2]["waits_for"].startswith("free, and kept for ")


def test_entries_are_moved_and_cancelled_by_the_beginning_of_their_names(shared, capsys):
    shared.started("runs", "ocs")
    places = {name: shared.enter(name, "ocs.1") for name in ("one", "two", "three")}
    shared.enter("bobs", "ocs.1", user="bob")
    name = {one["reason"]: one["name"] for one in rows(capsys)}

    def order(*words):
        typed(capsys, *words)
        return [one["reason"] for one in rows(capsys) if one["state"] == "waiting"]

    assert order("move", name["three"]) == ["three", "one", "two", "bobs"]
    assert order("move", name["three"], "--before", name["two"]) == ["one", "three", "two", "bobs"]
    assert order("move", name["one"], "--last") == ["three", "two", "bobs", "one"]
    for words in (["move", name["bobs"]], ["cancel", name["bobs"]]):
        assert "another user's; ask them, or say --force" in typed(capsys, *words, code=5)
    assert order("move", name["bobs"], "--force") == ["bobs", "three", "two", "one"]
    assert "moved first by ann" in typed(capsys)
    assert order("cancel", name["two"]) == ["bobs", "three", "one"]
    with pytest.raises(Cancelled, match="taken out of the queue by ann"):
        places["two"].start()
    assert "it is running" in typed(capsys, "cancel", name["runs"], code=5)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["move", "zz"], "no entry of the queue: 'zz'"),
        (["move", "zz", "--last", "--before", "yy"], "--before and --last are two places"),
        (["replay"], "no experiment of this queue has ended yet"),
        (["--json", "move", "zz"], "come after the word"),
    ],
)
def test_a_misused_queue_command_says_what_is_wrong(shared, capsys, words, complaint):
    assert complaint in typed(capsys, *words, code=2)


def test_an_interrupted_entry_is_shown_with_the_command_that_keeps_its_place(shared, capsys):
    shared.enter("gone", "ocs.1")._liveness.abandon()
    assert typed(capsys).endswith("its place is kept for: testbed run gone --queue\n")
    (row,) = rows(capsys)
    assert row["state"] == "interrupted"


def test_a_history_is_replayed_under_every_policy_or_one(shared, capsys):
    moment, places = [1000.0], []
    shared.clock = lambda: moment[0]
    for number, parts in enumerate(("ocs.1", "ocs.1", "ocs.1-3")):
        places.append(shared.enter(f"number-{number}", parts))
        moment[0] += 1.0
    for place, seconds in zip(places, (100.0, 10.0, 50.0), strict=True):
        lease = place.start()
        moment[0] += seconds
        lease.release()
    found = json.loads(typed(capsys, "replay", "--json"))
    # What happened began when all three were there; a replay begins with the first.
    assert found["happened"] == {
        "makespan": 163.0,
        "mean_wait": 72.0,
        "median_wait": 102.0,
        "longest_wait": 111.0,
    }
    assert found["policies"]["fifo"] == {
        "makespan": 160.0,
        "mean_wait": 69.0,
        "median_wait": 99.0,
        "longest_wait": 108.0,
    }
    assert found["label"] == "model" and found["experiments"] == 3
    assert set(found["policies"]) >= {"makespan", "fifo", "srsf", "irs", "random"}
    said = typed(capsys, "replay", "--policy", "makespan").splitlines()
    assert said[0] == "3 experiments; what happened is measured, the rest is a model"
    assert said[2].split() == ["happened", "3", "min", "72", "s", "2", "min", "2", "min"]
    assert said[-1].endswith("number-0 of ann: waited 3 s, would have waited 0 s")
    assert "unknown policy of a queue" in typed(capsys, "replay", "--policy", "fif", code=2)
