"""The verb `switch`, on the web service of a Polatis whose outputs alone have power monitors."""

import json
import os
import subprocess
import sys
import time

import pytest

from testbed.bench.sites import SwitchSite
from testbed.cli import run as command_line
from testbed.secret import Secret
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.polatis import PolatisRestconfOptions
from testbed_drivers.switches.polatis_restconf_far_end import PolatisRestconfFarEnd
from testbed_drivers.switches.switch import sides

LAB = """\
lab: web
hosts:
  h0: {{ssh: h0, ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.9}}}}}}
  h1: {{ssh: h1, ports: {{p0: {{interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.10}}}}}}
switches:
  ocs: {{driver: polatis-restconf, resource: "http://127.0.0.1:{port}", ports: [1-16]}}
"""


class Box:
    """A switch on a wire, and the command line."""

    def __init__(self, directory, capsys):
        self._scheduler = WallScheduler()
        serial = f"S{os.getpid()}"  # leases know a box by it, and other tests run beside this
        self.site = SwitchSite(*sides(8, 8), serial, 0.03, 1, self._scheduler, lambda lit: None)
        self.far_end = PolatisRestconfFarEnd(self.site)
        self._wire = serve_tcp(self.far_end)
        self.results = directory / "results"
        self.lab = directory / "lab.yaml"
        self.lab.write_text(LAB.format(port=self._wire.port))
        self._capsys = capsys

    def say(self, *words, code=0):
        """Type a command; return what it printed on both its outputs."""
        assert command_line(["switch", "ocs", *words, *self._options]) == code
        return self._capsys.readouterr()

    def recover(self):
        """Recover what was killed; return what it printed."""
        (record,) = self.results.iterdir()  # and not what other tests have left on this machine
        assert command_line(["recover", str(record)]) == 0
        return self._capsys.readouterr().out

    def start(self, *words):
        """Type a command that goes on beside the test."""
        command = [sys.executable, "-m", "testbed.cli", "switch", "ocs", *words, *self._options]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    def shown(self):
        """Return the circuits as the switch shows them."""
        return {row["ingress"]: row["egress"] for row in json.loads(self.say("show", "--json").out)}

    @property
    def _options(self):
        return ["--lab", str(self.lab), "--results", str(self.results)]

    @property
    def records(self):
        """The run directories that are there."""
        return [path.name for path in self.results.iterdir()]

    def close(self):
        self._wire.close()
        self._scheduler.close()


@pytest.fixture
def box(tmp_path, capsys):
    box = Box(tmp_path, capsys)
    yield box
    box.close()


def listed(directory, *circuits):
    file = directory / "wanted.yaml"
    file.write_text("circuits:\n" + "".join(f"  - {circuit}\n" for circuit in circuits))
    return str(file)


def test_a_new_circuit_is_shown_with_its_settled_power(box):
    shown = box.say("connect", "h0.p0", "h1.p0").out
    assert "dark" not in shown
    first = next(line.split() for line in shown.splitlines() if "h0.p0 to h1.p0" in line)
    assert first[:5] == ["1", "not", "measured", "→", "10"], "what is not measured is not dark"
    assert float(first[5]) < 0


def test_a_port_that_is_measured_and_dark_is_shown_as_dark(box):
    box.far_end.fault("lie", port=1)
    assert "dark" in box.say("connect", "1", "10").out
    (row,) = json.loads(box.say("show", "--json").out)
    assert (row["light_in"], row["light_out"], row["power_out"]) == ("not measured", "dark", None)


def test_connecting_an_existing_circuit_changes_nothing(box):
    assert box.say("connect", "1", "10").err == ""
    assert box.say("connect", "1", "10").err == "ocs: nothing to change\n"
    box.say("disconnect", "1", "10")
    assert box.say("disconnect", "1", "10").err == "ocs: nothing to change\n"


def test_a_plan_names_the_host_ports_that_it_connects_and_disconnects(box, tmp_path):
    box.say("connect", "1", "12")
    both = listed(tmp_path, "h0.p0 h1.p0", "4 12")
    assert box.say("plan", both).out.splitlines() == [
        "  -    1 → 12   h0.p0 to unwired",
        "  +    1 → 10   h0.p0 to h1.p0",
        "  +    2 → 9    h1.p0 to h0.p0",
        "  +    4 → 12   unwired to unwired",
    ]
    box.say("apply", both)
    assert box.say("plan", both).out == "  nothing to change\n"


def test_a_port_outside_the_lab_is_refused_before_the_switch_is_queried(box):
    box.far_end.fault("refuse")
    assert "port 17 of ocs is protected or not in" in box.say("connect", "1", "17", code=2).err


def test_switch_watch_shows_changes_of_others_and_continues_after_a_silent_switch(box):
    box.say("connect", "1", "10")
    watch = box.start("watch", "--json")
    assert next_news(watch) == ("+", 1, 10)
    box.far_end.fault("not-json", count=4)
    assert any("waiting for it" in line for line in watch.stderr)
    box.far_end.fault("meddled", port=1)
    assert next_news(watch) == ("-", 1, 10)
    watch.terminate()
    watch.communicate()


def next_news(watch):
    """Return what the next line of a watch tells, and of which circuit."""
    row = json.loads(watch.stdout.readline())
    return row["news"][0], row["ingress"], row["egress"]


def test_switch_watch_ends_when_its_output_is_closed(box):
    box.say("connect", "1", "10")
    watch = box.start("watch")
    assert watch.stdout.readline().endswith("steady\n")
    watch.stdout.close()
    watch.stderr.close()
    assert watch.wait(30) == 0


def test_switch_watch_fails_when_the_switch_is_silent_at_its_end(box):
    box.say("connect", "1", "10")
    watch = box.start("watch", "--seconds", "1")
    assert watch.stdout.readline()
    box.far_end.fault("not-json")
    assert "testbed: ocs:" in watch.communicate()[1]
    assert watch.returncode == 4


def test_a_killed_manual_change_is_recovered(box):
    box.say("connect", "1", "10")
    assert box.records == [], "what is done needs no record"
    box.far_end.fault("silent", command="PUT")
    moving = box.start("connect", "4", "12")
    while not box.far_end.struck("silent"):
        time.sleep(0.01)
    moving.kill()
    moving.communicate()
    box.far_end.clear()
    assert box.shown() == {1: 10, 4: 12}
    assert "recover" in box.say("disconnect", "4", "12", code=5).err
    assert "ok   circuits of ocs" in box.recover()
    assert box.shown() == {1: 10}
    box.say("connect", "4", "12")


def test_a_device_that_repeats_its_login_reveals_no_password(tmp_path, monkeypatch):
    monkeypatch.setenv("BOX_PASSWORD", "sesame-open")
    options = PolatisRestconfOptions(user="lab", password=Secret(env="BOX_PASSWORD"))
    scheduler = WallScheduler()
    encoded = options.authorization().removeprefix("Basic ")
    serial = f"sesame-open {encoded} \x1b[2J"
    site = SwitchSite(*sides(8, 8), serial, 0.03, 1, scheduler, lambda lit: None)
    wire = serve_tcp(PolatisRestconfFarEnd(site, options))
    lab = tmp_path / "lab.yaml"
    login = "    user: lab\n    password: {env: BOX_PASSWORD}\n"
    resource = f'    driver: polatis-restconf\n    resource: "http://127.0.0.1:{wire.port}"\n'
    hosts = "hosts: {h0: {ssh: h0, network: existing}}\n"
    ocs = f"switches:\n  ocs:\n{resource}{login}    ports: [1-16]\n"
    lab.write_text(f"lab: web\n{hosts}{ocs}")
    command = [sys.executable, "-m", "testbed.cli"]
    try:
        for words in (["switch", "ocs", "show", "--lab", str(lab)], ["doctor", str(lab)]):
            done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60)
            said = done.stdout + done.stderr
            assert "serial ***" in said
            assert "sesame" not in said and encoded not in said and "\x1b" not in said
    finally:
        wire.close()
        scheduler.close()
