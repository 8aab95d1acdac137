"""The verb `switch` on a photonic mesh, which cannot be asked what it holds."""

import time
from secrets import token_hex

import pytest

from testbed.bench.sites import SwitchSite
from testbed.cli import run as command_line
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.photonic_mesh_far_end import PhotonicMeshFarEnd
from testbed_drivers.switches.switch import sides

LAB = """\
lab: mesh
hosts:
  h0: {{ssh: h0, ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.4}}}}}}
switches:
  ocs:
    {{driver: photonic-mesh, resource: "tcp://127.0.0.1:{port}", ports: [1-6], width: 3, height: 3}}
"""


class Mesh:
    """A mesh on a wire, and the command line; each command is a process that was told nothing."""

    def __init__(self, directory, capsys):
        self._scheduler, self._capsys = WallScheduler(), capsys
        self.lit = {}
        site = SwitchSite(*sides(3, 3), token_hex(4), 0.0, 1, self._scheduler, self._hear)
        far_end = PhotonicMeshFarEnd(site, PhotonicMeshOptions(width=3, height=3))
        self._wire = serve_tcp(far_end)
        self.directory = directory
        (directory / "lab.yaml").write_text(LAB.format(port=self._wire.port))

    def _hear(self, lit):
        self.lit = lit

    def is_lit(self, circuits, limit=5.0):
        """Tell whether these circuits are lit, at most `limit` seconds from now."""
        until = time.monotonic() + limit
        while self.lit != circuits and time.monotonic() < until:
            time.sleep(0.002)
        return self.lit == circuits

    def say(self, *words, code=0):
        where = ["--lab", str(self.directory / "lab.yaml"), "--results", str(self.directory)]
        assert command_line(["switch", "ocs", *words, *where]) == code
        return self._capsys.readouterr()

    def apply(self, *circuits):
        file = self.directory / "wanted.yaml"
        file.write_text("circuits:\n" + "".join(f"  - {circuit}\n" for circuit in circuits))
        return self.say("apply", str(file)).out

    def close(self):
        self._wire.close()
        self._scheduler.close()


@pytest.fixture
def mesh(tmp_path, capsys):
    mesh = Mesh(tmp_path, capsys)
    yield mesh
    mesh.close()


def test_a_mesh_with_an_unknown_setting_is_not_shown_as_empty(mesh):
    mesh.apply("1 5")
    shown = mesh.say("show", code=4)
    assert shown.out == "" and "cannot report its circuits" in shown.err


@pytest.mark.parametrize("verb", ["connect", "disconnect"])
def test_a_single_change_is_refused_while_other_circuits_are_unknown(mesh, verb):
    mesh.apply("1 5")
    assert "switch ocs apply wanted.yaml" in mesh.say(verb, "2", "6", code=4).err
    assert mesh.is_lit({1: 5})


def test_applying_a_list_sets_all_circuits_of_a_mesh(mesh):
    mesh.apply("1 5")
    assert "2 cross-connects" in mesh.apply("2 6", "3 4")
    assert mesh.is_lit({2: 6, 3: 4})
