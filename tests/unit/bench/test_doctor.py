"""Everything in a lab is asked how it is, and each finding says what to do."""

import sys

import pytest

from testbed.bench.doctor import examine
from testbed.bench.sites import SwitchSite
from testbed.fabric.device import spans
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from testbed_drivers.switches.switch import sides
from tests.contract.private_spaces import can_be_private

LAB = """\
lab: bench
hosts:
  h0: {{ssh: "127.0.0.1:1", ports: {{p0: {{interface: e, address: 10.0.0.1/8, {fibres}}}}}}}
switches:
  ocs: {{driver: polatis, resource: "tcp://127.0.0.1:{port}", ports: [1-16]}}
"""


@pytest.fixture
def examined(tmp_path):
    """Return a way to examine a lab with an 8 × 8 switch; its host never answers."""
    scheduler = WallScheduler()
    site = SwitchSite(*sides(8, 8), "S1", 0.001, 1, scheduler, lambda lit: None)
    wires = []

    def examined(fibres, serial="S1"):
        file = tmp_path / "lab.yaml"
        site.serial = serial
        wire = serve_tcp(PolatisFarEnd(site))
        wires.append(wire)
        file.write_text(LAB.format(port=wire.port, fibres=fibres))
        return {finding.subject: finding for finding in examine(load_lab(str(file)))}

    yield examined
    for wire in wires:
        wire.close()
    scheduler.close()


def test_a_host_that_does_not_answer_does_not_hide_a_switch_that_does(examined):
    found = examined("tx: ocs.1, rx: ocs.9")
    assert found["ocs"].good
    assert found["ocs"].text.endswith("serial S1, firmware 6.5.2.18; 0 cross-connects")
    assert not found["h0"].good


def test_a_switch_without_a_serial_number_is_reported_as_identified_by_its_address(examined):
    found = examined("tx: ocs.1, rx: ocs.9", serial="123456")["ocs"]
    assert found.good
    assert (
        "; it has no serial number of its own, so it is leased by its address alone;" in found.text
    )


@pytest.mark.parametrize(
    ("fibres", "words"),
    [
        ("tx: ocs.9, rx: ocs.10", "h0.p0 sends into ocs.9, but light enters this switch at 1-8"),
        ("tx: ocs.1, rx: ocs.2", "h0.p0 receives from ocs.2, but light leaves this switch at 9-16"),
    ],
)
def test_a_fibre_on_a_port_of_the_wrong_side_is_found(examined, fibres, words):
    found = examined(fibres)["ocs"]
    assert not found.good
    assert found.text.startswith(words)
    assert "correct the lab file" in found.text


@pytest.mark.parametrize(
    ("ports", "text"), [((), ""), ((3,), "3"), ((1, 2, 3, 7), "1-3, 7"), ((9, 1, 8), "1, 8-9")]
)
def test_ports_are_named_as_a_lab_file_lists_them(ports, text):
    assert spans(ports) == text


SUDO = "#!/bin/sh\nprintf '%s ' \"$@\" >> {asked}\necho '{said}' >&2\nexit {code}\n"
AS_USER = '#!/bin/sh\nPATH={0}:$PATH exec unshare --user --map-user=1000 {1} "$@"\n'


@pytest.mark.skipif(not can_be_private(["unshare", "--user"]), reason="no user namespaces here")
@pytest.mark.parametrize(
    ("privilege", "network", "code", "asked"),
    [
        ("sudo", "managed", 1, True),
        ("sudo", "managed", 0, True),
        ("none", "managed", 1, False),
        ("sudo", "existing", 1, False),
    ],
)
def test_sudo_is_tried_where_the_lab_file_says_that_it_sets_up_ports(
    ssh_host, tmp_path, privilege, network, code, asked
):
    tmp_path.chmod(0o755)
    record = tmp_path / "asked"
    record.touch()
    record.chmod(0o666)
    for name, text in (
        ("sudo", SUDO.format(asked=record, said="a password is required", code=code)),
        ("python", AS_USER.format(tmp_path, sys.executable)),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    keys = f"privilege: {privilege}, network: {network}, python: {tmp_path}/python"
    host = f"{{ssh: '127.0.0.1:{ssh_host.port}', {keys}}}"
    (tmp_path / "lab.yaml").write_text(f"lab: small\nhosts:\n  h0: {host}\n")
    with ssh_host.at_home():
        answer, *troubles = examine(load_lab(tmp_path / "lab.yaml"))
    assert answer.good
    words = record.read_text()
    assert words.startswith("-n ") and words.endswith("ip -V ") if asked else not words
    failed = [one.text for one in troubles if "ports cannot be set up" in one.text]
    assert len(failed) == (asked and code)
    assert all("said: a password is required; let that user run `ip`" in one for one in failed)
