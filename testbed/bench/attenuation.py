"""The one door to attenuators: what we add to a fibre is promised to be taken away again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Protocol

from testbed.bench.contracts import Attenuator, PowerMeter
from testbed.clock import Deadline, now
from testbed.errors import TestbedError, UnsafeError, UsageError
from testbed.fabric.circuits import HostPort, SwitchPort, Wiring
from testbed.fabric.reading import Reading
from testbed.record.journal import Journal


@dataclass(frozen=True, slots=True)
class Attenuated:
    """A fibre that was told to take more; instants on this machine's monotonic clock."""

    fibre: SwitchPort
    before: float
    after: float
    commanded: float
    read_back: float


@dataclass(frozen=True, slots=True)
class _Promise:
    number: int
    before: float
    loss: float = 0.0
    """How much more than before the fibre takes, at the most that was asked for."""


@dataclass(frozen=True, slots=True)
class Tap:
    """A channel of a power meter, and so the light in one fibre."""

    name: str
    channel: int
    _meter: PowerMeter

    def __str__(self) -> str:
        return f"{self.name}.{self.channel}"

    def level(self, deadline: Deadline) -> Reading:
        """Measure the light in the fibre now."""
        return self._meter.power(self.channel, deadline)


class Permit(Protocol):
    """What says which attenuators may be set, at the moment they are."""

    def attenuator(self, name: str, host: str = "", why: str = "") -> None:
        """Raise BusyError unless an attenuator is leased still.

        Where a fault takes light from a host, raise UsageError unless that is permitted there.
        """


class Attenuation:
    """The attenuators and meters in the fibres of a lab.

    `through` and `tapped` give the name and channel of each fibre's.
    """

    def __init__(
        self,
        attenuators: Mapping[str, Attenuator],
        through: Mapping[SwitchPort, tuple[str, int]],
        meters: Mapping[str, PowerMeter],
        tapped: Mapping[SwitchPort, tuple[str, int]],
        wiring: Wiring,
        journal: Journal,
        permit: Permit,
    ) -> None:
        self._permit = permit
        self._attenuators = attenuators
        self._through = through
        self._meters = meters
        self._tapped = tapped
        self._wiring = wiring
        self._journal = journal
        self._promises: dict[SwitchPort, _Promise] = {}
        self._lock = Lock()

    def fibres(self, port: HostPort) -> tuple[SwitchPort, ...]:
        """Return the fibres of a host port that have an attenuator, the one it sends into first."""
        return attenuated_fibres(port, self._wiring, self._through)

    def meter(self, port: HostPort) -> Tap | None:
        """Return the tap of the fibre that `add` takes light from; None where it has none."""
        fibre = next(iter(self.fibres(port)), None)
        if fibre is None or fibre not in self._tapped:
            return None
        name, channel = self._tapped[fibre]
        return Tap(name, channel, self._meters[name])

    def added(self, fibre: SwitchPort) -> float:
        """Return how many dB a fibre takes only until `restore`; 0 where nothing was added."""
        promise = self._promises.get(fibre)
        return promise.loss if promise else 0.0

    def add(
        self, port: HostPort, loss: float, deadline: Deadline, why: str = "attenuate"
    ) -> Attenuated:
        """Let a fibre of a host port take `loss` dB more than before the first addition.

        Raise UsageError where no fibre of it has an attenuator, or the lab does not permit `why`;
        BusyError unless it is leased still; InstrumentError when it does not show what it was told.
        """
        fibres = self.fibres(port)
        if not fibres:
            raise UsageError(
                f"no fibre of {port} runs through an attenuator",
                hint="name one under `attenuators:` in the lab file",
            )
        fibre = fibres[0]
        name, channel = self._through[fibre]
        attenuator = self._attenuators[name]
        with self._lock:
            if is_new := fibre not in self._promises:
                before = attenuator.attenuation(channel, deadline)
                number = self._journal.promise(
                    "attenuation", attenuator=name, channel=channel, decibels=before
                )
                self._promises[fibre] = _Promise(number, before)
            promise = self._promises[fibre]
            before = promise.before
            self._promises[fibre] = replace(promise, loss=max(loss, promise.loss))
        try:
            self._permit.attenuator(name, port.host, why)
        except TestbedError:
            if is_new:  # nothing was set
                self._settle(fibre)
            raise
        commanded = now()
        after = attenuator.attenuate(channel, before + loss, deadline)
        return Attenuated(fibre, before, after, commanded, now())

    def adopt_undo(self, promise: Mapping[str, Any]) -> SwitchPort:
        """Take over what a run that is over has promised, for `restore_all`; return the fibre.

        Raise UnsafeError when no fibre of the lab runs through that channel.
        """
        place = (promise["attenuator"], promise["channel"])
        for fibre, through in self._through.items():
            if through == place:
                self._promises[fibre] = _Promise(promise["id"], promise["decibels"])
                return fibre
        raise UnsafeError(
            f"no fibre of the lab runs through channel {place[1]} of {place[0]}",
            hint=f"set it to {promise['decibels']:g} dB by hand",
        )

    def restore(self, port: HostPort, deadline: Deadline) -> None:
        """Let the fibres of a host port take what they took before, and read that back.

        Harmless when nothing was added. Raise UnsafeError when it does not come back.
        """
        self._restore([fibre for fibre in self.fibres(port) if fibre in self._promises], deadline)

    def restore_all(self, deadline: Deadline) -> None:
        """Do so for every fibre; one that fails does not keep the others from it."""
        self._restore(list(self._promises), deadline)

    def _restore(self, fibres: Iterable[SwitchPort], deadline: Deadline) -> None:
        problems = [problem for fibre in fibres if (problem := self._put_back(fibre, deadline))]
        if problems:
            raise UnsafeError("; ".join(problems), hint="look at the attenuator")

    def _put_back(self, fibre: SwitchPort, deadline: Deadline) -> str:
        """Put one fibre's attenuation back; return what went wrong, or an empty string."""
        name, channel = self._through[fibre]
        promise = self._promises[fibre]
        what = f"{name} still takes light on channel {channel}, in the fibre of {fibre}"
        try:
            self._permit.attenuator(name)
            self._attenuators[name].attenuate(channel, promise.before, deadline)
        except TestbedError as error:
            return f"{what}: {error}"
        try:
            self._settle(fibre)
        except TestbedError as error:
            return str(error)
        return ""

    def _settle(self, fibre: SwitchPort) -> None:
        with self._lock:
            self._journal.settle(self._promises.pop(fibre).number)


def attenuated_fibres(
    port: HostPort, wiring: Wiring, through: Mapping[SwitchPort, tuple[str, int]]
) -> tuple[SwitchPort, ...]:
    """Return the fibres of a host port that have an attenuator, the one it sends into first."""
    ends = (wiring[port].tx, wiring[port].rx)
    return tuple(dict.fromkeys(end for end in ends if end in through))
