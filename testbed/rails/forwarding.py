"""Forward the traffic of groups over other rails, instead of re-pointing the circuits of theirs.

The ranks of a host reach each other without circuits. So a circuit from host to host leads there
for all ranks of both: one sends over the port of another rank of its host, from whose peer the data
goes on inside that host (as PXN of NCCL does). Where each pair of hosts that need each other can
keep a rail, no circuit is ever re-pointed. Instead a circuit carries what several groups send.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.rails.profile import Group
from testbed.rails.workload import IterationParts, Part, Workload

MARGIN = 0.9
"""What the cheaper of both may cost at most, of what the other costs, to be taken in its place."""

Routes = Mapping[str, str]
"""By group, the rail whose circuits it uses."""

_HostPair = frozenset[Hashable]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds by which an iteration is longer, of the rank for which that is most."""

    repointing: float
    """Where circuits are re-pointed: a change less the window in which it can be hidden, summed."""
    forwarding: float
    """Where none is: what other groups send over the circuits that a rank's groups use."""

    def favour_forwarding(self, is_forwarding: bool) -> bool:
        """Tell whether it is to be forwarded: the other way is taken where it is cheaper by far."""
        if is_forwarding:
            return self.repointing > MARGIN * self.forwarding
        return self.forwarding < MARGIN * self.repointing


def routes(groups: Mapping[str, Group], hosts: Sequence[Hashable]) -> Routes | None:
    """Return a rail for each group so that no circuit is re-pointed; None where there is none.

    `hosts` are those of the ranks. A host has one port on each rail on which it has a rank, or
    several that all lead to one other host. None also where nothing is re-pointed anyhow, and
    where a group is of more than two ranks: it has a ring of circuits for itself.
    """
    on_rail = {name: group for name, group in groups.items() if group.rail is not None}
    if not hosts or any(len(group.ranks) != 2 for group in on_rail.values()):
        return None
    pairs = {name: frozenset(hosts[rank] for rank in g.ranks) for name, g in on_rail.items()}
    rails = sorted({str(group.rail) for group in on_rail.values()})
    if not _shares_ports(pairs, {name: str(group.rail) for name, group in on_rail.items()}):
        return None
    served = {host: sum(one == host for one in hosts) for host in hosts}
    numbers = {rail: int(rail.removeprefix("rail")) for rail in rails}

    def can_have(pair: _HostPair, rail: str) -> bool:
        return all(numbers[rail] < served[host] for host in pair)

    found = _assigned(list(dict.fromkeys(pairs.values())), rails, can_have, {})
    return None if found is None else {name: found[pair] for name, pair in pairs.items()}


def _shares_ports(pairs: Mapping[str, _HostPair], rail_of: Mapping[str, str]) -> bool:
    """Tell whether two groups on one rail need a host's port for different peers."""
    at: dict[tuple[str, Hashable], _HostPair] = {}
    return any(
        at.setdefault((rail_of[name], host), pair) != pair
        for name, pair in pairs.items()
        for host in pair
    )


def _assigned(
    pairs: Sequence[_HostPair],
    rails: Sequence[str],
    can_have: Callable[[_HostPair, str], bool],
    taken: Mapping[_HostPair, str],
) -> Mapping[_HostPair, str] | None:
    """Return a rail for each pair of hosts, no host twice on one; None where that cannot be."""
    if len(taken) == len(pairs):
        return taken
    pair = pairs[len(taken)]
    for rail in rails:
        is_free = all(pair.isdisjoint(other) for other, its in taken.items() if its == rail)
        if is_free and can_have(pair, rail):
            found = _assigned(pairs, rails, can_have, {**taken, pair: rail})
            if found is not None:
                return found
    return None


def sharers(routed: Routes, groups: Mapping[str, Group], hosts: Sequence[Hashable]) -> Counter[str]:
    """Return of each group how many use the circuits that it does, itself among them."""
    over = {n: (rail, frozenset(hosts[r] for r in groups[n].ranks)) for n, rail in routed.items()}
    count = Counter(over.values())
    return Counter({name: count[own] for name, own in over.items()})


def costs(
    windows: Iterable[tuple[Sequence[int], float]],
    change: float,
    traffic: Iterable[tuple[Sequence[int], float, int]],
) -> Costs:
    """Return what an iteration costs by the model, each way.

    `windows` are those before each change, with the ranks of its stage, and `change` is what one
    takes, in seconds. `traffic` has of each stage its ranks, what it takes over circuits of its own
    (α and β for each byte, as measured), and how many groups share those that it is forwarded over.
    Then each of them takes so many times as long, at most: all send at once.
    """
    repointing, forwarding = defaultdict[int, float](float), defaultdict[int, float](float)
    for ranks, window in windows:
        for rank in ranks:
            repointing[rank] += max(0.0, change - window)
    for ranks, took, sharing in traffic:
        for rank in ranks:
            forwarding[rank] += took * (sharing - 1)
    return Costs(max(repointing.values(), default=0.0), max(forwarding.values(), default=0.0))


def forwarded(workload: Workload, routed: Routes) -> Workload:
    """Return a workload as it is when its groups use the circuits of the rails that are given."""
    groups = {
        name: Group(group.ranks, routed.get(name, group.rail))
        for name, group in workload.groups.items()
    }
    sharing = sharers(routed, workload.groups, workload.hosts)

    def slower(part: Part) -> Part:
        return replace(part, took=part.took * max(1, sharing[part.group]))

    iterations = tuple(
        tuple(IterationParts(tuple(map(slower, own.parts)), own.tail) for own in ranks)
        for ranks in workload.iterations
    )
    return replace(workload, groups=groups, iterations=iterations)
