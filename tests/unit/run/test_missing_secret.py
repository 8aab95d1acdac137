"""A run on real lines whose lab file leads to a secret that is not there."""

from pathlib import Path

import pytest

import testbed.cli
from testbed.record.log import read_events
from tests.unit.run.killed_run import KilledRun

EXPERIMENT = """\
experiment: secret
question: Is a secret that is not there told before anything is changed?
needs: {hosts: 2}
jobs: {main: {kind: command, ranks: 2, command: ["true"]}}
"""
NOBODY_ANSWERS = 1
HOSTS = f"""\
lab: small
hosts:
  h0:
    ssh: 127.0.0.1:{NOBODY_ANSWERS}
    ports:
      p0: {{interface: e0, address: 10.0.0.1/24, tx: ocs.1, rx: ocs.5}}
      p1: {{interface: e1, address: 10.0.0.2/24, tx: ocs.2, rx: ocs.6}}
  h1:
    ssh: 127.0.0.2:{NOBODY_ANSWERS}
    env: {{HF_TOKEN: {{env: ABSENT}}}}
    ports:
      p0: {{interface: e0, address: 10.0.0.3/24, tx: ocs.3, rx: ocs.7}}
      p1: {{interface: e1, address: 10.0.0.4/24, tx: ocs.4, rx: ocs.8}}
"""


@pytest.fixture
def instruments(tmp_path, monkeypatch):
    """Instruments that answer, and files in this directory that use them."""
    monkeypatch.chdir(tmp_path)
    rig = KilledRun(tmp_path, NOBODY_ANSWERS)
    text = rig.lab.source.text
    Path("lab.yaml").write_text(HOSTS + text[text.index("switches:") :])
    Path("experiment.yaml").write_text(EXPERIMENT)
    yield rig
    rig.close()


def test_a_missing_secret_is_reported_before_anything_is_changed(instruments, capsys):
    code = testbed.cli.run(["run", "experiment.yaml", "--lab", "lab.yaml"])
    assert code == 2
    assert "in the environment variable ABSENT is not set" in capsys.readouterr().out
    kinds = [event.kind for event in read_events(Path("results/latest/events.jsonl"))]
    assert "instrument.ready" in kinds and "fabric.change" not in kinds
    assert Path("results/latest/journal.jsonl").read_text() == ""
