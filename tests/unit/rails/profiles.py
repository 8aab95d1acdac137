"""Profiles for tests: two pipeline stages of two data-parallel ranks on one rail."""

from testbed.rails.profile import Group, Operation, Profile, RankIteration
from testbed.rails.workload import IterationParts, Part, Workload

PIPELINE = {"pp0": (0, 2), "pp1": (1, 3)}
DATA = {"dp0": (0, 1), "dp1": (2, 3)}


def two_stages(forward: float, between: float, took: float = 0.05) -> Profile:
    """Return one iteration: compute, a pipeline exchange, compute, an AllReduce of gradients."""
    groups = {name: Group(ranks, "rail0") for name, ranks in (PIPELINE | DATA).items()}
    ranks = []
    for rank in range(4):
        at, operations = 0.0, []
        for of, gap in ((PIPELINE, forward), (DATA, between)):
            (name,) = (name for name, members in of.items() if rank in members)
            begin = at + gap
            at = begin + took
            operations.append(Operation(name, 0, groups[name].ranks, begin, begin, at))
        ranks.append(RankIteration(0.0, at, tuple(operations)))
    return Profile(groups, (tuple(ranks),))


def crowded_switch() -> Workload:
    """Return two halves on one rail: ranks 0 to 2 have wide windows, ranks 3 to 5 have none.

    In each half one rank meets the two others in turn. The half with wide windows leaves its stages
    a millisecond before the other. Where the switch makes one change at a time, and all is
    requested as early as can be, its changes keep those waiting that are needed now.
    """
    members = {"one": (0, 1), "two": (0, 2)}
    groups = {
        f"{name}{half}": Group(tuple(rank + 3 * half for rank in ranks), "rail0")
        for half in (0, 1)
        for name, ranks in members.items()
    }
    groups["all"] = Group(tuple(range(6)))
    iterations = []
    for rank in range(6):
        half, own = divmod(rank, 3)
        gap, took, last = ((0.9, 0.01, 0.001), (0.005, 0.95, 0.002))[half]

        def part(name: str, number: int, gap: float, took: float, half: int = half) -> Part:
            group = f"{name}{half}" if name != "all" else name
            return Part(group, number, groups[group].ranks, gap, took)

        meets = {0: ("two", "one"), 1: ("one",), 2: ("two",)}[own]
        parts = [part(name, 0, gap, took) for name in meets] + [part("all", 0, 0.0, 0.0)]
        parts += [part("one", 1, 0.0, last)] if own != 2 else []
        iterations.append(IterationParts(tuple(parts)))
    return Workload(groups, (tuple(iterations),), (0.0,) * 6)


def changing_compute(*computes: tuple[float, int]) -> Workload:
    """Return a job on one rail whose compute lasts other seconds after some iterations.

    Of two halves of three ranks, ranks 0 to 2 compute before each stage and ranks 3 to 5 hardly do.
    Where the switch makes one change at a time, a change for the first half that is made just in
    time keeps the second half waiting, or not, as their stages fall in time.
    """
    members = {"one": (0, 1), "two": (0, 2)}
    groups = {
        f"{name}{half}": Group(tuple(rank + 3 * half for rank in ranks), "rail0")
        for half in (0, 1)
        for name, ranks in members.items()
    }
    groups["all"] = Group(tuple(range(6)))
    iterations: list[tuple[IterationParts, ...]] = []
    for seconds, times in computes:
        for _ in range(times):
            number, each = len(iterations), []
            for rank in range(6):
                half, own = divmod(rank, 3)
                gap, took = ((seconds, (0.01, 0.01)), (0.005, (0.6, 0.5)))[half]
                meets = {0: ("two", "one"), 1: ("one",), 2: ("two",)}[own]
                parts = [
                    Part(name, number, groups[name].ranks, gap, took[name.startswith("one")])
                    for name in (f"{one}{half}" for one in meets)
                ]
                parts.append(Part("all", number, groups["all"].ranks, 0.0, 0.0))
                each.append(IterationParts(tuple(parts)))
            iterations.append(tuple(each))
    return Workload(groups, tuple(iterations), (0.0,) * 6)
