"""Whether everything in a lab answers, and what to do about what does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from testbed.bench.host import BenchHost
from testbed.clock import Deadline
from testbed.errors import TestbedError
from testbed.plugins import kind
from testbed.schema import Host, Lab, PowerUnit, Switch

_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is, and what to do when it is not good."""

    subject: str
    good: bool
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return asdict(self)


def examine(lab: Lab) -> list[Finding]:
    """Ask every instrument and host of a lab who it is, side by side, each with ten seconds.

    Changes nothing: no circuit, no outlet, no address.
    """
    questions: dict[str, Callable[[], str]] = {}
    for name, switch in lab.switches.items():
        questions[name] = partial(_ask_switch, name, switch)
    for name, unit in lab.power.items():
        questions[name] = partial(_ask_power, name, unit)
    for name, host in lab.hosts.items():
        questions[name] = partial(_ask_host, name, host)
    with ThreadPoolExecutor(len(questions)) as pool:
        return list(pool.map(_finding, questions, questions.values()))


def _finding(subject: str, question: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, True, question())
    except TestbedError as error:
        return Finding(subject, False, str(error).removeprefix(f"{subject}: "))


def _ask_switch(name: str, spec: Switch) -> str:
    make = kind("drivers", spec.driver).load()
    switch = make(name, spec.resource, spec.ports, spec.identity, spec.options, _no_tracer)
    try:
        identity = switch.open(Deadline.after(_LIMIT))
        return f"{identity}; {len(switch.state(Deadline.after(_LIMIT)))} cross-connects"
    finally:
        switch.close()


def _ask_power(name: str, spec: PowerUnit) -> str:
    make = kind("drivers", spec.driver).load()
    unit = make(name, spec.resource, spec.identity, spec.options, _no_tracer)
    try:
        return str(unit.open(Deadline.after(_LIMIT)))
    finally:
        unit.close()


def _ask_host(name: str, spec: Host) -> str:
    host = BenchHost(name, spec, _no_listener, Deadline.after(_LIMIT))
    facts = host.facts
    host.leave(Deadline.after(_LIMIT))
    return f"Python {facts['python']}, NumPy {facts['numpy']}, Linux {facts['kernel']}"


def _no_tracer(direction: str, data: bytes) -> None:
    """Keep no transcript: nothing here belongs to a run."""


def _no_listener(host: str, message: Mapping[str, Any], received: float) -> None:
    """Hear nothing: no rank runs."""
