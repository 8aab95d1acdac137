"""Run inside a twin: take away, behind a run's back, what keeps the light weak enough."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from testbed.bench.instrument_factory import make_instrument
from testbed.clock import Deadline
from testbed.schema import load_lab
from testbed.twin.control_socket import ask

HERE, RESULTS = Path("tests/e2e/bright"), Path(sys.argv[1])
LAB = str(HERE / "lab.yaml")


def run():
    """Start the experiment as its user does, in this twin."""
    command = [sys.executable, "-m", "testbed.cli", "run", str(HERE / "experiment.yaml")]
    where = ["--lab", LAB, "--results", str(RESULTS), "--json"]
    return subprocess.Popen([*command, *where], stdout=-1, stderr=-1, text=True)


def ended(process):
    """Return exit code, summary and what was printed as an error."""
    out, err = process.communicate(timeout=60)
    return {"code": process.returncode, "summary": json.loads(out or "null"), "err": err}


def await_step():
    """Return when the job of the newest run has made a step."""
    log, end = RESULTS / "latest" / "events.jsonl", time.monotonic() + 40
    while not (log.exists() and '"kind":"step"' in log.read_text()):
        assert time.monotonic() < end, "no step came"
        time.sleep(0.02)


voa = make_instrument(load_lab(LAB), "voa", lambda way, data: None)
voa.open(Deadline.after(5))
voa.attenuate(1, 12.0, Deadline.after(5))
process = run()
await_step()
before = ask({"do": "destroyed"})
voa.attenuate(1, 0.0, Deadline.after(5))
found = {"burnt": ended(process), "destroyed": [before, ask({"do": "destroyed"})]}
log = (RESULTS / "latest" / "events.jsonl").read_text().splitlines()
found["events"] = [json.loads(line) for line in log]
voa.close()
print(json.dumps(found))
