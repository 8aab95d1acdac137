"""Runs whose every number is known by arithmetic, made without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.analysis.checks import CheckResult
from testbed.analysis.clocks import Instant
from testbed.analysis.marks import Marks
from testbed.analysis.metrics import metrics
from testbed.analysis.rail_monitor import Monitored, Removal, RemovedCircuits
from testbed.analysis.summary import Summary
from testbed.analysis.trial import TrialResult
from testbed.fabric.circuits import Circuit, CrossConnect, HostPort
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import (
    FaultPlan,
    Light,
    OpenHosts,
    OpenInstruments,
    ProgramCircuits,
    Restore,
    RunTrial,
    StartJob,
)

ZERO = 100.0
"""When every fault strikes, in the log's seconds."""

SPLICE = {
    "t0": 0.0, "t1": 0.01, "t2": 0.02, "t3": 0.03, "t4": 0.035, "t5": 0.04, "t6": 0.08,
    "t7": 0.05, "t8": 0.2, "t9": 0.3, "t10": 0.5, "t11": 0.9,
}  # fmt: skip
"""The marks of a recovery that takes half a second; its spare is ready 20 ms before t8."""


def marks(at: Mapping[str, float]) -> Marks:
    """Return marks that are known exactly, given in seconds after the fault."""
    return Marks({name: Instant.exactly(ZERO + t) for name, t in at.items()})


def recovery(number: int, arm: str = "warm", longer: float = 0.0, **changes: Any) -> TrialResult:
    """Return a trial that recovered; its first step took `longer` than SPLICE's."""
    at = SPLICE | {"t10": 0.5 + longer, "t11": 0.9 + longer}
    values = {
        "recovery_time": at["t10"],
        "fabric_ready": at["t6"],
        "return_to_service": at["t11"],
        "joining": 0.02,
    }
    return trial(number, arm, marks=marks(at), response="recovered", values=values, **changes)


def lost(number: int, arm: str = "warm") -> TrialResult:
    """Return a trial whose job never came back."""
    at = {name: SPLICE[name] for name in ("t0", "t1", "t2")}
    why = "not recovered within 60 s"
    return trial(
        number, arm, marks=marks(at), response="not recovered", reason=why, lost_steps=None
    )


def unrepaired(number: int, response: str, arm: str = "warm", dip: float = 0.002) -> TrialResult:
    """Return a trial whose fault no policy repaired, and of which no recovery time is known."""
    at = {name: SPLICE[name] for name in ("t0", "t1")}
    return trial(number, arm, marks=marks(at), response=response, values={"dip": dip})


def trial(number: int, arm: str = "warm", **changes: Any) -> TrialResult:
    """Return a valid trial without a fault, but for what is changed."""
    usual = {
        "valid": True,
        "response": None,
        "reason": "",
        "values": {},
        "predicted": {},
        "marks": None,
        "lost_steps": 0 if "marks" in changes else None,
        "receipt": None,
        "witnesses": {},
    }
    return TrialResult(number, arm, **usual | changes)


def summary(*trials: TrialResult, checks: tuple[CheckResult, ...] = (), **changes: Any) -> Summary:
    """Return the summary of a run that passed, but for what is changed."""
    usual = {
        "run": "20260101T000000Z-lumion-0a1b2c",
        "experiment": "lumion",
        "lab": "rack",
        "label": "measured-twin",
        "seed": 7,
        "outcome": "passed",
        "reason": f"{len(trials)} of {len(trials)} trials are valid",
        "cleanup": "verified",
        "left": (),
        "exit_code": 0,
    }
    return Summary(trials=trials, metrics=metrics(trials), checks=checks, **usual | changes)


def _light() -> tuple[Light, ...]:
    a, b = HostPort("h0", "p1"), HostPort("h1", "p0")
    return (
        Light(CrossConnect("ocs", 2, 19), a, b),
        Light(CrossConnect("ocs", 3, 18), b, a),
    )


def plan(*, trials: int = 2, keep: bool = False) -> Plan:
    """Return the plan of a ring of four hosts, each trial cutting the power of rank 1."""
    circuits = tuple(Circuit.parse(f"h{i}.p1", f"h{(i + 1) % 4}.p0") for i in range(4))
    fault = FaultPlan("power-cut", rank=1, step=8, phase=0.25, hold=None)
    return Plan(
        "lumion",
        "rack",
        7,
        (
            OpenInstruments(("ocs",), ("pdu",)),
            OpenHosts(("h0", "h1", "h2", "h3", "h4")),
            ProgramCircuits(circuits, _light()),
            StartJob("main", "train", ("h0", "h1", "h2", "h3"), ("h4",)),
            *(RunTrial(n, ("warm", "cold")[n % 2], (fault,)) for n in range(trials)),
            Restore(keep),
        ),
    )


def removed(*, under_traffic: bool = False, judged: bool = True) -> RemovedCircuits:
    """Return what was seen of two circuits that went in trial 0."""
    circuit = "h0.p0–h1.p0"
    found = (Removal(circuit, 1.5, 12, 14, (0, 1), "stage 3 of dp0"),) if under_traffic else ()
    why = () if judged else (f"{circuit} at 1.500000 s: the clock of h0 was not measured",)
    return RemovedCircuits({0: Monitored(found, 2, why, 0, 4)})
