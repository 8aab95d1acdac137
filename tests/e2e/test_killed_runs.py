"""Whenever the orchestrator is killed with -9, `recover` brings the lab back to what it was."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.run.crash_recovery.crashed_runs import runs_to_recover
from tests.e2e.commandline import COMMAND, ROOT, SMALL_MODEL, SMALL_RING, CommandLine, Finished

HERE = Path(__file__).parent / "inside"
KILLED = 128 + signal.SIGKILL
JOIN = (
    "import sys\nfrom testbed.twin import registry\n"
    "sys.exit(registry.find(sys.argv[1]).sandbox.run(sys.argv[2:]))\n"
)
VARIANT = "{splice-warm: {policy.standby: warm, lab.twin.settle: 30 ms}}"
TRIAL = [*SMALL_MODEL, "-S", f"variants={VARIANT}"]
ON_DEMAND = "variants={on-demand: {controllers: [{kind: rails}]}}"
LONG = ["run", "experiments/lumion.yaml", "--repeat", "50", *SMALL_RING]


def _flat(state: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Return a tree of values as one level, by the way to each."""
    found: dict[str, Any] = {}
    for key, value in state.items():
        found |= _flat(value, f"{name}{key}.") if isinstance(value, dict) else {name + key: value}
    return found


class Lab:
    """A twin that stays up, and what it was before anything ran on it."""

    def __init__(self, name: str, results: Path, config: str = "rack") -> None:
        self.name, self._config = name, f"configs/{config}.yaml"
        self.line = CommandLine(results)
        self.declared = self.state()
        self.kills = 0

    def inside(self, *command: str | Path, limit: float = 120.0) -> Finished:
        """Run a command inside the twin."""
        done = subprocess.run(
            [sys.executable, "-c", JOIN, self.name, sys.executable, *map(str, command)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def state(self) -> dict[str, Any]:
        """Return all that a run could have changed."""
        done = self.inside(HERE / "state_of_lab.py", self._config)
        assert done.code == 0, done.err
        return done.json()

    def changes(self) -> list[str]:
        """Return what is not as it was declared."""
        now, declared = _flat(self.state()), _flat(self.declared)
        names = sorted(now.keys() | declared.keys())
        return [
            f"{name}: {now.get(name)} instead of {declared.get(name)}"
            for name in names
            if now.get(name) != declared.get(name)
        ]

    def kill_trial(self, when: str, number: int) -> bool:
        """Run a trial that kills itself; tell whether it came to that.

        The experiment file that it was started with is gone afterwards.
        """
        experiment = self.line.results.parent / "lumion.yaml"
        shutil.copy(ROOT / "experiments" / "lumion.yaml", experiment)
        trial = ["run", str(experiment), "--lab", "rack", "--repeat", "1", *TRIAL]
        try:
            return self.kill_at(when, number, *trial)
        finally:
            experiment.unlink()

    def kill_at(self, when: str, number: int, *command: str) -> bool:
        """Run a command that kills itself; tell whether it came to that."""
        where = ["--results", str(self.line.results)]
        done = self.inside(HERE / "kill_itself.py", when, str(number), *command, *where)
        assert done.code in (0, KILLED), done.err
        self.kills += done.code == KILLED
        return done.code == KILLED

    def kill_after(self, seconds: float) -> None:
        """Start a long run and kill it from outside after some time."""
        run = self.line.start(*LONG, "--twin", self.name)
        time.sleep(seconds)
        run.signal(signal.SIGKILL)
        run.finish()
        self.kills += 1

    def recover(self) -> list[dict[str, Any]]:
        """Recover, and see that the lab is as it was declared; return what was done."""
        where = ["--results", str(self.line.results), "--twin", self.name]
        done = self.line("recover", *where, "--json")
        assert done.code == 0, (done.out, done.err)
        assert self.changes() == []
        return done.json()

    def circuits(self) -> Any:
        """Return what the switch shows."""
        where = ["--lab", "rack", "--twin", self.name, "--json"]
        return self.line("switch", "ocs", "show", *where).json()

    def report(self) -> dict[str, Any]:
        """Return what `report` says of the latest run."""
        summary: dict[str, Any] = self.line(
            "report", str(self.line.results / "latest"), "--json"
        ).json()
        return summary


@pytest.fixture(scope="module")
def lab(rack: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    results = tmp_path_factory.mktemp("killed") / "results"
    results.mkdir()  # a run may be killed before it makes it, and `recover` wants one that is there
    found = Lab(rack, results)
    assert found.declared["circuits"] == {"ocs": []} and not found.declared["leases"]
    assert not any(host["processes"] for host in found.declared["hosts"].values())
    yield found
    assert not list(runs_to_recover(found.line.results))
    assert found.changes() == []
    print(f"{found.kills} kills, each followed by a recover that left all as declared")


@pytest.mark.parametrize(
    ("when", "number", "is_lit"),
    [pytest.param("promised", 7, False, marks=pytest.mark.soak), ("acted", 8, True)],
)
def test_recover_restores_the_lab_after_a_kill_at_a_journal_position(
    lab: Lab, when: str, number: int, is_lit: bool
) -> None:
    assert lab.kill_trial(when, number)
    assert bool(lab.circuits()) is is_lit
    before = lab.report()
    assert before["outcome"] == "error" and before["cleanup"] == "unknown"
    (run,) = lab.recover()
    assert run["promises"] and run["left"] == [] and run["exit_code"] == 0
    after = lab.report()
    assert after["outcome"] == "error" and after["cleanup"] == "verified"


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("when", ["promised", "acted"])
def test_recover_restores_the_lab_after_a_kill_at_every_journal_position(
    lab: Lab, when: str
) -> None:
    number = 1
    while lab.kill_trial(when, number):
        lab.recover()
        number += 1
    assert number > 15
    assert lab.changes() == []


@pytest.mark.parametrize(
    "moments",
    [1, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])],
    ids=["sample", "full"],
)
def test_recover_restores_the_lab_after_kills_at_random_moments(lab: Lab, moments: int) -> None:
    chance = random.Random(moments + 6)
    for _ in range(moments):
        lab.kill_after(chance.uniform(0.0, 12.0))
        lab.recover()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_recover_restores_the_lab_after_a_killed_recover(lab: Lab) -> None:
    for number in range(1, 20):
        assert lab.kill_trial("promised", 9)
        lab.kill_at("promised", number, "recover", str(lab.line.results / "latest"))
        lab.recover()


@pytest.mark.parametrize("policy", ["shrink", pytest.param("restart", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "kind",
    [
        "recovery.fenced",
        *(pytest.param(k, marks=pytest.mark.soak) for k in ("recovery.decided", "membership")),
    ],
)
def test_recover_restores_the_lab_after_a_kill_in_the_middle_of_a_recovery(
    rack: str, tmp_path: Path, policy: str, kind: str
) -> None:
    lab = Lab(rack, tmp_path / "results")
    one = ["--repeat", "1", "-S", "variants={only-one: {}}", "-S", "checks={}", *SMALL_MODEL]
    run = lab.line.start("run", f"experiments/{policy}.yaml", "--twin", lab.name, *one)
    run.await_event(lambda event: event["kind"] == kind)
    run.signal(signal.SIGKILL)
    run.finish()
    (done,) = lab.recover()
    assert done["promises"] and done["left"] == []


@pytest.fixture
def rails(tmp_path: Path) -> Iterator[Lab]:
    """A twin of the rails that stays up while runs on it are killed."""
    name = f"rails-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", "rails", "--name", name], cwd=ROOT, check=True)
    yield Lab(name, tmp_path / "results", "rails")
    subprocess.run([*COMMAND, "twin", "down", name], cwd=ROOT, check=True)


def test_a_job_on_rails_starts_again_at_once_after_its_controller_was_killed(rails: Lab) -> None:
    """The controller of rails is the run itself: nothing else tells ranks of their circuits."""
    one = ["--repeat", "1", "-S", ON_DEMAND, "-S", "checks={on-demand.steps: {equals: 30}}"]
    run = rails.line.start("run", "experiments/rails.yaml", "--twin", rails.name, *one)
    begun = run.await_event(lambda event: event["kind"] == "trial.begin")["seq"]
    run.await_event(lambda event: event["kind"] == "fabric.change" and event["seq"] > begun)
    run.signal(signal.SIGKILL)
    run.finish()
    assert any(rails.state()["circuits"].values()), "ranks had circuits when it was killed"
    (done,) = rails.recover()
    assert done["promises"] and done["left"] == [] and done["exit_code"] == 0
    again = rails.line.run("rails", *one, twin=rails.name)
    assert again.code == 0, again.err
    assert again.json()["cleanup"] == "verified"
    assert rails.changes() == []


@pytest.mark.soak
def test_recover_refuses_a_running_run(lab: Lab, testbed: CommandLine) -> None:
    run = testbed.start(*LONG, "--twin", lab.name)
    run.await_event(lambda event: event["kind"] == "fabric.change")
    where = ["--results", str(testbed.results), "--twin", lab.name]
    refused = testbed("recover", "latest", *where)
    assert refused.code == 5 and "still running" in refused.err
    assert testbed("recover", *where).out == "nothing is left to take back\n"
    run.signal(signal.SIGINT)
    assert run.finish().code == 130
    assert run.summary()["left"] == []
    assert lab.changes() == []


def test_recover_closes_the_undo_entries_of_a_run_whose_twin_no_longer_exists(
    testbed: CommandLine,
) -> None:
    run = testbed.start("run", "experiments/lumion.yaml", "--twin", *TRIAL)
    run.await_event(lambda event: event["kind"] == "fabric.change")
    run.signal(signal.SIGKILL)
    run.finish()
    again = ["recover", "latest", "--results", str(testbed.results)]
    done = testbed(*again, "--json")
    assert done.code == 0, done.err
    (told,) = done.json()
    assert "the twin that it ran in is gone" in told["steps"][0]["notes"][0]
    assert testbed(*again).code == 0
