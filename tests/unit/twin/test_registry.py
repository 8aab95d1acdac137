"""Which twins are up, told by files that nobody else could have written."""

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.twin import registry
from testbed.twin.sandbox import Sandbox

NOBODY = 65534


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The directory of this user's twins, where one that is up, as this process is, has a file."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    registry.register(Sandbox("rack", os.getpid(), os.getpid()), Path("rack.yaml"), "rack")
    (place,) = tmp_path.iterdir()
    return place


def names():
    return [twin.name for twin in registry.standing()]


def test_a_twin_is_listed_until_it_dies(place):
    assert names() == ["rack"]
    dead = asdict(registry.find("rack")) | {"name": "dead", "born": "1"}
    (place / "dead.json").write_text(json.dumps(dead))
    assert names() == ["rack"]
    assert [path.name for path in place.iterdir()] == ["rack.json"]


@pytest.mark.parametrize("text", ['{"name": "ra', "[]", "", "\xff"])
def test_an_invalid_registry_file_hides_no_other_twin(place, text):
    (place / "half.json").write_text(text, encoding="latin-1")
    assert names() == ["rack"]


def expect_refusal():
    for ask in (
        names,
        lambda: registry.take_down("rack", print),
        lambda: registry.log_file("rack"),
    ):
        with pytest.raises(UsageError, match=r"not a directory that only you .*XDG_RUNTIME_DIR"):
            ask()


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_world_writable_registry_directory_is_refused(place, mode):
    place.chmod(mode)
    expect_refusal()


def test_a_symbolic_link_as_registry_directory_is_refused(place, tmp_path):
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    expect_refusal()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_a_registry_directory_of_another_user_is_refused(place):
    os.chown(place, NOBODY, NOBODY)
    expect_refusal()


@pytest.mark.parametrize(
    ("uid", "uid_map", "parent"),
    [(0, "0 1001 1\n", 1001), (7, "0 0 4294967295\n", 7), (5, "0 100 1\n1 2000 9\n", 2004)],
    ids=["in the twin of a user", "outside of any twin", "in the second range"],
)
def test_a_user_inside_a_twin_is_identified_by_the_outer_user_id(uid, uid_map, parent):
    assert registry.outside(uid, uid_map) == parent
