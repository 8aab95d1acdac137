"""The command line as its users type it, against twins of the labs we ship."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from testbed.analysis.plan_deviations import Deviation, deviations
from testbed.record.log import read_events

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "testbed.cli"]


def _hear_signals() -> None:
    """Start as from a terminal, even where these tests run in the background and ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


_MODEL = {"dim": 64, "layers": 2, "heads": 2, "hidden": 128, "sequence": 16, "pace": "20 ms"}


def small_model(job: str) -> list[str]:
    """Return overrides that give a job a model whose steps take milliseconds."""
    return [part for k, v in _MODEL.items() for part in ("-S", f"jobs.{job}.{k}={v}")]


SMALL_MODEL = small_model("main")

_FEW_HOSTS = ("needs.hosts=4", "jobs.main.ranks=3", "jobs.main.spares=1")
SMALL_RING = [*SMALL_MODEL, *(part for setting in _FEW_HOSTS for part in ("-S", setting))]
"""Overrides for a job `main` with a small model on three hosts, and one spare host."""


@dataclass
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Started:
    """A command that runs on; `results` is where its run directory will be."""

    process: subprocess.Popen[str]
    results: Path
    _read: list[dict[str, Any]] = field(default_factory=list)
    _inode: int = 0
    _offset: int = 0

    def events(self) -> list[dict[str, Any]]:
        """Return what the run has logged so far, without a line that is being written."""
        with suppress(FileNotFoundError), self._log.open("rb") as log:
            inode = os.fstat(log.fileno()).st_ino
            if inode != self._inode:  # that of an earlier run in the same results
                self._read, self._inode, self._offset = [], inode, 0
            log.seek(self._offset)
            lines = log.read().splitlines(keepends=True)
            whole = lines[:-1] if lines and not lines[-1].endswith(b"\n") else lines
            self._read += map(json.loads, whole)
            self._offset += sum(map(len, whole))
        return self._read[:]

    @property
    def _log(self) -> Path:
        return self.results / "latest" / "events.jsonl"

    def await_event(self, wanted: Callable[[dict[str, Any]], bool], limit: float = 90.0) -> Any:
        """Return the first event that satisfies `wanted`; fail when none comes in time."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            for event in self.events():
                if wanted(event):
                    return event
            assert self.process.poll() is None, f"it ended early: {self.process.communicate()}"
            time.sleep(0.02)
        raise AssertionError(f"no such event within {limit} s; the last: {self.events()[-3:]}")

    def summary(self) -> Any:
        return json.loads((self.results / "latest" / "summary.json").read_text())

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def finish(self, limit: float = 120.0) -> Finished:
        out, err = self.process.communicate(timeout=limit)
        return Finished(self.process.returncode, out, err)


def _typed(arguments: tuple[str, ...]) -> list[str]:
    """Return a command line as typed here: a run draws its page only where its test looks at it."""
    is_plain = arguments[0] == "run" and not {"--report", "--no-report"} & {*arguments}
    return [*COMMAND, *arguments, *(["--no-report"] if is_plain else [])]


@dataclass
class CommandLine:
    """The command `testbed`, run in a checkout, with its own results directory."""

    results: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(self, *arguments: str, limit: float = 110.0) -> Finished:
        done = subprocess.run(
            _typed(arguments), cwd=ROOT, capture_output=True, text=True, timeout=limit
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def inside(self, lab: str, script: Path, *arguments: str) -> Finished:
        """Run a script of ours inside a new twin of a lab."""
        program = (
            "import sys\nfrom pathlib import Path\nfrom testbed.twin import sandbox\n"
            f"box = sandbox.start('inside', Path('configs/{lab}.yaml'), [])\n"
            f"sys.exit(box.run([sys.executable, {str(script)!r}, *{arguments!r}]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return Finished(done.returncode, done.stdout, done.stderr)

    def run_text(
        self, experiment: str, lab: str, *arguments: str, twin: str = "", limit: float = 110.0
    ) -> tuple[dict[str, Any], Path]:
        """Run an experiment that is given as text on a twin of a lab of ours; it must pass.

        Without the name of a `twin` it is one of its own. Return the summary and its directory.
        """
        self.results.parent.mkdir(exist_ok=True)
        file = self.results.with_name("experiment.yaml")
        file.write_text(experiment)
        where = ["--lab", str(ROOT / "configs" / f"{lab}.yaml"), "--results", str(self.results)]
        where += ["--json", *arguments, "--twin", *([twin] if twin else [])]
        done = self("run", str(file), *where, limit=limit)
        assert done.code == 0, done.err
        return done.json(), self.results / "latest"

    def start(self, *arguments: str, stderr: IO[str] | int = subprocess.PIPE) -> Started:
        process = subprocess.Popen(
            _typed((*arguments, "--results", str(self.results))),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            preexec_fn=_hear_signals,
        )
        self.running.append(process)
        return Started(process, self.results)

    def run(
        self, experiment: str, *arguments: str, twin: str = "", limit: float = 110.0
    ) -> Finished:
        """Run a shipped experiment for its JSON summary: on a twin that is up, or its own.

        What the run did otherwise than planned must name its cause.
        """
        where = ["--results", str(self.results), "--json", *arguments]
        where += ["--twin", *([twin] if twin else [])]
        done = self("run", f"experiments/{experiment}.yaml", *where, limit=limit)
        if (self.results / "latest").exists():
            unexplained = [str(one) for one in self.deviations() if not one.cause]
            assert unexplained == [], self.results
        return done

    def deviations(self) -> list[Deviation]:
        """Return in what the last run differs from its plan."""
        run = self.results / "latest"
        plan = json.loads((run / "plan.json").read_text())
        return deviations(plan, read_events(run / "events.jsonl"))
