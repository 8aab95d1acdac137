"""Run inside a twin: make a circuit by hand, and print the exit code, the rows and the errors."""

from __future__ import annotations

import json
import subprocess
import sys

COMMAND = [sys.executable, "-m", "testbed.cli", "switch", "ocs"]
WHERE = ["--lab", "tests/e2e/bright/lab.yaml", "--results", sys.argv[1], "--json"]

done = subprocess.run([*COMMAND, "connect", "4", "12", *WHERE], capture_output=True, text=True)
print(json.dumps({"code": done.returncode, "rows": done.stdout, "err": done.stderr}))
