"""Secrets by reference."""

from __future__ import annotations

import pytest

from testbed.errors import UsageError
from testbed.secret import Secret


def test_a_secret_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("OCS_PASSWORD", "hunter2")
    secret = Secret(env="OCS_PASSWORD")
    assert secret.reveal() == "hunter2"
    assert "hunter2" not in repr(secret) + str(secret)


def test_a_secret_comes_from_a_file_without_its_line_end(tmp_path):
    (tmp_path / "password").write_bytes(b" hunter2 \r\n")
    assert Secret(file=str(tmp_path / "password")).reveal() == " hunter2 "


@pytest.mark.parametrize("value", [None, ""])
def test_a_variable_that_is_not_set_or_empty_is_a_usage_error_with_the_remedy(monkeypatch, value):
    monkeypatch.delenv("OCS_PASSWORD", raising=False)
    if value is not None:
        monkeypatch.setenv("OCS_PASSWORD", value)
    with pytest.raises(UsageError, match="OCS_PASSWORD is not set; set it with: export OCS_PASSW"):
        Secret(env="OCS_PASSWORD").reveal()


def test_a_file_that_cannot_be_read_is_a_usage_error_that_shows_nothing_of_it(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        Secret(file=str(tmp_path / "absent")).reveal()
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    with pytest.raises(UsageError, match="UnicodeDecodeError") as refusal:
        Secret(file=str(tmp_path / "binary")).reveal()
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__suppress_context__
