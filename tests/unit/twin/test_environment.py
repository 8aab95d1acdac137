"""The environment of commands in a twin."""

from testbed.twin import machine


def test_commands_in_a_twin_keep_the_caches_of_the_user(monkeypatch):
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    inside = machine.environment()
    assert inside["HOME"] == str(machine.HOME)
    assert inside["XDG_CACHE_HOME"] == "/home/anna/.cache"


def test_a_cache_directory_that_the_user_has_set_is_kept_in_a_twin(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch/cache")
    assert machine.environment()["XDG_CACHE_HOME"] == "/scratch/cache"
