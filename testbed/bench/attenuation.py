"""Set attenuators (only code here does); each change's undo is journalled before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from testbed.bench.contracts import Attenuator, PowerMeter
from testbed.bench.permission import Guard
from testbed.clock import Deadline, now
from testbed.errors import TestbedError, UnsafeError, UsageError
from testbed.fabric.circuits import HostPort, SwitchPort, Wiring
from testbed.fabric.reading import Reading
from testbed.record.journal import Journal


@dataclass(frozen=True, slots=True)
class Attenuated:
    """A change of attenuation in dB, with its instants on this machine's monotonic clock."""

    fibre: SwitchPort
    before: float
    after: float
    commanded: float
    read_back: float


@dataclass(frozen=True, slots=True)
class _Undo:
    number: int
    before: float
    loss: float = 0.0
    """How much more than before the fibre takes, at the most that was asked for."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One channel of a power meter, which measures the light in one fibre."""

    name: str
    channel: int
    _meter: PowerMeter

    def __str__(self) -> str:
        return f"{self.name}.{self.channel}"

    def level(self, deadline: Deadline) -> Reading:
        """Measure the light in the fibre now."""
        return self._meter.power(self.channel, deadline)


@dataclass(slots=True, eq=False)
class Attenuation:
    """The attenuators and meters in the fibres of a lab."""

    _attenuators: Mapping[str, Attenuator]
    _through: Mapping[SwitchPort, tuple[str, int]]
    """The name and channel of each fibre's attenuator."""
    _meters: Mapping[str, PowerMeter]
    _tapped: Mapping[SwitchPort, tuple[str, int]]
    """The name and channel of each fibre's meter."""
    _wiring: Wiring
    _journal: Journal
    _permit: Guard
    """Asked immediately before each order."""
    _undos: dict[SwitchPort, _Undo] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def fibres(self, port: HostPort) -> tuple[SwitchPort, ...]:
        """Return the fibres of a host port that have an attenuator, the transmit fibre first."""
        ends = (self._wiring[port].tx, self._wiring[port].rx)
        return tuple(dict.fromkeys(end for end in ends if end in self._through))

    def meter(self, port: HostPort) -> Tap | None:
        """Return the power meter of the fibre that `add` attenuates; None where it has none."""
        fibre = next(iter(self.fibres(port)), None)
        if fibre is None or fibre not in self._tapped:
            return None
        name, channel = self._tapped[fibre]
        return Tap(name, channel, self._meters[name])

    def added(self, fibre: SwitchPort) -> float:
        """Return the attenuation in dB that was added to a fibre and not yet restored."""
        undo = self._undos.get(fibre)
        return undo.loss if undo else 0.0

    def add(
        self, port: HostPort, loss: float, deadline: Deadline, why: str = "attenuate"
    ) -> Attenuated:
        """Set the attenuation of a host port's fibre to `loss` dB above its original value.

        Raise UsageError where no fibre of the port has an attenuator or the lab does not permit
        `why`; BusyError unless it is still leased; InstrumentError when the read-back differs.
        """
        fibres = self.fibres(port)
        if not fibres:
            raise UsageError(
                f"no fibre of {port} runs through an attenuator",
                hint="list one under `attenuators:` in the lab file",
            )
        fibre = fibres[0]
        name, channel = self._through[fibre]
        attenuator = self._attenuators[name]
        with self._lock:
            if is_new := fibre not in self._undos:
                before = attenuator.attenuation(channel, deadline)
                number = self._journal.record_undo(
                    "attenuation", attenuator=name, channel=channel, decibels=before
                )
                self._undos[fibre] = _Undo(number, before)
            undo = self._undos[fibre]
            before = undo.before
            self._undos[fibre] = replace(undo, loss=max(loss, undo.loss))
        try:
            self._permit.attenuator(name, port.host, why)
        except TestbedError:
            if is_new:  # nothing was set
                self._settle(fibre)
            raise
        commanded = now()
        after = attenuator.attenuate(channel, before + loss, deadline)
        return Attenuated(fibre, before, after, commanded, now())

    def adopt_undo(self, undo: Mapping[str, Any]) -> SwitchPort:
        """Take over an open undo entry of a dead run, for `restore_all`; return the fibre.

        Raise UnsafeError when no fibre of the lab runs through that channel.
        """
        place = (undo["attenuator"], undo["channel"])
        for fibre, through in self._through.items():
            if through == place:
                self._undos[fibre] = _Undo(undo["id"], undo["decibels"])
                return fibre
        raise UnsafeError(
            f"no fibre of the lab runs through channel {place[1]} of {place[0]}",
            hint=f"set that channel to {undo['decibels']:g} dB by hand",
        )

    def restore(self, port: HostPort, deadline: Deadline) -> None:
        """Set the fibres of a host port to their original attenuation and verify the read-back.

        Do nothing when nothing was added. Raise UnsafeError when the read-back differs.
        """
        self._restore([fibre for fibre in self.fibres(port) if fibre in self._undos], deadline)

    def restore_all(self, deadline: Deadline) -> None:
        """Restore every fibre; an error at one fibre does not stop the others."""
        self._restore(list(self._undos), deadline)

    def _restore(self, fibres: Iterable[SwitchPort], deadline: Deadline) -> None:
        problems = [problem for fibre in fibres if (problem := self._put_back(fibre, deadline))]
        if problems:
            raise UnsafeError("; ".join(problems), hint="check the attenuator at its front panel")

    def _put_back(self, fibre: SwitchPort, deadline: Deadline) -> str:
        """Put one fibre's attenuation back; return what went wrong, or an empty string."""
        name, channel = self._through[fibre]
        undo = self._undos[fibre]
        what = f"{name} still takes light on channel {channel}, in the fibre of {fibre}"
        try:
            self._permit.attenuator(name)
            self._attenuators[name].attenuate(channel, undo.before, deadline)
        except TestbedError as error:
            return f"{what}: {error}"
        try:
            self._settle(fibre)
        except TestbedError as error:
            return str(error)
        return ""

    def _settle(self, fibre: SwitchPort) -> None:
        with self._lock:
            self._journal.settle(self._undos.pop(fibre).number)
