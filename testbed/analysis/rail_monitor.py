"""Look through an event log for circuits that were removed while a group had traffic on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from testbed.analysis.clocks import Clocks
from testbed.events import Event


@dataclass(frozen=True, slots=True)
class Removal:
    """A circuit that is certain to have gone while two ranks of a group were in a collective."""

    circuit: str
    at: float
    """When the switch was commanded, in seconds of the log."""
    change: int
    """The number of the event of the change."""
    sample: int
    """The number of the event of the collective."""
    ranks: tuple[int, ...]
    """Of the group, those at the circuit's ends."""

    def __str__(self) -> str:
        ranks = " and ".join(map(str, self.ranks))
        return (
            f"circuit {self.circuit} went at {self.at:.6f} s (event {self.change}) while ranks "
            f"{ranks} were in a collective (event {self.sample})"
        )


@dataclass(frozen=True, slots=True)
class Monitored:
    """What was found, and in how much: removed circuits, and parts of collectives in groups."""

    found: tuple[Removal, ...]
    removed: int
    collectives: int


def monitor(events: Iterable[Event]) -> Monitored:
    """Return the circuits that were removed under traffic in a whole log.

    A collective counts from the latest instant at which it can have begun to the earliest at which
    it can have ended, so what clocks leave open is no finding. Only collectives in groups say who
    communicates with whom. Ranks on one host share its fabric ports evenly, or all of them where
    that cannot be.
    """
    clocks, lit, changes, samples = Clocks(), frozenset[str](), [], []
    ports: dict[str, list[str]] = {}
    for event in events:
        if event.kind in ("host.ready", "clock.offset"):
            clocks.add(event)
            ports.setdefault(event.subject, sorted(event.data.get("hardware", ())))
        elif event.kind == "fabric.change":
            now = frozenset(map(str, event.data["circuits"]))
            changes += [(event, circuit) for circuit in sorted(lit - now)]
            lit = now
        elif event.kind == "sample" and event.data.get("dimension"):
            samples.append(event)
    users = _users({event.data["rank"]: event.data["host"] for event in samples}, ports)
    spans = [(event, *_span(event, clocks)) for event in samples]
    found = {
        (change.seq, circuit): removal
        for change, circuit in changes
        for removal in _under_traffic(change, circuit, spans, users)
    }
    return Monitored(tuple(found.values()), len(changes), len(samples))


def _users(
    hosts: Mapping[int, str], ports: Mapping[str, list[str]]
) -> Callable[[str], frozenset[int]]:
    """Return which ranks use a fabric port, given as `host.port`."""
    of_port: dict[str, frozenset[int]] = {}
    for host in set(hosts.values()):
        ranks = sorted(rank for rank, its in hosts.items() if its == host)
        each, left = divmod(len(ports.get(host, ())), len(ranks))
        if each and not left:
            for number, port in enumerate(ports[host]):
                of_port[f"{host}.{port}"] = frozenset([ranks[number // each]])

    def users(port: str) -> frozenset[int]:
        everybody = frozenset(r for r, host in hosts.items() if host == port.partition(".")[0])
        return of_port.get(port, everybody)

    return users


def _under_traffic(
    change: Event,
    circuit: str,
    spans: Iterable[tuple[Event, float, float]],
    users: Callable[[str], frozenset[int]],
) -> Iterator[Removal]:
    at, ends = change.data["commanded"], [users(end) for end in circuit.split("–")]
    for sample, begin, end in spans:
        of_group = [ranks.intersection(sample.data["members"]) for ranks in ends]
        if begin <= at <= end and all(of_group):
            ranks = tuple(sorted(frozenset[int]().union(*of_group)))
            yield Removal(circuit, at, change.seq, sample.seq, ranks)


def _span(event: Event, clocks: Clocks) -> tuple[float, float]:
    """Return when a collective had begun for certain, and when it can first have ended."""
    begin, end = (clocks.instant(event, event.data[name]) for name in ("begin", "end"))
    if begin is None or end is None:
        return float("inf"), float("-inf")
    return begin.late, end.early
