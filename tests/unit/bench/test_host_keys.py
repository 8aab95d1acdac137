"""Host keys: strict, and accepted in one clear way that never takes a changed one."""

import json
import shutil
import stat

import pytest

import testbed.cli
from testbed.bench import ssh
from testbed.bench.host_keys import accept, shown_keys
from testbed.clock import Deadline
from testbed.errors import HostError
from testbed.schema import load_lab
from testbed.twin.keys import write_ssh_key

LAB = """\
lab: small
hosts:
  h0: {{ssh: "127.0.0.1:{port}"}}
"""


@pytest.fixture
def home(ssh_host, tmp_path, monkeypatch):
    """A home directory with a key that logs in, and nothing known of any host."""
    (tmp_path / ".ssh").mkdir()
    shutil.copy(ssh_host.keys / "id_ed25519", tmp_path / ".ssh")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


@pytest.fixture
def lab_file(ssh_host, tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text(LAB.format(port=ssh_host.port))
    return path


@pytest.fixture
def lab(lab_file):
    return load_lab(lab_file)


def log_in(lab):
    """Log in as a run does; raise what keeps it out."""
    ssh.run("h0", lab.hosts["h0"].ssh, "true", Deadline.after(20)).close()


def test_an_unknown_ssh_host_key_is_refused_until_it_is_accepted(home, lab):
    with pytest.raises(HostError, match=r"its key is unknown.*`testbed doctor --accept-host-keys`"):
        log_in(lab)
    key = shown_keys(lab)["h0"]
    assert key.state == "unknown" and key.fingerprint.startswith("SHA256:")
    accept([key])
    assert shown_keys(lab)["h0"].state == "known"
    log_in(lab)


def test_showing_an_ssh_host_key_does_not_accept_it(home, lab):
    shown_keys(lab)
    assert not (home / ".ssh" / "known_hosts").exists()


def test_accepted_host_keys_are_appended_to_the_users_known_hosts_file(home, lab):
    known = home / ".ssh" / "known_hosts"
    accept([shown_keys(lab)["h0"]])
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    known.write_text("other ssh-ed25519 AAAA")  # without an end of line
    accept([shown_keys(lab)["h0"]])
    assert known.read_text().splitlines()[0] == "other ssh-ed25519 AAAA"
    log_in(lab)


def test_the_known_hosts_file_is_that_of_the_users_ssh_configuration(home, lab):
    (home / ".ssh" / "config").write_text("Host *\n  UserKnownHostsFile ~/.ssh/lab_hosts\n")
    accept([shown_keys(lab)["h0"]])
    assert (home / ".ssh" / "lab_hosts").exists() and not (home / ".ssh" / "known_hosts").exists()
    log_in(lab)


def change_the_key(home, lab):
    other = write_ssh_key(home / "other")
    name = ssh.server(lab.hosts["h0"].ssh).name
    (home / ".ssh" / "known_hosts").write_text(f"{name} {other}\n")
    return name


def test_a_changed_ssh_host_key_is_refused_and_cannot_be_accepted(home, lab, lab_file, capsys):
    name = change_the_key(home, lab)
    with pytest.raises(HostError, match=r"its key has CHANGED.*ssh-keygen -R"):
        log_in(lab)
    assert testbed.cli.run(["doctor", str(lab_file), "--accept-host-keys", "--json"]) == 4
    (row,) = json.loads(capsys.readouterr().out)
    assert not row["good"] and f"ssh-keygen -R {name}" in row["text"]
    with pytest.raises(HostError, match="CHANGED"):
        log_in(lab)


def test_doctor_shows_host_key_fingerprints_and_accepts_new_ones(home, lab, lab_file, capsys):
    assert testbed.cli.run(["doctor", str(lab_file), "--accept-host-keys"]) == 0
    said = capsys.readouterr()
    assert "ok   h0: ssh-ed25519 SHA256:" in said.out and "unknown" in said.out
    assert "1 new keys are in" in said.err
    assert testbed.cli.run(["doctor", str(lab_file), "--accept-host-keys"]) == 0
    assert ", known" in capsys.readouterr().out
    log_in(lab)


@pytest.mark.parametrize("answer", [False, True])
def test_at_a_terminal_the_user_is_asked_before_a_host_key_is_accepted(
    home, lab, lab_file, monkeypatch, answer
):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question, err: answer)
    assert testbed.cli.run(["doctor", str(lab_file), "--accept-host-keys"]) == (0 if answer else 4)
    assert (home / ".ssh" / "known_hosts").exists() == answer


def test_a_host_that_does_not_show_a_key_is_reported(home, tmp_path, capsys):
    (tmp_path / "lab.yaml").write_text(LAB.format(port=1))
    assert testbed.cli.run(["doctor", str(tmp_path / "lab.yaml"), "--accept-host-keys"]) == 4
    assert "FAIL h0: it showed no key: " in capsys.readouterr().out
