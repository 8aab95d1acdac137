"""Secrets by reference."""

from __future__ import annotations

import pytest

from testbed.errors import FileError, UsageError
from testbed.schema import load_lab
from testbed.secret import Secret, conceal, masked, masked_data


def test_a_secret_is_read_from_an_environment_variable(monkeypatch):
    monkeypatch.setenv("OCS_PASSWORD", "hunter2")
    secret = Secret(env="OCS_PASSWORD")
    assert secret.reveal() == "hunter2"
    assert "hunter2" not in repr(secret) + str(secret)


def test_a_secret_is_read_from_a_file_without_its_line_end(tmp_path):
    (tmp_path / "password").write_bytes(b" hunter2 \r\n")
    assert Secret(file=str(tmp_path / "password")).reveal() == " hunter2 "


@pytest.mark.parametrize("value", [None, ""])
def test_a_variable_that_is_not_set_or_empty_is_a_usage_error_with_the_remedy(monkeypatch, value):
    monkeypatch.delenv("OCS_PASSWORD", raising=False)
    if value is not None:
        monkeypatch.setenv("OCS_PASSWORD", value)
    with pytest.raises(UsageError, match="OCS_PASSWORD is not set; set it with: export OCS_PASSW"):
        Secret(env="OCS_PASSWORD").reveal()


def test_an_unreadable_secret_file_is_a_usage_error_without_its_content(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        Secret(file=str(tmp_path / "absent")).reveal()
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    with pytest.raises(UsageError, match="UnicodeDecodeError") as refusal:
        Secret(file=str(tmp_path / "binary")).reveal()
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__suppress_context__


def test_a_revealed_secret_is_masked_in_text_and_data_except_exempt_keys(monkeypatch):
    monkeypatch.setenv("OCS_PASSWORD", "hünter2-word")
    word = Secret(env="OCS_PASSWORD").reveal()
    assert masked(f"ACT-USER::lab:1::{word};") == "ACT-USER::lab:1::***;"
    assert masked(f"its bytes: {word.encode().decode('latin-1')}") == "its bytes: ***"
    data = {"argv": ["run", f"--token={word}", word], "url": f"http://me:{word}@h/", "on": None}
    assert masked_data(data) == {
        "argv": ["run", "--token=***", "***"],
        "url": "http://me:***@h/",
        "on": None,
    }
    data = {"host": word, "said": {"host": word, "why": f"denied {word}"}, "count": 1}
    spared = masked_data(data, frozenset({"host"}))
    assert spared == data | {"said": {"host": word, "why": "denied ***"}}


def test_a_very_short_secret_is_not_masked():
    conceal("admin")
    assert masked("ssh://admin@192.0.2.10") == "ssh://admin@192.0.2.10"


@pytest.mark.parametrize(
    "override",
    [
        "lab.switches.ocs.login.password=hunter2",
        "lab.switches.ocs.login={user: admin, passwort: hunter2}",
        "lab.switches.ocs.login.password={env: A, word: hunter2}",
        "lab.power.pdu.resource=https://lab:hunter2@192.0.2.11",
        "lab.hosts.h0.ssh=me:hunter2@h0",
    ],
)
def test_no_message_repeats_a_value_given_instead_of_a_reference(tmp_path, lab_text, override):
    (tmp_path / "lab.yaml").write_text(lab_text)
    with pytest.raises(FileError) as refusal:
        load_lab(tmp_path / "lab.yaml", [override])
    for error in (refusal.value, *refusal.value.others):
        assert "hunter2" not in str(error)
