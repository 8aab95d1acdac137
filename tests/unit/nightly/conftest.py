"""What tests of nights share."""

import shutil

import pytest

from tests.unit.nightly.nights import Nights


@pytest.fixture
def nights(tmp_path):
    """Return a place for nights with one lab and nothing to run yet."""
    found = Nights(tmp_path)
    found.labs("rack")
    return found


@pytest.fixture(scope="module")
def first_night(tmp_path_factory):
    """Return a place in which one night was run, with one experiment of six trials."""
    found = Nights(tmp_path_factory.mktemp("first"))
    found.labs("rack")
    found.experiment()
    assert found() == 0
    return found


@pytest.fixture
def second_night(first_night, tmp_path):
    """Return a place of its own with what that night left."""
    shutil.copytree(first_night.path, tmp_path / "second", symlinks=True)
    return Nights(tmp_path / "second")
