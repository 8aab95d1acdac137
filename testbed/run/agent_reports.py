"""Reports of agents, translated into events for the record and observations for a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.control import protocol
from testbed.events import Event
from testbed.fabric.circuits import HostPort
from testbed.record.log import EventLog
from testbed.run.inbox import Report
from testbed.run.running_job import RunningJob

_FROM_RANK = {
    "ready": "rank.ready",
    "left": "rank.left",
    "generation": "generation",
    "restored": "state.restored",
    "probe": "link.probe",
    "step": "step",
    "sample": "sample",
    "circuits": "circuits.asked",
    "program.begin": "program.begin",
    "program.end": "program.end",
    "done": "job.done",
}


def record(report: Report, rank: int | None, log: EventLog) -> Event | None:
    """Write a report to the event log and return the event; its own stamp is the host's.

    The output of a program is not recorded as events; it goes to logs/.
    """
    message = dict(report.message)
    event = message.pop("event")
    subject = report.host if rank is None else f"rank {rank}"
    stamp = {"host": report.host, "rank": rank}
    if event == "rank":
        said = dict(message["said"])
        name = said.pop("event")
        if name == "output":
            return None
        if name in _FROM_RANK:
            return log.append(_FROM_RANK[name], subject, at=report.received, **stamp, **said)
        return log.append("symptom", subject, at=report.received, source=name, **stamp, **said)
    if event == "lost":
        return log.append("host.lost", report.host, at=report.received, reason=message["reason"])
    if event == "exit":
        return log.append("rank.exit", subject, at=report.received, **stamp, **message)
    return log.append("symptom", subject, at=report.received, source=event, **stamp, **message)


def observation(report: Report, job: RunningJob) -> protocol.Observation | None:
    """Return what a report means to a policy, or None when it means nothing."""
    message, host = report.message, report.host
    rank = job.rank_of(host)
    match message["event"]:
        case "carrier" if not message["up"]:
            return protocol.CarrierLost(HostPort(host, message["port"]))
        case "lost":
            return protocol.AgentLost(host)
        case "exit" if rank is not None:
            return protocol.RankEnded(rank, message["code"])
        case "heartbeat-missed" if rank is not None:
            return protocol.HeartbeatMissed(rank)
        case "rank" if rank is not None:
            return _of_rank(message["said"], host, rank, job)
    return None


def _of_rank(
    said: Mapping[str, Any], host: str, rank: int, job: RunningJob
) -> protocol.Observation | None:
    match said["event"]:
        case "left" if said["committed"] is not None:
            return protocol.RankLeft(rank, said["committed"])
        case "ready":
            return protocol.SpareReady(host)
        case "step" | "sample" if said["generation"] == job.generation:
            return protocol.StepDone(rank, said["step"])
        case "corrupt" | "refused":
            return protocol.ValuesCorrupt(rank, said["why"])
    return None
