"""Look through an event log for circuits that were removed while a group had traffic on them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

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
    """The number of the event of the collective, or of the step that it is of."""
    ranks: tuple[int, ...]
    """Of the group, those at the circuit's ends."""

    def __str__(self) -> str:
        ranks = " and ".join(map(str, self.ranks))
        return (
            f"circuit {self.circuit} went at {self.at:.6f} s (event {self.change}) while ranks "
            f"{ranks} were in a collective (event {self.sample})"
        )


_Span = tuple[Event, Sequence[int], float, float]
"""Of a collective: the event that tells of it, its ranks, and the times between which it ran."""


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
        elif event.kind == "operations" or event.data.get("dimension"):
            samples.append(event)
    users = _users({event.data["rank"]: event.data["host"] for event in samples}, ports)
    spans = [span for event in samples for span in _spans(event, clocks)]
    running_at = _running(spans)
    found = {
        (change.seq, circuit): removal
        for change, circuit in changes
        for removal in _under_traffic(change, circuit, running_at, users)
    }
    return Monitored(tuple(found.values()), len(changes), len(spans))


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


def _running(spans: Iterable[_Span]) -> Callable[[float], Iterator[_Span]]:
    """Return a function that yields the collectives that ran for certain at an instant.

    A run has tens of thousands of both, so none is compared with all of the other.
    """
    by_begin = sorted(spans, key=lambda span: span[2])
    begins = [begin for _, _, begin, _ in by_begin]
    longest = list(accumulate((end for *_, end in by_begin), max))

    def running_at(at: float) -> Iterator[_Span]:
        first, last = bisect_left(longest, at), bisect_right(begins, at)
        return (span for span in by_begin[first:last] if span[3] >= at)

    return running_at


def _under_traffic(
    change: Event,
    circuit: str,
    running_at: Callable[[float], Iterator[_Span]],
    users: Callable[[str], frozenset[int]],
) -> Iterator[Removal]:
    at, ends = change.data["commanded"], [users(end) for end in circuit.split("–")]
    for sample, members, _, _ in running_at(at):
        of_group = [ranks.intersection(members) for ranks in ends]
        if all(of_group):
            ranks = tuple(sorted(frozenset[int]().union(*of_group)))
            yield Removal(circuit, at, change.seq, sample.seq, ranks)


def _spans(event: Event, clocks: Clocks) -> Iterator[_Span]:
    """Yield who communicated, since when for certain, and until when at the earliest."""
    said = event.data
    if event.kind == "operations":
        for _, _, _, ranks, _, lit, end, *_ in said["operations"]:
            yield event, ranks, *_bounds(event, lit, end, clocks)
    else:
        yield event, said["members"], *_bounds(event, said["begin"], said["end"], clocks)


def _bounds(event: Event, begin: float, end: float, clocks: Clocks) -> tuple[float, float]:
    first, last = (clocks.instant(event, stamp) for stamp in (begin, end))
    if first is None or last is None:
        return float("inf"), float("-inf")
    return first.late, last.early
