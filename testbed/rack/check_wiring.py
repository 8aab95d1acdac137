"""Check the wiring of slices chip by chip, independently of the code that made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

from testbed.rack.check import WrongAnswer, at, fibres_between, parts
from testbed.rack.replacement import Circuit, Wiring
from testbed.rack.torus import Shape, Torus


def check_wiring(torus: Torus, wirings: Sequence[Wiring], failed: Collection[int]) -> None:
    """Raise WrongAnswer if anything is wrong with the slices of a rack."""
    found = wiring_mistakes(torus, wirings, failed)
    if found:
        raise WrongAnswer("; ".join(found))


def wiring_mistakes(
    torus: Torus, wirings: Sequence[Wiring], failed: Collection[int] = ()
) -> list[str]:
    """Return what is wrong with slices that share a rack; empty when all is right.

    Each position has a healthy chip of its own, neighbours in different servers have a circuit for
    each link between them, on neighbouring servers, and no link carries more than its fibres.
    """
    times = Counter(chip for each in wirings for chip in each.chips)
    chips = torus.chips[0] * torus.chips[1] * torus.chips[2]
    found = [f"chip {chip} is used {n} times" for chip, n in times.items() if n > 1]
    found += [f"chip {chip} has failed" for chip in times if chip in failed]
    found += [f"there is no chip {chip}" for chip in times if not 0 <= chip < chips]
    if found:
        return found
    used: Counter[tuple[int, int]] = Counter()
    for each in wirings:
        found += _circuit_mistakes(torus, each)
        for circuit in each.circuits:
            used.update((min(hop), max(hop)) for hop in pairwise(circuit.route))
    return found + _overloads(torus, used)


def _overloads(torus: Torus, used: Counter[tuple[int, int]]) -> list[str]:
    grid = parts(torus.chips, torus.server)
    found = []
    for (a, b), circuits in sorted(used.items()):
        fibres = fibres_between(torus, grid, grid, at(grid, a), at(grid, b))
        if circuits > fibres:
            found.append(f"{circuits} fibres of {fibres} between servers {a} and {b}")
    return found


def _circuit_mistakes(torus: Torus, each: Wiring) -> list[str]:
    """Return which circuits of a slice are missing, too many, or at wrong servers."""
    number = each.shape[0] * each.shape[1] * each.shape[2]
    if len(each.chips) != number:
        return [f"{len(each.chips)} chips for {number} positions"]
    server = [_server_of(torus, chip) for chip in each.chips]
    wanted = Counter(
        {
            (a, b): links
            for a in range(number)
            for b in range(a + 1, number)
            if server[a] != server[b]
            and (links := _links(torus, each.shape, at(each.shape, a), at(each.shape, b)))
        }
    )
    there = Counter((min(circuit.ends), max(circuit.ends)) for circuit in each.circuits)
    found = [
        f"{there[ends]} circuits for {wanted[ends]} links between positions {ends[0]} and {ends[1]}"
        for ends in sorted(wanted | there)
        if there[ends] != wanted[ends]
    ]
    return found + [
        f"route {circuit.route} does not join the chips at {circuit.ends}"
        for circuit in each.circuits
        if not _joins(circuit, server)
    ]


def _joins(circuit: Circuit, server: Sequence[int]) -> bool:
    a, b = circuit.ends
    route = circuit.route
    ends = max(a, b) < len(server) and (route[:1], route[-1:]) == ((server[a],), (server[b],))
    return ends and len(set(route)) == len(route)


def _links(torus: Torus, shape: Shape, a: Shape, b: Shape) -> int:
    """Return how many links two chips of a slice have between them."""
    axes = [axis for axis in range(3) if a[axis] != b[axis]]
    if len(axes) != 1:
        return 0
    length, apart = shape[axes[0]], abs(a[axes[0]] - b[axes[0]])
    around = length == torus.chips[axes[0]] and apart == length - 1
    return ((apart == 1) + around) * torus.fibres


def _server_of(torus: Torus, chip: int) -> int:
    grid = parts(torus.chips, torus.server)
    x, y, z = parts(at(torus.chips, chip), torus.server)
    return (x * grid[1] + y) * grid[2] + z
