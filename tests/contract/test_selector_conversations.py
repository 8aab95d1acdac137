"""The commands of the drivers of small switches, byte by byte, and how replies are read."""

import pytest

from testbed.clock import Deadline
from testbed.errors import Garbled, InstrumentError, NoReply, Rejected, UsageError
from testbed.fabric.change import Change
from tests.contract.scripted import DRAINED, NO_ERROR

DICON = (b"ID?\r", b"\nDiCon,MEMS-1x4,S1,1.0\r\n")
DICON_OPENING = [DICON, DICON, (b"CF?\r", b"\n1,4\r\n")]
MXS = [(b"*IDN?\r", b"DiCon,MXS-9100,S1,1.0\r"), (b":SYST:ERR?\r", NO_ERROR[:-1] + b"\r")]
SANTEC = [(b"*IDN?\n", b"Santec,OSX-100,S1,1.0\n"), (b":SYST:ERR?\n", NO_ERROR)]
MZI = [(b"*IDN?\n", b"House,MZI-2x2,S1,1.0\n"), (b":SYST:ERR?\n", NO_ERROR)]


def soon():
    return Deadline.after(5)


def opened(driver):
    driver.open(soon())
    return driver


def channel(number):
    return b"I1?\r", b"\n%d\r\n" % number


@pytest.fixture
def dicon(script):
    script.line(*DICON_OPENING)
    return opened(script.driver("dicon", serial=True))


class TestDicon:
    def test_opening_reads_the_number_of_channels_and_a_parked_switch_has_no_circuit(
        self, script, dicon
    ):
        script.opened[0].then(channel(0))
        assert dicon.capabilities.egress == {2, 3, 4, 5}
        assert dicon.capabilities.positions == ()
        assert dicon.state(soon()) == {}

    def test_a_move_sends_a_query_a_command_and_a_read_back(self, script, dicon):
        told = (b"I1 3\rI1?\r", b"\n3\r\n")
        script.opened[0].then(channel(1), told, channel(3))
        assert dicon.apply(Change({1: 2}, {1: 4}), soon()).state == {1: 4}

    def test_parking_removes_a_circuit(self, script, dicon):
        told = (b"I1 0\rI1?\r", b"\n0\r\n")
        script.opened[0].then(channel(1), told, channel(0))
        assert dicon.apply(Change({1: 2}, {}), soon()).state == {}

    def test_an_existing_circuit_is_not_commanded_again(self, script, dicon):
        script.opened[0].then(channel(3), channel(3))
        assert dicon.apply(Change({1: 2}, {1: 4}), soon()).state == {1: 4}

    def test_a_move_that_would_remove_an_unnamed_circuit_is_not_sent(self, script, dicon):
        script.opened[0].then(channel(1))
        with pytest.raises(Rejected, match="would remove 1→2"):
            dicon.apply(Change({}, {1: 4}), soon())

    def test_a_move_without_a_reply_is_not_resent(self, script, dicon):
        script.opened[0].then(channel(0), (b"I1 3\rI1?\r", None))
        script.line(DICON, channel(3))
        with pytest.raises(NoReply):
            dicon.apply(Change({}, {1: 4}), soon())
        assert dicon.state(soon()) == {1: 4}

    @pytest.mark.parametrize("trouble", [None, b"\n5\r\n", b"\n-1\r\n", b"\n\xb3\r\n", b"\nhm\r\n"])
    def test_a_failed_read_is_repeated_once_on_a_new_connection(self, script, dicon, trouble):
        script.opened[0].then((b"I1?\r", trouble))
        script.line(DICON, channel(2))
        assert dicon.state(soon()) == {1: 3}

    def test_replies_to_earlier_queries_are_skipped_on_a_new_connection(self, script):
        script.line((b"ID?\r", b"\n3\r\n\n1,4\r\n" + DICON[1] + b"\n7\r\n"), *DICON_OPENING[1:])
        assert opened(script.driver("dicon", serial=True)).capabilities.egress == {2, 3, 4, 5}

    def test_a_device_that_never_reports_its_identity_is_refused(self, script):
        for _ in range(2):
            script.line((b"ID?\r", b"\n3\r\n" * 8))
        with pytest.raises(Garbled, match="sent no valid answer to 'ID\\?'"):
            script.driver("dicon", serial=True).open(soon())

    def test_a_serial_number_other_than_that_of_the_lab_file_is_refused(self, script):
        script.line(DICON)
        with pytest.raises(InstrumentError, match="S1 instead of S2"):
            script.driver("dicon", serial=True, identity="S2").open(soon())

    def test_an_identity_in_another_form_is_accepted_where_the_lab_file_gives_it(self, script):
        other = (b"ID?\r", b"\nGP module 17\r\n")
        script.line(other, other, DICON_OPENING[2])
        driver = script.driver("dicon", serial=True, identity="GP module 17")
        who = driver.open(soon())
        # It may be what many modules say: two boxes are never taken for one by it.
        assert (who.model, who.serial) == ("GP module 17", "")


class TestDiconMxs:
    @pytest.fixture
    def mxs(self, script):
        script.line(*MXS, MXS[0])
        return opened(script.driver("dicon-mxs", size=(2, 3)))

    @staticmethod
    def outputs(*numbers):
        return b":ROUT1:SCAN?;:ROUT2:SCAN?\r", ";".join(map(str, numbers)).encode() + b"\r"

    @staticmethod
    def told(text):
        return text + b";:SYST:ERR?\r", NO_ERROR[:-1] + b"\r"

    def test_a_reply_with_output_0_is_read_as_no_circuit(self, script, mxs):
        script.opened[0].then(self.outputs(0, 3))
        assert mxs.state(soon()) == {2: 5}

    def test_a_move_sends_one_command_for_each_input(self, script, mxs):
        said = self.told(b":ROUT1:SCAN 2")
        script.opened[0].then(self.outputs(1, 0), MXS[1], said, self.outputs(2, 0))
        assert mxs.apply(Change({1: 3}, {1: 4}), soon()).state == {1: 4}

    def test_an_output_is_disconnected_before_another_input_is_connected_to_it(self, script, mxs):
        said = self.told(b":ROUT1:SCAN 0;:ROUT2:SCAN 0;:ROUT1:SCAN 2;:ROUT2:SCAN 1")
        script.opened[0].then(self.outputs(1, 2), MXS[1], said, self.outputs(2, 1))
        assert mxs.apply(Change({1: 3, 2: 4}, {1: 4, 2: 3}), soon()).state == {1: 4, 2: 3}

    def test_an_output_in_use_by_another_input_is_not_taken(self, script, mxs):
        script.opened[0].then(self.outputs(1, 0))
        with pytest.raises(Rejected, match="would remove 1→3"):
            mxs.apply(Change({}, {2: 3}), soon())

    def test_all_circuits_are_unsteady_until_the_switch_is_ready(self, script, mxs):
        busy, ready = (b":STAT?\r", b"BUSY\r"), (b":STAT?\r", b"READY\r")
        script.opened[0].then(busy, self.outputs(1, 2), ready)
        assert mxs.unsteady(soon()) == {1: "BUSY", 2: "BUSY"}
        assert mxs.unsteady(soon()) == {}

    @pytest.mark.parametrize("order", ["WEN 1", "wen 1", "*RST", ":STAT?;WEN 1"])
    def test_commands_that_wear_the_switch_or_end_circuits_are_never_sent(self, mxs, order):
        with pytest.raises(UsageError, match="is never sent"):
            mxs._dialect.execute([order], soon())


class TestSantec:
    @pytest.fixture
    def santec(self, script):
        catalogue = (b":MOD:CAT?\n", b'"SX 1Ax24","SX 1Ax4"\n')
        script.line(*SANTEC, SANTEC[0], catalogue)
        return opened(script.driver("santec", module=2))

    def test_opening_reads_the_channels_of_a_module_that_is_always_connected(self, santec):
        assert santec.capabilities.positions == ({1: 2}, {1: 3}, {1: 4}, {1: 5})

    def test_a_switch_is_unsteady_after_the_answer_until_its_move_is_done(self, script, santec):
        script.opened[0].then(
            (b":ROUT2:CHAN?\n", b"1\n"),
            DRAINED,
            (b":ROUT2:CHAN 4;:SYST:ERR?\n", NO_ERROR),
            (b":ROUT2:CHAN?\n", b"4\n"),
            (b":STAT:OPER:COND?\n", b"1\n"),
            (b":STAT:OPER:COND?\n", b"0\n"),
        )
        assert santec.apply(Change({1: 2}, {1: 5}), soon()).state == {1: 5}
        assert list(santec.unsteady(soon())) == [1]
        assert santec.unsteady(soon()) == {}

    def test_removing_the_circuit_of_an_always_connected_switch_is_refused(self, script, santec):
        script.opened[0].then((b":ROUT2:CHAN?\n", b"1\n"))
        with pytest.raises(UsageError, match="cannot be at dark; it is always at one of: 1→2; 1→3"):
            santec.apply(Change({1: 2}, {}), soon())

    def test_an_absent_module_is_an_error(self, script):
        for opening in ([*SANTEC, SANTEC[0]], SANTEC):
            script.line(*opening, (b":MOD:CAT?\n", b'"SX 1Ax24"\n'))
        with pytest.raises(Garbled, match="no channels of module 3"):
            script.driver("santec", module=3).open(soon())


class TestThorlabs:
    @pytest.fixture
    def osw(self, script):
        script.line((b"S?\n", b"1\r\n"), (b"S?\n", b"1\r\n"))
        return opened(script.driver("thorlabs", serial=True, identity=None))

    def test_the_first_position_read_after_a_move_is_ignored(self, script, osw):
        said = (b"S 2\nS?\n", b"1\r\n")
        script.opened[0].then((b"S?\n", b"1\r\n"), said, (b"S?\n", b"2\r\n"))
        assert osw.apply(Change({1: 3, 2: 4}, {1: 4, 2: 3}), soon()).state == {1: 4, 2: 3}

    def test_a_switch_with_one_input_has_two_channels(self, script):
        script.line((b"S?\n", b"2\r\n"), (b"S?\n", b"2\r\n"))
        osw = script.driver("thorlabs", serial=True, identity=None, model="OSW12")
        assert str(osw.open(soon())) == "Thorlabs OSW12"
        assert osw.capabilities.positions == ({1: 2}, {1: 3})

    def test_a_position_set_in_part_counts_as_no_circuit(self, script, osw):
        script.opened[0].then((b"S?\n", b"1\r\n"))
        with pytest.raises(UsageError, match=r"cannot be at 1→3;"):
            osw.apply(Change({2: 4}, {}), soon())
        with pytest.raises(
            UsageError, match=r"cannot be at 1→3 2→3|two inputs are to be connected"
        ):
            osw.apply(Change({}, {1: 3, 2: 3}), soon())

    def test_a_lab_file_with_a_serial_number_is_refused(self, script):
        with pytest.raises(UsageError, match="does not report its serial number; leave out"):
            script.driver("thorlabs", serial=True)


class TestMzi:
    @pytest.fixture
    def mzi(self, script):
        script.line(*MZI, MZI[0])
        return opened(script.driver("mzi", element=7))

    def test_a_position_is_commanded_by_its_name(self, script, mzi):
        asked = b":ROUT7:STAT?\n"
        said = (b":ROUT7:STAT CROSS;:SYST:ERR?\n", NO_ERROR)
        script.opened[0].then((asked, b"BAR\n"), DRAINED, said, (asked, b"CROSS\n"))
        assert mzi.apply(Change({1: 3, 2: 4}, {1: 4, 2: 3}), soon()).state == {1: 4, 2: 3}

    def test_a_phase_between_the_positions_is_no_circuit(self, script, mzi):
        script.opened[0].then((b":ROUT7:STAT?\n", b"NONE\n"))
        assert mzi.state(soon()) == {}
