"""The far ends of small switches as state machines, on a clock that only moves when told."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.sites import SwitchSite
from testbed_drivers.switches.agiltron_far_end import AgiltronFarEnd
from testbed_drivers.switches.descriptors.selectors import (
    AgiltronOptions,
    DiconMxsOptions,
    SantecOptions,
    ThorlabsOptions,
)
from testbed_drivers.switches.dicon_far_end import DiconFarEnd
from testbed_drivers.switches.dicon_mxs_far_end import DiconMxsFarEnd
from testbed_drivers.switches.mzi_far_end import EXTINCTION, MziFarEnd, share
from testbed_drivers.switches.santec_far_end import SantecFarEnd
from testbed_drivers.switches.thorlabs_far_end import ThorlabsFarEnd
from tests.contract.virtual_time import VirtualTime

SETTLE = 0.01
BAR = {1: 3, 2: 4}
CROSS = {1: 4, 2: 3}


class Box:
    """A small switch, its time, the light it shows, and what it last said."""

    def __init__(self, far_end, ingress, egress, options=None, *, end=b"\n"):
        self.time = VirtualTime()
        self.lit = None
        self.launched = {}
        site = SwitchSite(
            ingress=frozenset(ingress),
            egress=frozenset(egress),
            serial="S1",
            settle=SETTLE,
            seed=1,
            scheduler=self.time,
            lit=self._hear,
            launched=lambda port: self.launched.get(port, 0.0),
        )
        self.site = site
        self.far_end = far_end(site, options)
        self._end = end
        self._said = []
        self._line = self.far_end.session(self._said.append, serial=True)

    def _hear(self, lit):
        self.lit = lit

    def say(self, line):
        """Send a line; return all that came back, as it is on the wire."""
        self._said.clear()
        self._line.receive(line.encode() + self._end)
        return b"".join(self._said)

    def hear(self, *pieces):
        """Send bytes in pieces; return all that came back, in hexadecimal."""
        self._said.clear()
        for piece in pieces:
            self._line.receive(bytes.fromhex(piece))
        return b"".join(self._said).hex(" ")

    def settle(self):
        self.time.advance(20 * SETTLE)
        return self.lit


@pytest.fixture
def dicon():
    return Box(DiconFarEnd, [1], range(2, 6), end=b"\r")


@pytest.fixture
def mxs():
    return Box(DiconMxsFarEnd, [1, 2], [3, 4, 5], DiconMxsOptions(size=(2, 3)), end=b"\r")


@pytest.fixture
def santec():
    return Box(SantecFarEnd, [1], range(2, 6), SantecOptions(module=2))


@pytest.fixture
def osw():
    return Box(ThorlabsFarEnd, [1, 2], [3, 4])


@pytest.fixture
def mzi():
    return Box(MziFarEnd, [1, 2], [3, 4])


class TestDicon:
    def test_a_reply_is_preceded_by_an_empty_line(self, dicon):
        assert dicon.say("ID?") == b"\nDiCon,MEMS-1x4,S1,1.0\r\n"
        assert dicon.say("CF?") == b"\n1,4\r\n"

    def test_a_set_command_has_no_reply_and_the_light_follows_after_settling(self, dicon):
        assert dicon.say("I1 3") == b""
        assert dicon.say("I1?") == b"\n3\r\n"
        dicon.time.advance(0.99 * SETTLE)
        assert not dicon.lit
        assert dicon.settle() == {1: 4}

    def test_a_moved_switch_is_dark_at_once_and_a_parked_one_stays_dark(self, dicon):
        dicon.say("I1 3")
        dicon.settle()
        dicon.say("I1 1")
        assert dicon.lit == {}
        assert dicon.settle() == {1: 2}
        dicon.say("PK")
        assert dicon.settle() == {}
        assert dicon.say("I1?") == b"\n0\r\n"

    @pytest.mark.parametrize("line", ["", "I1", "I1 5", "I1 -1", "I2 1", "NONSENSE"])
    def test_an_unknown_command_is_ignored(self, dicon, line):
        dicon.say("I1 2")
        assert dicon.say(line) == b""
        assert dicon.say("I1?") == b"\n2\r\n"

    def test_a_lab_that_lists_few_ports_still_has_one_common_fibre(self):
        box = Box(DiconFarEnd, [1, 3], [5], end=b"\r")
        assert (box.site.ingress, box.site.egress) == ({1}, {2, 3, 4, 5})


class TestDiconMxs:
    def test_a_scan_moves_its_input_from_any_output(self, mxs):
        mxs.say("ROUTE1:SCAN 1")
        mxs.say("rout1:scan 3")
        assert mxs.say("ROUT1:SCAN?;:ROUT2:SCAN?") == b"3;0\r"
        assert mxs.settle() == {1: 5}

    def test_connecting_an_input_to_output_0_removes_its_circuit(self, mxs):
        mxs.say("ROUT2:SCAN 2;SCAN 0")
        assert (mxs.say("ROUT2:SCAN?"), mxs.settle()) == (b"0\r", None)

    def test_an_output_in_use_is_refused(self, mxs):
        mxs.say("ROUT1:SCAN 2")
        mxs.say("ROUT2:SCAN 2")
        assert mxs.say("SYST:ERR?") == b'-221, "Settings conflict; output 2 is in use"\r'
        assert mxs.say("ROUT2:SCAN?") == b"0\r"

    @pytest.mark.parametrize(("conflict", "lit"), [("move", {2: 4}), ("ignore", {1: 4, 2: 3})])
    def test_an_output_in_use_is_moved_or_refused_as_the_characterisation_card_says(
        self, mxs, conflict, lit
    ):
        mxs.site.conflict = conflict
        mxs.say("ROUT1:SCAN 2;:ROUT2:SCAN 1")
        mxs.say("ROUT2:SCAN 2")
        assert mxs.say("SYST:ERR?") == b'0, "No error"\r'
        assert mxs.settle() == lit

    def test_the_status_query_answers_busy_or_ready(self, mxs):
        mxs.say("ROUT1:SCAN 2")
        assert mxs.say("STAT?") == b"BUSY\r"
        mxs.settle()
        assert mxs.say("STATUS?") == b"READY\r"
        mxs.far_end.fault("failed", port=2)
        mxs.say("ROUT2:SCAN 1")
        mxs.settle()
        assert mxs.say("STATUS?") == b"DEFECTIVE\r"

    def test_an_error_queue_of_eight_drops_new_errors(self, mxs):
        mxs.say("ROUT1:SCAN 9")
        for _ in range(20):
            mxs.say("NONSENSE")
        rows = [mxs.say("SYST:ERR?") for _ in range(9)]
        assert rows[0].startswith(b"-222")
        assert all(row.startswith(b"-113") for row in rows[1:8])
        assert rows[8] == b'0, "No error"\r'

    def test_moves_wear_out_its_memory_only_once_that_is_enabled(self, mxs):
        mxs.say("ROUT1:SCAN 1")
        assert mxs.say("QCT?") == b"0\r"
        mxs.say("WEN 1;:ROUT1:SCAN 2;:ROUT1:SCAN 2;:ROUT1:SCAN 0")
        assert mxs.say("QCT?") == b"2\r"


class TestSantec:
    def test_a_module_is_connected_from_the_start_and_replies_before_a_move_ends(self, santec):
        assert santec.lit == {1: 2}
        assert santec.say("ROUT2:CHAN 3;:STAT:OPER:COND?;:ROUT2:CHAN?") == b"1;3\n"
        assert santec.lit == {}
        assert santec.settle() == {1: 4}
        assert santec.say("STATus:OPERation:CONDition?") == b"0\n"

    def test_close_selects_a_channel_or_the_next_one(self, santec):
        for line, channel in (("CLOS 4", b"4\n"), ("CLOSE", b"1\n"), ("CLOSE", b"2\n")):
            santec.say(line)
            assert santec.say("CLOSE?") == channel

    def test_modules_and_channels_are_listed(self, santec):
        assert santec.say("MOD:CAT?") == b'"SX 1Ax4","SX 1Ax4"\n'
        assert santec.say("MOD:NUM?;:CFG:SWT:END?") == b"2;4\n"

    @pytest.mark.parametrize("line", ["ROUT2:CHAN 0", "ROUT2:CHAN 5", "CLOS x", "ROUT1:CHAN 1"])
    def test_an_invalid_channel_moves_nothing_and_queues_an_error(self, santec, line):
        assert santec.say(line) == b""
        assert santec.say("ROUT2:CHAN?") == b"1\n"
        assert santec.say("SYST:ERR?").startswith(b"-")

    def test_after_a_power_loss_the_module_is_at_channel_1_or_misrouted(self, santec):
        santec.say("CLOS 3")
        santec.settle()
        santec.far_end.fault("restart")
        assert (santec.say("CLOS?"), santec.settle()) == (b"1\n", {1: 2})
        santec.far_end.fault("restart-wrong")
        assert (santec.say("CLOS?"), santec.settle()) == (b"4\n", {1: 5})


class TestThorlabs:
    def test_the_first_position_read_after_a_move_is_the_old_one(self, osw):
        assert osw.say("S 2") == b""
        assert [osw.say("S?"), osw.say("S?")] == [b"1\r\n", b"2\r\n"]
        assert osw.settle() == CROSS

    def test_a_switch_with_one_input_has_two_channels(self):
        osw = Box(ThorlabsFarEnd, [1], [2, 3], ThorlabsOptions(model="OSW12"))
        assert osw.lit == {1: 2}
        osw.say("S 2")
        assert osw.settle() == {1: 3}

    @pytest.mark.parametrize("line", ["S 3", "S", "s 2", "ID?"])
    def test_an_unknown_command_is_ignored(self, osw, line):
        assert osw.say(line) == b""
        assert osw.say("S?") == b"1\r\n"


class TestAgiltron:
    @pytest.fixture
    def switch(self):
        return Box(AgiltronFarEnd, [1], range(2, 6), AgiltronOptions(channels=4))

    def test_a_move_frame_is_echoed_and_the_light_follows(self, switch):
        assert switch.hear("01 12 00 03") == "01 12 00 03"
        assert switch.hear("01 11 00 00") == "01 11 00 03"
        assert switch.lit == {}
        assert switch.settle() == {1: 4}

    def test_frames_may_come_in_pieces_and_two_in_one(self, switch):
        assert switch.hear("01", "12 00", "02 01 11", "00 00") == "01 12 00 02 01 11 00 02"

    def test_an_incomplete_frame_before_a_pause_is_discarded(self, switch):
        assert switch.hear("01 12 00") == ""
        switch.time.advance(0.1)
        assert switch.hear("01 11 00 00") == "01 11 00 01"

    @pytest.mark.parametrize("frame", ["01 12 00 00", "01 12 00 05", "01 12 01 02", "02 11 00 00"])
    def test_an_unknown_command_is_ignored(self, switch, frame):
        assert switch.hear(frame) == ""
        assert switch.hear("01 11 00 00") == "01 11 00 01"

    def test_a_fault_finds_a_frame_by_its_bytes(self, switch):
        switch.far_end.fault("silent", command="01 12")
        assert switch.hear("01 12 00 03", "01 11 00 00") == "01 11 00 03"


class TestMzi:
    def test_bar_and_cross_positions_are_phases_of_the_interferometer(self, mzi):
        assert (mzi.lit, mzi.say("ROUT1:PHAS?")) == (BAR, b"3.141593\n")
        mzi.say("ROUT1:STAT cross")
        assert (mzi.settle(), mzi.say("ROUT1:STAT?;PHAS?")) == (CROSS, b"CROSS;0.000000\n")

    def test_a_phase_between_the_positions_carries_no_circuit(self, mzi):
        mzi.say(f"ROUT1:PHAS {math.pi / 2}")
        assert (mzi.say("ROUT1:STAT?"), mzi.settle()) == (b"NONE\n", {})

    def test_a_little_crosstalk_is_tolerated(self, mzi):
        mzi.say("ROUT1:PHAS 2.8")
        assert (mzi.say("ROUT1:STAT?"), mzi.settle()) == (b"BAR\n", BAR)

    def test_a_half_switched_element_reads_back_as_switched_and_carries_no_circuit(self, mzi):
        mzi.far_end.fault("half-switched", count=1)
        mzi.say("ROUT1:STAT CROSS")
        assert (mzi.say("ROUT1:STAT?"), mzi.settle()) == (b"CROSS\n", {})
        mzi.say("ROUT1:STAT BAR;STAT CROSS")
        assert mzi.settle() == CROSS

    def test_half_of_the_power_of_a_single_input_is_enough(self, mzi):
        mzi.launched[2] = None
        mzi.far_end.fault("half-switched")
        mzi.say("ROUT1:STAT CROSS")
        assert mzi.settle()[1] == 4
        assert mzi.site.leaving(4) == pytest.approx(-4, abs=1.1)

    @pytest.mark.parametrize(
        "line", ["ROUT1:STAT UP", "ROUT1:PHAS x", "ROUT1:PHAS 4", "ROUT1:PHAS nan"]
    )
    def test_an_invalid_value_changes_nothing_and_queues_an_error(self, mzi, line):
        assert mzi.say(line) == b""
        assert mzi.say("ROUT1:STAT?") == b"BAR\n"
        assert mzi.say("SYST:ERR?").startswith(b"-")

    @given(st.floats(0, math.pi))
    def test_the_power_of_an_input_is_divided_between_both_outputs(self, phase):
        bar, cross = share(phase), 1 - share(phase)
        assert 0 <= bar <= 1
        assert bar + cross == pytest.approx(1)
        mzi = Box(MziFarEnd, [1, 2], [3, 4])
        mzi.say(f"ROUT1:PHAS {phase}")
        mzi.settle()
        levels = [mzi.site.leaving(port) for port in (3, 4)]
        assert all(level is None or -EXTINCTION - 2 <= level <= 0 for level in levels)


@pytest.mark.parametrize(
    ("name", "line"), [("santec", "CLOS 4"), ("osw", "S 2"), ("dicon", "I1 4")]
)
class TestEverySelector:
    @pytest.fixture
    def box(self, request, name):
        return request.getfixturevalue(name)

    def test_a_stuck_switch_stays_lit_at_its_old_position(self, box, line):
        before = box.lit
        box.far_end.fault("stuck")
        box.say(line)
        assert box.settle() == before

    def test_a_false_read_back_shows_only_in_the_light(self, box, line):
        before = box.lit
        box.far_end.fault("lie", count=1)
        box.say(line)
        assert box.settle() == before

    def test_a_user_at_the_front_panel_moves_the_switch(self, box, line):
        box.say(line)
        before = box.settle()
        box.far_end.fault("meddled")
        assert box.settle() not in (before, None)

    def test_a_fault_armed_for_one_move_does_not_affect_the_next(self, box, line):
        box.far_end.fault("stuck", count=1)
        box.say(line)
        box.settle()
        before = box.lit
        box.say(line)
        assert box.settle() not in (before, {}, None)
