"""The package in examples/plugin: installed beside the testbed, and run on a twin of its lab."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.e2e.commandline import ROOT

PLUGIN = ROOT / "examples" / "plugin"
HERE = Path(sys.executable).parent
FROM_HERE = ("--quiet", "--no-deps", "--no-build-isolation")


class Environment:
    """A Python with the testbed and the package, and what its programs say."""

    def __init__(self, bin, **variables):
        self._bin, self._variables = bin, {**os.environ, **variables}

    def __call__(self, program, *arguments, cwd=PLUGIN):
        done = subprocess.run(
            [self._bin / program, *map(str, arguments)],
            cwd=cwd,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """Install the package in a directory where only these tests look for packages."""
    site = tmp_path_factory.mktemp("site")
    Environment(HERE)("python", "-m", "pip", "install", *FROM_HERE, "--target", site, PLUGIN)
    return Environment(HERE, PYTHONPATH=str(site))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Install the testbed's wheel and the package in an environment that has nothing else."""
    place = tmp_path_factory.mktemp("fresh")
    bin = place / "bin"
    Environment(HERE)(
        "python", "-m", "pip", "wheel", *FROM_HERE, "--wheel-dir", place, ROOT, PLUGIN
    )
    venv.create(place, with_pip=True)
    testbed, plugin = (
        next(place.glob(f"{name}-*.whl")) for name in ("optical_testbed", "acme_lab")
    )
    constraints = ROOT / "constraints.txt"
    wheels = (f"{testbed}[contract]", plugin)
    Environment(bin)("python", "-m", "pip", "install", "-q", "-c", constraints, *wheels)
    return Environment(bin)


def runs_on_a_twin(environment, results):
    """Run the experiment of the package; check what each of its parts left in the record."""
    where = ("--lab", "configs/acme-quad.yaml", "--results", results, "--json")
    summary = environment("testbed", "run", "experiments/flicker.yaml", "--twin", *where)
    assert [trial["valid"] for trial in json.loads(summary)["trials"]] == [True, True]
    log = (results / "latest" / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    assert [e["data"]["maker"] for e in events if e["kind"] == "instrument.ready"] == ["Acme"]
    flickers = [e for e in events if e["kind"] == "fabric.change" and e["subject"] == "flicker"]
    assert len(flickers) == 2 * 3
    looks = [event["data"]["after"] for event in events if event["kind"] == "acme.patrol"]
    assert looks == [19, 39, 59] * 2


def test_a_switch_job_fault_and_controller_of_another_package_run_on_a_twin(beside, tmp_path):
    runs_on_a_twin(beside, tmp_path)


def test_a_switch_of_another_package_keeps_the_contract_of_all_switches(beside, tmp_path):
    arguments = ("--testbed-driver", "acme", "-q", "-k", "acme-tcp", "-p", "no:cacheprovider")
    said = beside("pytest", *arguments, cwd=tmp_path)
    assert " passed" in said and "skipped" not in said


@pytest.mark.parametrize(
    ("group", "name"),
    [
        *(("drivers", "acme"), ("jobs", "pi"), ("faults", "flicker"), ("controllers", "patrol")),
        ("scheduling-policies", "largest-demand"),
    ],
)
def test_listings_name_what_another_package_registers(beside, group, name):
    assert f'"{name}"' in beside("testbed", "list", group, "--json")


def test_a_scheduling_policy_of_another_package_serves_clients_by_model_and_by_service(
    beside, tmp_path
):
    where = ("--lab", "configs/acme-quad.yaml", "--results", tmp_path, "--json")
    summary = json.loads(beside("testbed", "run", "experiments/largest-demand.yaml", *where))
    assert (summary["outcome"], summary["label"]) == ("passed", "model")
    service = ("--store", tmp_path / "records.db", "--listen", "127.0.0.1:0", "--for", "10ms")
    beside("testbed", "propius", "scheduler", "--policy", "largest-demand", *service)


@pytest.mark.soak
def test_the_wheel_alone_runs_another_package_on_a_twin(fresh, tmp_path):
    runs_on_a_twin(fresh, tmp_path)


@pytest.mark.soak
def test_the_wheel_alone_puts_a_driver_through_the_contract_suite(fresh, tmp_path):
    said = fresh("pytest", "--testbed-driver", "acme", "-q", cwd=tmp_path)
    assert "181 passed" in said
