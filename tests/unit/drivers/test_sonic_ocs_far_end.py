"""The SONiC far end: configuration and hardware, and its command line, on a clock moved by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.sites import SshFarEnd, SwitchSite
from testbed.secret import Secret
from testbed_drivers.switches.descriptors.sonic_ocs import SonicOcsOptions
from testbed_drivers.switches.sonic_ocs_far_end import (
    CIRCUIT_COLUMNS,
    STATUS_COLUMNS,
    SonicOcsFarEnd,
    table,
)
from testbed_drivers.switches.sonic_text import (
    circuit_id,
    circuit_statuses,
    configured_circuits,
    facts,
    port_counts,
)
from tests.contract.virtual_time import VirtualTime

SETTLE = 0.1


class Box:
    """A switch of 12 A-side and 13 B-side ports, its time and the light it showed."""

    def __init__(self, **options):
        self.time = VirtualTime()
        self.lit = {}
        ingress, egress = frozenset(range(1, 13)), frozenset(range(13, 26))
        site = SwitchSite(ingress, egress, "S1", SETTLE, 1, self.time, self._hear)
        self.far_end = SonicOcsFarEnd(site, SonicOcsOptions(**options))
        self.said = []
        self.ends = []
        self.line = self.far_end.session(self.said.append, hang_up=lambda: self.ends.append(1))

    def _hear(self, lit):
        self.lit = lit

    def say(self, command):
        """Run a command; return its output and exit status."""
        self.said.clear()
        self.line.receive(command.encode() + b"\n")
        text, _, status = b"".join(self.said).rpartition(b"\0")
        return text.decode(), int(status)

    def config(self, rest):
        return self.say(f"sudo config ocs cross-connect {rest}")

    def refused(self, rest):
        """Return the words of a refusal."""
        text, status = self.config(rest)
        assert status
        return text

    @property
    def configured(self):
        return configured_circuits(self.say("show ocs cross-connect config")[0])

    @property
    def status(self):
        return circuit_statuses(self.say("show ocs cross-connect status")[0])


@pytest.fixture
def box():
    return Box()


def test_the_version_command_reports_the_identity(box):
    said = facts(box.say("show version")[0])
    assert said["Serial Number"] == "S1"
    assert said["HwSKU"] == "OCS-12x13"
    assert port_counts(box.say("show ocs port config")[0]) == (12, 13)


def test_tables_have_the_format_of_the_sonic_design_document(box):
    box.config("add 1A-1B,12A-2B safe")
    assert box.say("show ocs cross-connect config")[0] == (
        "id      a_side  b_side\n------  ------  ------\n1A-1B   1A      1B\n12A-2B  12A     2B\n"
    )


def test_a_circuit_is_tuning_until_it_has_settled(box):
    assert box.config("add 1A-1B safe") == ("Add cross-connect succeeded\n", 0)
    assert box.status == {(1, 1): ("tuning", "tuning")}
    assert box.lit == {}
    box.time.advance(SETTLE)
    assert box.status == {(1, 1): ("tuned", "tuned")}
    assert box.lit == {1: 13}


def test_ranges_and_lists_of_circuits_are_carried_out_as_one_command(box):
    box.config("add 1A..3A-11B..13B,5a-1b safe")
    assert box.configured == [(1, 11), (2, 12), (3, 13), (5, 1)]
    assert box.config("delete 2A..3A-12B..13B")[1] == 0
    assert box.configured == [(1, 11), (5, 1)]


@pytest.mark.parametrize(
    "circuits",
    ["1B-1A", "1-1", "1A-", "13A-1B", "1A-14B", "0A-1B", "1A..3A-1B..2B", "3A..1A-3B..1B", "x"],
)
def test_an_invalid_circuit_is_refused_and_nothing_is_changed(box, circuits):
    assert "Error: Invalid" in box.refused(f"add 2A-2B,{circuits} safe")
    assert box.configured == []


def test_a_port_is_named_once_in_a_list(box):
    assert "named twice" in box.refused("add 1A-1B,1A-2B safe")


def test_mode_safe_refuses_a_used_port_and_changes_nothing(box):
    box.config("add 1A-1B safe")
    assert "in use by 1A-1B" in box.refused("add 3A-3B,2A-1B safe")
    assert box.configured == [(1, 1)]
    assert box.config("add 1A-1B safe")[1] == 0


def test_mode_update_removes_conflicting_circuits_and_overwrite_all_others(box):
    box.config("add 1A-1B,2A-2B,3A-3B")
    box.config("add 1A-2B update")
    assert box.configured == [(1, 2), (3, 3)]
    box.config("add 4A-4B overwrite")
    assert box.configured == [(4, 4)]
    assert [*box.status] == [(4, 4)]


def test_only_configured_circuits_can_be_deleted(box):
    box.config("add 1A-1B safe")
    assert "cross-connect 2A-2B does not exist" in box.refused("delete 1A-1B,2A-2B")
    assert box.configured == [(1, 1)]


def test_a_stale_circuit_is_removed_only_by_adding_and_deleting_it(box):
    box.config("add 1A-1B safe")
    box.far_end.fault("stale-circuit", port=1)
    box.config("delete 1A-1B")
    box.far_end.clear()
    assert box.configured == []
    assert [*box.status] == [(1, 1)]
    assert "does not exist" in box.refused("delete 1A-1B")
    assert "in use by 1A-1B" in box.refused("add 1A-2B safe")
    box.config("add 1A-1B update")
    box.config("delete 1A-1B")
    assert not box.status


def test_changes_of_the_configuration_are_saved_at_once(box):
    box.config("add 1A-1B safe")
    box.far_end.fault("restart")
    box.time.advance(SETTLE)
    assert box.ends
    assert box.configured == [(1, 1)]
    assert box.lit == {1: 13}


def test_a_wrong_restart_lets_configuration_and_hardware_disagree(box):
    box.config("add 1A-1B,2A-2B safe")
    box.far_end.fault("restart-wrong")
    assert box.configured == [(1, 1), (2, 2)]
    assert [*box.status] == [(1, 2), (2, 1)]


def test_another_client_deletes_the_circuit_of_one_port(box):
    box.config("add 1A-1B,2A-2B safe")
    box.far_end.fault("meddled", port=14)
    assert box.configured == [(1, 1)]
    assert [*box.status] == [(1, 1)]


def test_a_failed_port_is_reported_on_its_side(box):
    box.far_end.fault("failed", port=1)
    box.config("add 1A-1B safe")
    box.time.advance(SETTLE)
    assert box.status == {(1, 1): ("failed", "tuned")}
    assert box.lit == {}


def test_faults_of_the_command_line_change_no_circuit(box):
    box.far_end.fault("error", command="add", count=1)
    assert "Error: the operation failed" in box.refused("add 1A-1B safe")
    box.far_end.fault("busy", delay=1.0)
    assert "Error: the switch is busy" in box.refused("add 1A-1B safe")
    assert box.configured == []
    box.time.advance(1.0)
    assert box.config("add 1A-1B safe")[1] == 0


@pytest.mark.parametrize(
    ("command", "words", "status"),
    [
        ("config ocs cross-connect add 1A-1B safe", "Root privileges are required", 1),
        ("sudo config ocs cross-connect add 1A-1B boldly", "Error: Invalid arguments", 2),
        ("show clock", 'Error: No such command "clock" of show.', 2),
        ("reboot", "bash: reboot: command not found", 127),
        ("show 'version", "bash: No closing quotation", 2),
        ("", "", 0),
    ],
)
def test_other_commands_fail_as_in_a_shell(box, command, words, status):
    text, code = box.say(command)
    assert words in text
    assert code == status


def test_only_configured_users_can_log_in(tmp_path):
    (tmp_path / "word").write_text("sesame\n")
    box = Box(password=Secret(file=str(tmp_path / "word")))
    assert isinstance(box.far_end, SshFarEnd)
    assert box.far_end.admits("admin", "sesame")
    assert box.far_end.admits("admin", None)
    assert not box.far_end.admits("admin", "hunter2")
    box.far_end.fault("login-rejected", count=1)
    assert not box.far_end.admits("admin", "sesame")
    assert Box().far_end.admits("admin", "anything")


CIRCUITS = st.tuples(st.integers(1, 999), st.integers(1, 999))


@given(st.lists(CIRCUITS, unique=True))
def test_a_table_reads_back_as_it_was_written(some):
    rows = [(name, *name.split("-")) for name in map(circuit_id, some)]
    assert configured_circuits(table(CIRCUIT_COLUMNS, rows)) == some
    told = table(STATUS_COLUMNS, [(*row, "tuned", "tuning") for row in rows])
    assert circuit_statuses(told) == dict.fromkeys(some, ("tuned", "tuning"))
