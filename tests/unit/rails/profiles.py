"""Profiles for tests: two pipeline stages of two data-parallel ranks on one rail."""

from testbed.rails.profile import Group, Operation, Profile, RankIteration

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
