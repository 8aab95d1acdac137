"""Limits of light on a switch that tells the light of circuits only: a Calient, over its REST."""

import pytest

from testbed.bench.endpoints import parse_endpoints
from testbed.bench.manual_switch import open_manual_switch
from testbed.bench.sites import SwitchSite
from testbed.errors import LabError
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.calient_rest_far_end import CalientRestFarEnd
from testbed_drivers.switches.switch import sides

LAB = """\
lab: web
hosts:
  h0:
    ssh: h0
    ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.9{launch}}}}}
  h1:
    ssh: h1
    ports: {{p0: {{interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.10, max_dbm: -3 dBm}}}}
switches: {{ocs: {{driver: calient-rest, resource: "http://127.0.0.1:{port}", ports: [1-16]}}}}
"""


class Rig:
    """A switch on a wire, whose sources send `dbm`, and a hand on it."""

    def __init__(self, directory, dbm):
        self._directory = directory
        self._scheduler = WallScheduler()
        self.destroyed = []
        site = SwitchSite(
            *sides(8, 8), "S1", 0.001, 1, self._scheduler, lambda lit: None,
            launched=lambda port: dbm, max_dbm={10: -3.0},
            destroyed=lambda port, level: self.destroyed.append(port),
        )  # fmt: skip
        self._wire = serve_tcp(CalientRestFarEnd(site))

    def connect(self, launch=""):
        file = self._directory / "lab.yaml"
        file.write_text(LAB.format(port=self._wire.port, launch=launch))
        lab, leases = load_lab(str(file)), Leases(FileStore(self._directory / "leases.sqlite"))
        with open_manual_switch(lab, "ocs", leases, force=False) as box:
            try:
                run = RunDirectory.create(self._directory, "switch")
                box.connect(parse_endpoints(lab, "ocs", ["1", "10"]), run)
            finally:
                self.rows = box.rows()

    def close(self):
        self._wire.close()
        self._scheduler.close()


@pytest.fixture
def rig(tmp_path):
    """Return what makes a rig whose sources send so much."""
    rigs = []

    def make(dbm):
        rigs.append(Rig(tmp_path, dbm))
        return rigs[-1]

    yield make
    for one in rigs:
        one.close()


def test_an_unmeasured_port_without_a_circuit_is_not_treated_as_dark(rig):
    bright = rig(10.0)
    with pytest.raises(LabError, match=r"h1\.p0 is behind it; h0\.p0 sends into port 1: write its"):
        bright.connect()
    assert (bright.rows, bright.destroyed) == ([], [])


def test_the_launch_power_of_the_lab_file_is_used_until_measured(rig):
    weak = rig(-4.0)
    weak.connect(launch=", launch: -3.5 dBm")
    (row,) = weak.rows
    assert str(row.light_in) == "-4.0 dBm"
    assert weak.destroyed == []


def test_a_source_stronger_than_the_lab_file_states_is_detected_and_disconnected(rig):
    bright = rig(10.0)
    with pytest.raises(
        LabError, match=r"port 10 withstands -3 dBm and [89]\.\d dBm leave; h1\.p0 is beh"
    ):
        bright.connect(launch=", launch: -3.5 dBm")
    assert bright.rows == []
    assert bright.destroyed == [10], "a file that lies is found out too late for that receiver"
