"""Translate reports of agents into events for the log and observations for a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.analysis.clocks import Clocks
from testbed.control import protocol
from testbed.events import Event
from testbed.fabric.circuits import HostPort
from testbed.rails.stage import Stage
from testbed.record.log import EventLog
from testbed.run.inbox import Report
from testbed.run.running_job import RunningJob
from testbed.run.step_record import StepRecord

_KINDS = {
    "ready": "rank.ready",
    "left": "rank.left",
    "generation": "generation",
    "restored": "state.restored",
    "probe": "link.probe",
    "step": "step",
    "sample": "sample",
    "operations": "operations",
    "reach": "reach",
    "circuits": "circuits.asked",
    "group-joined": "group.joined",
    "stage-reached": "stage.reached",
    "stage-left": "stage.left",
    "checkpoint": "checkpoint",
    "checkpoint-missed": "checkpoint.missed",
    "checkpoints": "checkpoints",
    "program.begin": "program.begin",
    "program.end": "program.end",
    "done": "job.done",
    "exit": "rank.exit",
}


def record(report: Report, rank: int | None, log: EventLog | StepRecord) -> Event | None:
    """Write an agent's report to the event log, with its own time stamp, and return the event.

    The output of a program is not recorded as events; it goes to logs/.
    """
    host, at = report.host, report.received
    if report.message["event"] == "lost":
        return log.append_data("host.lost", host, at, {"reason": report.message["reason"]})
    said = report.said or report.message
    source = said["event"]
    if source == "output":
        return None
    subject = host if rank is None else f"rank {rank}"
    known = {"host": host, "rank": rank}
    if source not in _KINDS:
        known = {"source": source, **known}
    data = {**known, **said, **known}  # the first for their order, the last for their values
    del data["event"]
    return log.append_data(_KINDS.get(source, "symptom"), subject, at, data)


def observation(report: Report, job: RunningJob) -> protocol.Observation | None:
    """Return the observation that a report is to a policy, or None if it is none."""
    host, rank = report.host, job.rank_in(report)
    said = report.said or report.message
    match said["event"]:
        case "carrier" if not said["up"]:
            return protocol.CarrierLost(HostPort(host, said["port"]))
        case "carrier":
            return protocol.CarrierFound(HostPort(host, said["port"]))
        case "lost":
            return protocol.AgentLost(host)
    if rank is None:
        return None
    match said["event"]:
        case "exit":
            return protocol.RankEnded(rank, said["code"])
        case "heartbeat-missed":
            return protocol.HeartbeatMissed(rank)
        case "left" if said["committed"] is not None and said["generation"] == job.generation:
            return protocol.RankLeft(rank, said["committed"])
        case "ready":
            return protocol.SpareReady(host)
        case "step" | "sample" | "reach" if said["generation"] == job.generation:
            return protocol.StepDone(rank, said["step"])
        case "circuits":
            which = (said["generation"], said["number"], said["circuits"])
            return protocol.CircuitsAsked(rank, *which, frozenset(said["of"]))
        case "group-joined" | "stage-reached" | "stage-left":
            return on_rails(rank, said) if said["generation"] == job.generation else None
        case "checkpoint":
            return protocol.CheckpointWritten(rank, said["step"])
        case "checkpoint-missed":
            return protocol.CheckpointMissed(rank, said["step"], said["why"])
        case "checkpoints":
            return protocol.CheckpointsFound(rank, tuple(said["steps"]))
        case "corrupt" | "refused":
            return protocol.ValuesCorrupt(rank, said["why"])
    return None


def on_rails(rank: int, said: Mapping[str, Any]) -> protocol.Observation:
    """Return the observation of what a rank says of its groups and their stages."""
    match said["event"]:
        case "group-joined":
            return protocol.GroupJoined(rank, said["group"])
        case "stage-reached":
            return protocol.StageReached(rank, _stage(said["stage"]))
    following = said.get("following")
    return protocol.StageLeft(rank, following and _stage(following))


def _stage(said: Sequence[Any]) -> Stage:
    group, number, ranks, place = said
    return Stage(group, number, tuple(ranks), place)


def timed_step(step: Event, clocks: Clocks) -> protocol.StepTimed:
    """Return the observation of when a rank that reports a step entered its collective."""
    data = step.data
    which = data["rank"], data["generation"], data["step"], data["choice"]
    entered, end = (clocks.instant(step, at) for at in (data["collective"][0], data["end"]))
    return protocol.StepTimed(*which, entered, end)
