"""Groups of ranks from a mesh, against torch's DeviceMesh over the same array of ranks."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collectives.groups import groups, groups_over, ranks_of

meshes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(
    lambda sizes: dict(zip(["dp", "pp", "cp", "tp"], sizes, strict=False))
)


def test_groups_of_a_three_dimensional_mesh_equal_those_listed_by_hand():
    assert groups({"dp": 2, "pp": 2, "tp": 2}) == {
        "dp": ((0, 4), (1, 5), (2, 6), (3, 7)),
        "pp": ((0, 2), (1, 3), (4, 6), (5, 7)),
        "tp": ((0, 1), (2, 3), (4, 5), (6, 7)),
    }


@given(meshes)
def test_groups_of_ranks_equal_those_of_a_torch_device_mesh(mesh):
    """As `DeviceMesh._init_process_groups` has them, but in the order of their lowest ranks."""
    array = np.arange(prod(mesh.values())).reshape(tuple(mesh.values()))
    for axis, (dimension, found) in enumerate(groups(mesh).items()):
        assert dimension == list(mesh)[axis]
        theirs = np.swapaxes(array, -1, axis).reshape(-1, mesh[dimension])
        assert list(found) == sorted(map(tuple, theirs.tolist()))


@given(meshes, st.data())
def test_ranks_are_in_one_group_just_when_all_other_coordinates_agree(mesh, data):
    dimensions = data.draw(st.sets(st.sampled_from(list(mesh))))
    found = groups_over(mesh, dimensions)
    group_of = {rank: group for group in found for rank in group}
    assert sorted(group_of) == list(range(ranks_of(mesh)))
    place = [np.unravel_index(rank, tuple(mesh.values())) for rank in sorted(group_of)]
    others = [axis for axis, name in enumerate(mesh) if name not in dimensions]
    for a, b in combinations(sorted(group_of), 2):
        agree = all(place[a][axis] == place[b][axis] for axis in others)
        assert (group_of[a] == group_of[b]) == agree
    assert list(found) == sorted(tuple(sorted(group)) for group in found)


@pytest.mark.parametrize(
    ("mesh", "dimensions", "reason"),
    [
        ({}, [], "at least one dimension"),
        ({"dp": 2, "tp": 0}, ["dp"], "dimension tp must have at least 1 rank, not 0"),
        ({"dp": 2, "tp": 2}, ["ep"], "'ep' is not one of the dimensions dp, tp"),
    ],
)
def test_a_mesh_without_dimensions_or_ranks_is_refused(mesh, dimensions, reason):
    with pytest.raises(ValueError, match=reason):
        groups_over(mesh, dimensions)
