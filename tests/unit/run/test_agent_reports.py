"""What agents report, as events for the record and as observations for a policy."""

import math

import pytest

from testbed.control.protocol import (
    AgentLost,
    CarrierFound,
    CarrierLost,
    CheckpointMissed,
    CheckpointsFound,
    CheckpointWritten,
    HeartbeatMissed,
    RankEnded,
    RankLeft,
    SpareReady,
    StepDone,
    ValuesCorrupt,
)
from testbed.events.kinds import KINDS
from testbed.events.origin import Origin, attributed
from testbed.fabric.circuits import HostPort
from testbed.record.log import read_events
from testbed.run.agent_reports import observation, record
from testbed.run.inbox import Report

STEP = {"event": "step", "mono": 5.0, "generation": 1, "step": 7, "verified": True}
WORDS = {
    "ready": ("rank.ready", {"event": "ready", "address": "10.0.0.1", "port": 4242}),
    "left": ("rank.left", {"event": "left", "generation": 1, "committed": 7, "started": True}),
    "generation": ("generation", {"event": "generation", "generation": 2}),
    "restored": ("state.restored", {"event": "restored", "generation": 2, "step": 7}),
    "probe": ("link.probe", {"event": "probe", "long_bytes": 10, "long_seconds": 0.1}),
    "step": ("step", STEP),
    "sample": ("sample", STEP | {"event": "sample", "size": 4096}),
    "done": ("job.done", {"event": "done", "digest": "abc"}),
    "peer-lost": ("symptom", {"event": "peer-lost", "neighbour": "next", "error": "reset"}),
    "corrupt": ("symptom", {"event": "corrupt", "why": "a sentinel"}),
    "refused": ("symptom", {"event": "refused", "do": "join", "why": "no place"}),
    "failed": ("symptom", {"event": "failed", "why": "MemoryError"}),
}
"""Everything that a rank can say, and the event that it becomes."""


def of_rank(said, host="h1"):
    return Report(host, {"event": "rank", "slot": 0, "said": {"mono": 5.0} | said}, 100.5)


@pytest.fixture
def recorded(log, tmp_path):
    """Record one report and return the event that was written."""

    def one(report, rank):
        record(report, rank, log)
        return list(read_events(tmp_path / "log.jsonl"))[-1]

    return one


@pytest.mark.parametrize("word", WORDS)
def test_a_report_of_a_rank_is_recorded_with_its_hosts_stamp_and_all_its_data(recorded, log, word):
    kind, said = WORDS[word]
    event = recorded(of_rank(said), 1)
    assert (event.kind, event.subject) == (kind, "rank 1")
    assert event.t == log.at(100.5)
    told = {key: value for key, value in said.items() if key != "event"}
    assert event.data.items() >= {"host": "h1", "rank": 1, "mono": 5.0, **told}.items()
    assert event.data.get("source") == (word if kind == "symptom" else None)
    assert "event" not in event.data


def test_a_report_of_a_step_is_one_line_of_json_that_names_host_and_rank_first(log, tmp_path):
    log.started, log.trial = 0.5, 3
    said = STEP | {"collective": [4.25, 1e-07], "loss": math.inf, "why": "é \udc80", "host": "h7"}
    with attributed(Origin("main", cause=0)):
        record(of_rank(said), 1, log)
    assert (tmp_path / "log.jsonl").read_bytes().decode() == (
        '{"seq":0,"t":100.0,"kind":"step","subject":"rank 1","trial":3,"job":"main","cause":0,'
        '"data":{"host":"h1","rank":1,"mono":5.0,"generation":1,"step":7,"verified":true,'
        '"collective":[4.25,1e-07],"loss":null,"why":"é \\udc80"}}\n'
    )


def test_a_report_of_a_spare_is_recorded_under_its_host(recorded):
    event = recorded(of_rank(WORDS["ready"][1], "h2"), None)
    assert (event.subject, event.data["rank"]) == ("h2", None)


def test_the_end_of_a_rank_is_recorded_with_its_exit_code(recorded):
    event = recorded(Report("h1", {"event": "exit", "mono": 5.0, "slot": 0, "code": -9}, 1.0), 1)
    assert (event.kind, event.subject) == ("rank.exit", "rank 1")
    assert event.data == {"host": "h1", "rank": 1, "mono": 5.0, "slot": 0, "code": -9}


def test_the_loss_of_an_agent_is_written_with_its_reason(recorded):
    event = recorded(Report("h1", {"event": "lost", "reason": "it said nothing for 10 s"}, 1.0), 1)
    assert (event.kind, event.subject) == ("host.lost", "h1")
    assert event.data == {"reason": "it said nothing for 10 s"}


@pytest.mark.parametrize(
    "message",
    [
        {"event": "carrier", "mono": 5.0, "port": "p0", "up": False},
        {"event": "heartbeat-missed", "mono": 5.0, "slot": 0, "silence": 0.21},
    ],
)
def test_a_failure_observed_by_an_agent_is_recorded_as_a_symptom(recorded, message):
    event = recorded(Report("h1", message, 1.0), 1)
    noticed = {key: value for key, value in message.items() if key != "event"}
    assert event.kind == "symptom"
    assert event.data == {"source": message["event"], "host": "h1", "rank": 1, **noticed}


def test_every_report_becomes_an_event_of_a_known_kind():
    assert {kind for kind, _ in WORDS.values()} <= KINDS.keys()


@pytest.mark.parametrize(
    ("report", "seen"),
    [
        (
            Report("h1", {"event": "carrier", "port": "p0", "up": False}, 0.0),
            CarrierLost(HostPort("h1", "p0")),
        ),
        (
            Report("h2", {"event": "carrier", "port": "p0", "up": False}, 0.0),
            CarrierLost(HostPort("h2", "p0")),
        ),
        (
            Report("h1", {"event": "carrier", "port": "p0", "up": True}, 0.0),
            CarrierFound(HostPort("h1", "p0")),
        ),
        (Report("h1", {"event": "lost", "reason": ""}, 0.0), AgentLost("h1")),
        (Report("h2", {"event": "lost", "reason": ""}, 0.0), AgentLost("h2")),
        (Report("h1", {"event": "exit", "slot": 0, "code": -9}, 0.0), RankEnded(1, -9)),
        (Report("h2", {"event": "exit", "slot": 0, "code": -9}, 0.0), None),
        (Report("h1", {"event": "heartbeat-missed", "slot": 0}, 0.0), HeartbeatMissed(1)),
        (Report("h2", {"event": "heartbeat-missed", "slot": 0}, 0.0), None),
        (of_rank(WORDS["ready"][1]), SpareReady("h1")),
        (of_rank(WORDS["ready"][1], "h2"), None),
        (of_rank(WORDS["left"][1]), RankLeft(1, 7)),
        (of_rank(WORDS["left"][1] | {"committed": None}), None),
        (of_rank(STEP), StepDone(1, 7)),
        (of_rank(STEP, "h2"), None),
        (of_rank(STEP | {"generation": 0}), None),
        (of_rank(STEP | {"generation": 2}), None),
        (of_rank({"event": "checkpoint", "step": 20}), CheckpointWritten(1, 20)),
        (of_rank({"event": "checkpoint", "step": 20}, "h2"), None),
        (of_rank({"event": "checkpoints", "steps": [9, 6]}), CheckpointsFound(1, (9, 6))),
        (
            of_rank({"event": "checkpoint-missed", "step": 20, "why": "late"}),
            CheckpointMissed(1, 20, "late"),
        ),
        (of_rank(WORDS["corrupt"][1]), ValuesCorrupt(1, "a sentinel")),
        (of_rank(WORDS["refused"][1]), ValuesCorrupt(1, "no place")),
        (of_rank(WORDS["failed"][1]), None),
        (of_rank(WORDS["peer-lost"][1]), None),
        (of_rank(WORDS["generation"][1]), None),
        (of_rank(WORDS["done"][1]), None),
    ],
)
def test_a_policy_gets_only_reports_about_its_job(job, report, seen):
    job.generation = 1
    assert observation(report, job) == seen


def test_a_report_is_attributed_to_the_present_rank_of_its_host(job):
    exit_of_h2 = Report("h2", {"event": "exit", "slot": 0, "code": 1}, 0.0)
    job.members.replace(0, "h2")
    assert observation(exit_of_h2, job) == RankEnded(0, 1)
    assert observation(Report("h0", {"event": "exit", "slot": 0, "code": 1}, 0.0), job) is None
