"""Check whether every instrument and host of a lab answers, with a remedy for each problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from testbed.bench.contracts import Identity, no_transcript
from testbed.bench.health import troubles_of_host, troubles_of_light
from testbed.bench.host import BenchHost
from testbed.bench.identities import of_instrument
from testbed.bench.instrument_factory import make_instrument, opening_seconds
from testbed.clock import Deadline
from testbed.errors import LabError, NotKnown, TestbedError
from testbed.fabric.circuits import wired_ends
from testbed.fabric.device import Capabilities, spans
from testbed.schema import Host, Lab, avoided
from testbed.units import counted

_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with the remedy when it failed."""

    subject: str
    good: bool
    text: str


def examine(lab: Lab) -> list[Finding]:
    """Query the identity of every instrument and host of a lab, in parallel, ten seconds each.

    No circuit, outlet or address is changed.
    """
    questions = {name: partial(_ask_instrument, lab, name) for name in lab.instruments()}
    questions |= {name: partial(_ask_host, name, host) for name, host in lab.hosts.items()}
    with ThreadPoolExecutor(len(questions)) as pool:
        found = pool.map(_findings, questions, questions.values())
        set_aside = [
            Finding(entry.what, True, f"in quarantine until {entry.until}: {entry.reason}")
            for entry in lab.quarantine
        ]
        return [*chain.from_iterable(found), *set_aside]


def _findings(subject: str, question: Callable[[], list[str]]) -> list[Finding]:
    """Return the answer to a question as a finding, and then each of its troubles."""
    try:
        answer, *troubles = question()
    except TestbedError as error:
        return [Finding(subject, False, str(error).removeprefix(f"{subject}: "))]
    return [Finding(subject, True, answer), *(Finding(subject, False, one) for one in troubles)]


def _ask_instrument(lab: Lab, name: str) -> list[str]:
    instrument: Any = make_instrument(lab, name, no_transcript)
    deadline = Deadline.after(opening_seconds(lab, [name], _LIMIT))
    try:
        identity: Identity = instrument.open(deadline)
        known = str(identity)
        if not of_instrument(lab, name, identity):
            known += "; it has no serial number of its own, so it is leased by its address alone"
        answer = "; ".join([known, *_light(lab, name, instrument, deadline)])
        if name not in lab.switches:
            return [answer]
        hosts = lab.hosts.keys() - avoided(lab).keys()
        return [answer, *troubles_of_light(lab, name, instrument, hosts, deadline)]
    finally:
        instrument.close()


def _light(lab: Lab, name: str, instrument: Any, deadline: Deadline) -> Iterator[str]:
    """Yield what an instrument does to light, or measures of it."""
    if name in lab.switches:
        _check_fibres(lab, name, instrument.capabilities)
        try:
            yield counted(len(instrument.state(deadline)), "cross-connect")
        except NotKnown:
            yield "its cross-connects are not known, as it cannot be asked"
    elif name in lab.attenuators:
        for channel, fibre in lab.attenuators[name].fibres.items():
            shut = "" if instrument.is_open(channel, deadline) else ", shutter closed"
            yield f"{fibre}: {instrument.attenuation(channel, deadline):.1f} dB{shut}"
    elif name in lab.meters:
        for channel, fibre in lab.meters[name].taps.items():
            reading = instrument.power(channel, deadline)
            yield f"{fibre}: {reading} at {instrument.wavelength(channel, deadline):.0f} nm"


def _check_fibres(lab: Lab, name: str, can: Capabilities) -> None:
    """Raise LabError for a fibre of the lab file at a port that the switch does not have."""
    for port, fibres in wired_ends(lab.wiring(), lab.fibre_pairs().values()):
        both = can.ingress | can.egress if fibres.is_bidi else frozenset[int]()
        into = "sends into", fibres.tx, "enters", can.ingress | both
        out_of = "receives from", fibres.rx, "leaves", can.egress | both
        for does, end, way, there in (into, out_of):
            if end.switch == name and end.number not in there:
                raise LabError(
                    f"{name}: {port} {does} {end}, but light {way} this switch at {spans(there)}",
                    hint="correct the lab file, or an option that says how large the switch is",
                )


def _ask_host(name: str, spec: Host) -> list[str]:
    host = BenchHost(name, spec, _ignore, Deadline.after(_LIMIT))
    facts, troubles = host.facts, list(troubles_of_host(host.facts))
    sets_ports = spec.privilege == "sudo" and spec.network == "managed"
    if sets_ports and (why := host.why_sudo_fails(Deadline.after(_LIMIT))):
        troubles.append(
            f"its ports cannot be set up: {why}; let that user run `ip` by `sudo -n` without a "
            "password (sudoers: NOPASSWD), or write `network: existing`"
        )
    host.clean_up(Deadline.after(_LIMIT))
    answer = f"Python {facts['python']}, NumPy {facts['numpy']}, Linux {facts['kernel']}"
    return [answer, *troubles]


def _ignore(host: str, message: Mapping[str, Any], received: float) -> None:
    """Ignore events: no rank runs."""
