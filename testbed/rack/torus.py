"""A rack of accelerator chips in a torus, its servers and the fibres between them.

Chips and servers are numbered in lexicographic order of their coordinates. Every server has a
photonic mesh that redirects the ports of its chips and connects light from one fibre to another
(Morphlux, sections 4 and 5.2), so a circuit between two servers is a path of servers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product

Shape = tuple[int, int, int]
"""Chips, servers or slots along X, Y and Z; also a coordinate."""

Link = tuple[int, int]
"""Two neighbouring servers, the lower number first, and all fibres between them."""


@dataclass(frozen=True)
class Torus:
    """A rack: its number of chips along each axis, and that of one server.

    Two chips that are neighbours in the torus are joined by `fibres` fibres, or inside their
    server. Along an axis of two chips each is the other's neighbour on both sides. Raise ValueError
    when servers do not fill the rack.
    """

    chips: Shape = (4, 4, 4)
    server: Shape = (2, 2, 1)
    fibres: int = 1

    def __post_init__(self) -> None:
        if min(*self.chips, *self.server, self.fibres) < 1:
            raise ValueError("a rack must have at least one chip, one server and one fibre")
        if any(chips % part for chips, part in zip(self.chips, self.server, strict=True)):
            raise ValueError(f"servers of {text(self.server)} do not fill {text(self.chips)} chips")

    @cached_property
    def grid(self) -> Shape:
        """Return how many servers there are along each axis."""
        return _quotient(self.chips, self.server)

    @cached_property
    def servers(self) -> tuple[Shape, ...]:
        """Return the coordinates of each server."""
        return coordinates(self.grid)

    @cached_property
    def links(self) -> Mapping[Link, int]:
        """Return the fibres between each two neighbouring servers, in a fixed order."""
        return _joined(self, self.chips)

    @cached_property
    def neighbours(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return for each server its neighbours, each with the number of their link."""
        near: list[list[tuple[int, int]]] = [[] for _ in self.servers]
        for number, (a, b) in enumerate(self.links):
            near[a].append((b, number))
            near[b].append((a, number))
        return tuple(map(tuple, near))

    @cached_property
    def link_numbers(self) -> Mapping[Link, int]:
        """Return the number of each link."""
        return {link: number for number, link in enumerate(self.links)}


@dataclass(frozen=True)
class SlotGraph:
    """The needs of a slice: slots, which take a server each, and the fibres between them.

    The fibres of an edge are one bundle, which has one path; where the flow is `splittable`, each
    is a bundle of its own.
    """

    shape: Shape
    slots: int
    edges: Mapping[Link, int]
    splittable: bool = False

    @cached_property
    def bundles(self) -> tuple[tuple[Link, int], ...]:
        """Return the edge and the number of fibres of each bundle."""
        if not self.splittable:
            return tuple(self.edges.items())
        return tuple((edge, 1) for edge, fibres in self.edges.items() for _ in range(fibres))


@lru_cache
def slot_graph(torus: Torus, shape: Shape) -> SlotGraph:
    """Return the slots of a slice of `shape` chips, and the fibres of the bundle on each edge.

    A slice is a torus along the axes on which it spans the rack, and open along the others, as a
    contiguous slice of a static rack is. Raise ValueError when the shape is not made of whole
    servers.
    """
    fits = all(0 < s <= c for s, c in zip(shape, torus.chips, strict=True))
    if not fits or any(s % part for s, part in zip(shape, torus.server, strict=True)):
        raise ValueError(f"a slice of {text(shape)} chips is not a block of whole servers")
    a, b, c = _quotient(shape, torus.server)
    return SlotGraph(shape, a * b * c, _joined(torus, shape))


@lru_cache
def blocks(torus: Torus, shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Return the servers, by slot, of each aligned block of a shape in the rack.

    Aligned: along each axis it begins at a multiple of its own length (the authors' code).
    """
    slot_graph(torus, shape)
    slots = _quotient(shape, torus.server)
    begins = product(
        *(range(0, n - size + 1, size) for n, size in zip(torus.grid, slots, strict=True))
    )
    number = {at: index for index, at in enumerate(torus.servers)}
    return tuple(
        tuple(number[x + i, y + j, z + k] for i, j, k in coordinates(slots)) for x, y, z in begins
    )


@cache
def coordinates(shape: Shape) -> tuple[Shape, ...]:
    """Return all coordinates of a block in lexicographic order."""
    x, y, z = shape
    return tuple(product(range(x), range(y), range(z)))


def text(shape: Shape) -> str:
    """Format a shape with multiplication signs: `4×4×8`."""
    return "×".join(map(str, shape))


def chip_links(torus: Torus, shape: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Yield the neighbouring chips of a slice, once for each link between them."""
    for at in coordinates(shape):
        for axis, size in enumerate(shape):
            beyond = at[axis] + 1
            spans = size == torus.chips[axis] and size > 1
            if beyond < size or spans:
                yield at, _moved(at, axis, beyond % size)


def server_at(torus: Torus, shape: Shape, chip: Shape) -> int:
    """Return the slot of the chip at a coordinate of a slice of `shape` chips."""
    _, rows, columns = _quotient(shape, torus.server)
    x, y, z = _quotient(chip, torus.server)
    return (x * rows + y) * columns + z


def server_of(torus: Torus, chip: int) -> int:
    """Return the server of a chip, by its number in the rack."""
    return server_at(torus, torus.chips, coordinates(torus.chips)[chip])


def chip_of(torus: Torus, server: int, like: Shape) -> int:
    """Return the chip of `server` at the same place within it as a slice's chip has in its own."""
    place = zip(torus.servers[server], torus.server, like, strict=True)
    x, y, z = (index * size + at % size for index, size, at in place)
    return (x * torus.chips[1] + y) * torus.chips[2] + z


def _joined(torus: Torus, shape: Shape) -> dict[Link, int]:
    """Return the fibres between the servers of a block of chips."""
    fibres: Counter[Link] = Counter()
    for one, other in chip_links(torus, shape):
        a, b = server_at(torus, shape, one), server_at(torus, shape, other)
        if a != b:
            fibres[min(a, b), max(a, b)] += torus.fibres
    return dict(sorted(fibres.items()))


def _moved(at: Shape, axis: int, to: int) -> Shape:
    x, y, z = (to if index == axis else value for index, value in enumerate(at))
    return x, y, z


def _quotient(shape: Shape, parts: Shape) -> Shape:
    x, y, z = (size // part for size, part in zip(shape, parts, strict=True))
    return x, y, z
