"""A twin that stays up is asked for what it does not have: one sentence, exit code 2, no harm."""

import json
import os
import subprocess

import pytest

from testbed.errors import UsageError
from testbed.twin import registry
from tests.e2e.commandline import COMMAND


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("twin fault {rack} ocs silense", "no fault 'silense'; did you mean 'silent'?"),
        ("twin fault {rack} osc silent", "no instrument 'osc'; did you mean 'ocs'?"),
        ("twin fault {rack} ocs silent --count 0", "--count"),
        ("twin fault {rack} ocs stuck --port 99", "port 99 is not among the listed ports of ocs"),
        ("twin clear {rack} osc", "no instrument 'osc'"),
        ("twin power {rack} h9 off", "no host 'h9'; known: h0, h1"),
        ("twin shell {rack} h9", "no host 'h9' is on; those that are: h0, h1"),
        ("switch ocs show --lab serial-rack --twin {rack}", "this is a twin of lab rack, not of"),
        ("switch ocs show --lab rack --twin nobody", "no twin called 'nobody' is up"),
    ],
)
def test_an_unknown_name_is_reported_with_the_known_ones(testbed, rack, line, words):
    done = testbed(*line.format(rack=rack).split())
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.count("\n") == 1, done.err
    assert words in done.err


def test_a_run_with_another_line_rate_than_the_twin_is_refused(testbed, rack, tmp_path):
    fast = ["-S", "lab.twin.rate=1 Gbit/s", "--results", str(tmp_path / "results")]
    done = testbed("run", "experiments/lumion.yaml", "--lab", "rack", "--twin", rack, *fast)
    assert done.code == 2 and not (tmp_path / "results").exists()
    assert "the lines of this twin have the rate 500 Mbit/s, and lab rack says 1 Gbit/s" in done.err


def test_each_change_of_a_twin_is_confirmed_in_one_line(testbed, rack):
    said = [
        testbed("twin", *line.format(rack=rack).split()).out
        for line in (
            "fault {rack} ocs silent",
            "clear {rack} ocs",
            "fault {rack} ocs silent --count 2",
            "clear {rack} ocs",
            "power {rack} h5 off",
            "power {rack} h5 on",
        )
    ]
    assert said == [
        f"ocs of twin {rack} does silent, until you type: testbed twin clear {rack} ocs\n",
        f"ocs of twin {rack} has no fault any more\n",
        f"ocs of twin {rack} does silent, the next 2 times\n",
        f"ocs of twin {rack} has no fault any more\n",
        f"the cord of h5 of twin {rack} is pulled\n",
        f"the cord of h5 of twin {rack} is plugged in\n",
    ]


def test_twins_that_are_up_are_listed_with_their_labs(testbed, rack):
    rows = {row["name"]: row["lab"] for row in testbed("twin", "list", "--json").json()}
    assert rows[rack].endswith("/configs/rack.yaml")
    assert f"{rack}\t/" in testbed("twin", "list").out


def test_entering_a_twin_from_a_deleted_directory_is_refused(testbed, rack, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="the working directory no longer exists"):
        registry.find(rack).sandbox.run(["true"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_files_on_a_disk_mounted_after_the_twin_started_are_refused(rack, tmp_path, capfd):
    """As results would be, on a disk that was mounted after the twin had been started."""
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path], check=True)
    try:
        code = registry.find(rack).sandbox.run(["touch", f"--reference={tmp_path}/file", "x"])
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert code == 2
    words = f"{tmp_path}/file is on a file system that was mounted after this twin was started"
    assert words in capfd.readouterr().err


def test_the_hardware_address_of_the_controller_is_fixed(rack, capfd):
    """Else a host would go on sending to an address that was another host's."""
    show = ["ip", "-json", "link", "show", "management"]
    assert registry.find(rack).sandbox.run(show) == 0
    (link,) = json.loads(capfd.readouterr().out)
    assert link["address"] == "02:54:00:00:00:00"  # no port's, and given by us


def test_twin_list_inside_a_twin_is_empty_and_removes_no_twin(testbed, rack, capfd):
    assert registry.find(rack).sandbox.run([*COMMAND, "twin", "list", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == []
    assert rack in testbed("twin", "list").out


def test_faults_are_completed_as_the_far_end_of_the_instrument_knows_them(testbed, rack):
    def offered(line):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        environment = {**os.environ, **words, "_TESTBED_COMPLETE": "complete_bash"}
        done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    of_switch, of_power = (offered(f"testbed twin fault {rack} {one} ") for one in ("ocs", "pdu"))
    assert {"stuck", "silent"} <= set(of_switch)
    (only, *_) = sorted(set(of_switch) - set(of_power))
    assert testbed("twin", "fault", rack, "pdu", only).code == 2
    assert "silent" in of_power
    assert offered(f"testbed twin fault {rack} osc ") == []
