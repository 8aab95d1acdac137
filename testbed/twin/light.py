"""Simulate circuits with packets: redirects in the fabric namespace, and carriers of links.

A host port's transmit fibre enters a switch ingress and its receive fibre leaves a switch egress.
While the switch connects the two ports of a circuit and both hosts have power, frames from one
arrive at the other. When light goes dark, frames stop at once and the carrier is lost after the
twin's loss-of-signal delay; when light appears, the carrier follows after the link-up delay. A
fibre that carries both directions leads to one switch port, where light enters and leaves. Light
that leaves a switch into a fibre to another goes on there.

A veth pair has one carrier for both directions, so a port that receives no light cannot send
either, as with remote-fault signalling on real Ethernet. A powered port always emits light.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import RLock

from testbed.bench.sites import Scheduler, never
from testbed.fabric.circuits import FibrePair, HostPort, SwitchPort, Wiring
from testbed.twin.netlink import Network

_REMEMBERED = 100_000
"""Events of the light that are kept: those of some thousand trials."""


@dataclass(frozen=True, slots=True)
class LightEvent:
    """A change of the light at a port, at an instant of the scheduler's clock."""

    t: float
    port: HostPort
    what: str
    """`dark`, `lit`, `carrier-lost` or `carrier`."""


@dataclass(frozen=True, slots=True)
class Destroyed:
    """A receiver destroyed by too much light: the instant, by the scheduler, and the power."""

    t: float
    port: HostPort
    dbm: float


@dataclass(slots=True, eq=False)
class Light:
    """The state of light in the twin's fabric; every method may be called from any thread."""

    _wiring: Wiring
    _links: Mapping[HostPort, str]
    _network: Network
    _scheduler: Scheduler
    _loss_of_signal: float
    _link_up: Mapping[str, float]
    """By the switch whose light a port receives."""
    _between: Iterable[FibrePair] = ()
    """The fibres from switch to switch."""
    host_emits: Callable[[], None] = never
    """Called, with no lock held, when a host has begun to send light."""
    history: deque[LightEvent] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """What happened to the light last; a twin may be up for weeks."""
    destroyed: list[Destroyed] = field(default_factory=list)
    """The receivers that got more light than they withstand; each is in it once."""
    _through: dict[SwitchPort, SwitchPort] = field(default_factory=dict)
    """By egress the ingress of a path through a switch, while light goes along it."""
    _feeds: dict[SwitchPort, SwitchPort] = field(default_factory=dict)
    """By ingress the egress of another switch whose light enters there."""
    _powered: set[str] = field(default_factory=set)
    _sources: dict[HostPort, HostPort] = field(default_factory=dict)
    """By receiving port the port whose light it gets."""
    _redirects: dict[HostPort, HostPort] = field(default_factory=dict)
    """By sending port the port that its frames reach."""
    _carrier: set[HostPort] = field(default_factory=set)
    _epoch: Counter[HostPort] = field(default_factory=Counter)
    """How often the light of a port has changed; a carrier that follows an older change is void."""
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        """Note where light goes from switch to switch."""
        for pair in self._between:
            self._feeds |= {pair.near.tx: pair.far.rx, pair.far.tx: pair.near.rx}

    def emits(self, host: str) -> bool:
        """Return whether a host sends light."""
        return host in self._powered

    def delay_by(self, loss_of_signal: float, link_up: Mapping[str, float]) -> None:
        """Set the delays with which carriers follow later changes; `link_up` is by switch."""
        self._loss_of_signal, self._link_up = loss_of_signal, link_up

    def receiver_is_destroyed(self, switch: str, egress: int, level: float) -> None:
        """Mark the receiver behind an egress port as destroyed, for good."""
        end = SwitchPort(switch, egress)
        port = next(port for port, fibres in self._wiring.items() if fibres.rx == end)
        self.destroyed.append(Destroyed(self._scheduler.now(), port, level))

    def switch_is_lit(self, switch: str, lit: Mapping[int, int]) -> None:
        """Set the present light paths through one switch, from ingress to egress."""
        with self._lock:
            others = {e: i for e, i in self._through.items() if e.switch != switch}
            mine = {SwitchPort(switch, to): SwitchPort(switch, by) for by, to in lit.items()}
            self._through = others | mine
            self._settle()

    def host_is_on(self, host: str) -> None:
        """Switch on the light of a host's ports, whose links must exist in the fabric namespace."""
        with self._lock:
            for port in self._ports_of(host):
                self._network.accept_redirects(self._links[port])
            self._powered.add(host)
        self.host_emits()
        with self._lock:
            self._settle()

    def host_goes_dark(self, host: str) -> None:
        """Switch off a host's light; after the call none of its frames can leave any more."""
        with self._lock:
            for port in self._ports_of(host):
                self._network.set_up(self._links[port], False)
                self._carrier.discard(port)
                self._epoch[port] += 1
            self._powered.discard(host)
            self._settle()

    def host_is_gone(self, host: str) -> None:
        """Remove the links of a host whose light is off."""
        with self._lock:
            gone = set(self._ports_of(host))
            # The kernel dropped the filters of removed links; those towards them must go first.
            for source, sink in list(self._redirects.items()):
                if source in gone or sink in gone:
                    self._network.stop_redirect(self._links[source])
                    del self._redirects[source]
            for port in gone:
                self._network.remove(self._links[port])

    def _ports_of(self, host: str) -> Iterable[HostPort]:
        return [port for port in self._wiring if port.host == host]

    def _settle(self) -> None:
        """Bring sources, redirects and carriers in line with switches and power."""
        sources = self._heard()
        changed = [p for p in self._wiring if sources.get(p) != self._sources.get(p)]
        self._sources = sources
        for port in changed:
            self._light_changed(port, "lit" if port in sources else "dark")
        self._redirect({source: sink for sink, source in sources.items()})

    def _heard(self) -> dict[HostPort, HostPort]:
        emitting = {f.tx: port for port, f in self._wiring.items() if port.host in self._powered}
        heard = {}
        for port, fibres in self._wiring.items():
            ingress = origin(fibres.rx, self._through, self._feeds)
            if ingress in emitting and port.host in self._powered:
                heard[port] = emitting[ingress]
        return heard

    def _redirect(self, wanted: dict[HostPort, HostPort]) -> None:
        for source, sink in list(self._redirects.items()):
            # Nothing leaves a dark host and nothing arrives there, so its redirects can wait until
            # its links are removed; taking them away now would delay its neighbours' carriers.
            idle = {source.host} if source in wanted else {source.host, sink.host}
            if wanted.get(source) != sink and idle <= self._powered:
                self._network.stop_redirect(self._links[source])
                del self._redirects[source]
        for source, sink in wanted.items():
            if source not in self._redirects:
                self._network.redirect(self._links[source], self._links[sink])
                self._redirects[source] = sink

    def _light_changed(self, port: HostPort, what: str) -> None:
        self._note(port, what)
        self._epoch[port] += 1
        epoch = self._epoch[port]
        link_up = self._link_up[self._wiring[port].rx.switch]
        delay = link_up if what == "lit" else self._loss_of_signal
        when = self._scheduler.now() + delay
        self._scheduler.call_at(when, lambda: self._carrier_follows(port, epoch))

    def _carrier_follows(self, port: HostPort, epoch: int) -> None:
        with self._lock:
            if self._epoch[port] != epoch:
                return  # the light changed again, or the host went dark, in the meantime
            up = port in self._sources
            if up == (port in self._carrier):
                return
            self._network.set_up(self._links[port], up)
            (self._carrier.add if up else self._carrier.discard)(port)
            self._note(port, "carrier" if up else "carrier-lost")

    def _note(self, port: HostPort, what: str) -> None:
        self.history.append(LightEvent(self._scheduler.now(), port, what))


def origin(
    egress: SwitchPort,
    through: Mapping[SwitchPort, SwitchPort],
    feeds: Mapping[SwitchPort, SwitchPort],
) -> SwitchPort | None:
    """Return the first ingress on the way of the light that leaves at an egress, if there is one.

    `through` are the ingresses of paths through switches by egress, `feeds` the egresses of others
    by the ingress that their light enters.
    """
    ingress = through.get(egress)
    for _ in feeds:
        if ingress is None or ingress not in feeds:
            return ingress
        ingress = through.get(feeds[ingress])
    return None if ingress in feeds else ingress  # what goes round in a circle comes from nowhere
