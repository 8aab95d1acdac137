"""`make test-lab` itself, against a twin that another client uses at the same time."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.contract.rig import Rig, reach, soon
from tests.contract import matrix

SUITE = Path(__file__).with_name("test_on_hardware.py")
LAB = """
lab: bench
hosts:
  h0:
    ssh: h0
    ports:
      p0: {{interface: eth1, address: 10.0.0.1/24, tx: ocs.1, rx: ocs.71}}
switches:
  ocs: {{driver: polatis, resource: "{resource}", identity: S1, ports: [1-4, 71-74]}}
"""


@pytest.fixture
def rig(tmp_path):
    rig = Rig(matrix.FAMILIES["polatis"], "tcp", tmp_path)
    yield rig
    rig.close()


def run(rig, tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text(LAB.format(resource=rig.place.resource))
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hardware", SUITE, "--lab", path]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_hardware_tests_pass_on_spare_ports_and_restore_the_switch(rig, tmp_path):
    others = {1: 71, 9: 80}
    reach(rig.driver(), others)
    rig.wait_for_light(others)
    done = run(rig, tmp_path)
    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout
    assert rig.settled_light() == others


def test_the_hardware_tests_skip_when_spare_ports_hold_circuits(rig, tmp_path):
    switch = rig.driver()
    reach(switch, {4: 74})
    done = run(rig, tmp_path)
    assert "9 skipped" in done.stdout and "holds circuits on its spare ports" in done.stdout
    assert switch.state(soon()) == {4: 74}
