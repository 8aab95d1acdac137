"""Keys of a twin are its owner's alone, from the moment that their file is there."""

import os
import stat

import pytest

from testbed.twin.keys import write_certificate, write_ssh_key


@pytest.fixture(params=[0o000, 0o022])
def generous_umask(request):
    """Let new files be as open as their maker asks for."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path):
    return oct(stat.S_IMODE(path.stat().st_mode))


def test_private_keys_are_readable_by_their_owner_only(tmp_path, generous_umask):
    write_ssh_key(tmp_path / "key")
    _, private = write_certificate(tmp_path, ["192.0.2.11", "pdu"])
    assert (mode(tmp_path / "key"), mode(private)) == ("0o600", "0o600")


def test_an_existing_key_file_is_not_reused(tmp_path):
    (tmp_path / "key").write_text("somebody else reads along")
    with pytest.raises(FileExistsError):
        write_ssh_key(tmp_path / "key")
