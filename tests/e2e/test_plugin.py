"""The package in examples/plugin: installed beside the testbed, and run on a twin of its lab."""

import json
import os
import subprocess
import sys

import pytest

from tests.e2e.commandline import COMMAND, ROOT

PLUGIN = ROOT / "examples" / "plugin"
INSTALL = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Install the package where only these tests look for packages."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run([*INSTALL, "--target", str(site), str(PLUGIN)], check=True)
    return {**os.environ, "PYTHONPATH": str(site)}


def test_a_switch_job_fault_and_controller_of_another_package_run_on_a_twin(environment, tmp_path):
    where = ["--lab", "configs/acme-quad.yaml", "--results", str(tmp_path), "--json"]
    done = subprocess.run(
        [*COMMAND, "run", "experiments/flicker.yaml", "--twin", *where],
        cwd=PLUGIN,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert all(trial["valid"] for trial in json.loads(done.stdout)["trials"])
    log = (tmp_path / "latest" / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    assert [e["data"]["maker"] for e in events if e["kind"] == "instrument.ready"] == ["Acme"]
    flickers = [e for e in events if e["kind"] == "fabric.change" and e["subject"] == "flicker"]
    assert len(flickers) == 2 * 3
    looks = [event["data"]["after"] for event in events if event["kind"] == "acme.patrol"]
    assert looks == [19, 39, 59] * 2


def test_listings_name_what_another_package_registers(environment):
    for group, name in (("drivers", "acme"), ("faults", "flicker"), ("controllers", "patrol")):
        done = subprocess.run(
            [*COMMAND, "list", group, "--json"], env=environment, capture_output=True, text=True
        )
        assert name in done.stdout, done.stderr
