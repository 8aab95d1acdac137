"""No part of a twin needs root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.record.log import read_events
from tests.e2e.commandline import COMMAND, ROOT, SMALL_MODEL

NOBODY = 65534


@pytest.mark.skipif(os.getuid() != 0, reason="every test already runs as an ordinary user")
def test_a_run_on_a_twin_needs_no_root_privileges(tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        subprocess.run([sys.executable, "-c", "import testbed"], user=NOBODY, cwd="/", check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"an ordinary user may not run {sys.executable}")
    home = Path("/tmp") / f"testbed-as-nobody-{os.getpid()}"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    try:
        done = subprocess.run(
            [*COMMAND, "run", "experiments/lumion.yaml", "--twin", "--repeat", "1", "--json",
             "--results", str(home / "results"), *SMALL_MODEL],
            cwd=ROOT, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True,
            timeout=100, env=dict(os.environ, HOME=str(home)),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["cleanup"] == "verified"
        assert (home / "results" / "latest" / "report.html").stat().st_uid == NOBODY
        events = read_events(home / "results" / "latest" / "events.jsonl")
        told = [event.data["text"] for event in events if event.kind == "note"]
        assert any("compete with its instruments" in text for text in told)
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=True)
