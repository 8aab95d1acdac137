"""Records of jobs and clients as JSON, as stores keep them; `members` of a job are kept apart."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from testbed.tenancy.attributes import Constraints
from testbed.tenancy.clients import Client
from testbed.tenancy.jobs import Job, Phase
from testbed.tenancy.members import Members
from testbed.tenancy.requests import LastRound


def job_fields(job: Job) -> dict[str, str]:
    """Return a job's record without its members, field by field, each as text."""
    last = job.last and [job.last.scheduling, job.last.response, _finite(job.last.slowest)]
    return {
        "id": job.id,
        "public": json.dumps(job.public),
        "private": json.dumps(job.private),
        "rounds": str(job.rounds),
        "registered": repr(job.registered),
        "heard": repr(job.heard),
        "draw": repr(job.draw),
        "phase": str(job.phase),
        "round": str(job.round),
        "demand": str(job.demand),
        "round_draw": repr(job.round_draw),
        "requested": repr(job.requested),
        "filled": "" if job.filled is None else repr(job.filled),
        "slowest": "" if job.slowest == math.inf else repr(job.slowest),
        "last": json.dumps(last),
    }


def job_of(fields: Mapping[str, str], members: Iterable[str]) -> Job:
    """Return the job of a record."""
    last = json.loads(fields["last"])
    return Job(
        id=fields["id"],
        public=_constraints(fields["public"]),
        private=_constraints(fields["private"]),
        rounds=int(fields["rounds"]),
        registered=float(fields["registered"]),
        heard=float(fields["heard"]),
        draw=float(fields["draw"]),
        phase=Phase(fields["phase"]),
        round=int(fields["round"]),
        demand=int(fields["demand"]),
        members=Members(members),
        round_draw=float(fields["round_draw"]),
        requested=float(fields["requested"]),
        filled=float(fields["filled"]) if fields["filled"] else None,
        slowest=float(fields["slowest"] or math.inf),
        last=None if last is None else LastRound(last[0], last[1], _maybe_infinite(last[2])),
    )


def client_fields(client: Client) -> dict[str, str]:
    """Return a client's record field by field, each as text."""
    return {
        "id": client.id,
        "attributes": json.dumps(dict(client.attributes)),
        "speed": repr(client.speed),
        "heard": repr(client.heard),
        "job": client.job,
        "round": str(client.round),
    }


def client_of(fields: Mapping[str, str]) -> Client:
    """Return the client of a record."""
    return Client(
        fields["id"],
        json.loads(fields["attributes"]),
        float(fields["speed"]),
        float(fields["heard"]),
        fields["job"],
        int(fields["round"]),
    )


def _constraints(text: str) -> Constraints:
    rows: list[Any] = json.loads(text)
    return tuple((name, float(least)) for name, least in rows)


def _finite(value: float) -> float | None:
    return None if value == math.inf else value


def _maybe_infinite(value: float | None) -> float:
    return math.inf if value is None else value
