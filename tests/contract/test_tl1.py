"""What the TL1 drivers say, word by word, and what they make of every kind of answer."""

import pytest

from testbed.clock import Deadline
from testbed.errors import (
    Garbled,
    InstrumentError,
    LinkLost,
    NoReply,
    Rejected,
    UsageError,
)
from testbed.fabric.change import Change
from testbed.fabric.reading import DARK, NOT_MEASURED, measured
from testbed.secret import Secret
from testbed_drivers.dialects.options import Tl1Options
from testbed_drivers.dialects.tl1 import Tl1
from testbed_drivers.dialects.tl1_syntax import Request
from testbed_drivers.transports.base import Endpoint

HEADER = b"\r\n\n   OCS-A 26-11-21 08:30:01\r\n"
ALARM = HEADER + b'A  57 REPT EVT EQPT\r\n   "1.1.1>2.1.1:LOS,TC;"\r\n;'
LOGIN = b"ACT-USER::lab:%d::secret;"


def done(tag, *rows, end=b";", status=b"COMPLD"):
    lines = b"".join(b'   "%s"\r\n' % row for row in rows)
    return HEADER + b"M  %d %s\r\n%s%s" % (tag, status, lines, end)


def denied(tag, code=b"IEAE", comment=b"Invalid Connection"):
    return HEADER + b"M  %d DENY\r\n   %s\r\n   /* %s */\r\n;" % (tag, code, comment)


def row(source, destination, states=b"AS=IS,OS=IS,OC=OK", group=b"SYSTEM", kind=b"1WAY"):
    name = source + (b">" if kind == b"1WAY" else b"-") + destination
    return b"%s:SRCPORT=%s,DSTPORT=%s,GRPNAME=%s,CONNNAME=%s,CONNTYPE=%s,%s,PS=UPR,AL=CL" % (
        name,
        source,
        destination,
        group,
        name,
        kind,
        states,
    )


def login(tag):
    """Return how a Calient is greeted on a fresh line, from a tag on."""
    entity = b"SERIALNUMBER=S1,SWPACKAGE=6.1,STATUS=OK,CHASSISTYPE=S162"
    banner = (
        HEADER + b'M  %d COMPLD\r\n   "lab:lab,2"\r\n   /* Authorised\r\nuse only; */\r\n;' % tag
    )
    return [(LOGIN % tag, banner), (b"RTRV-NE:::%d;" % (tag + 1), done(tag + 1, entity))]


def listing(tag, *rows):
    return b"RTRV-CRS:::%d::ALL;" % tag, done(tag, *rows)


OPENING = [*login(1), (b"RTRV-NE:::3;", login(2)[1][1])]
A, B, C = b"1.1.1", b"1.1.2", b"1.2.1"


def soon():
    return Deadline.after(5)


@pytest.fixture
def account(tmp_path):
    word = tmp_path / "word"
    word.write_text("secret\n")
    return {"user": "lab", "password": Secret(file=str(word))}


def opened(script, driver, *pairs):
    """Return a driver that was opened, and the line that it is on, with more to be said there."""
    script.line(*pairs)
    driver.open(soon())
    return driver, script.opened[-1]


@pytest.fixture
def calient(script, account):
    """A Calient of four ports: light enters at 1-4 and leaves at 5-8."""
    return opened(script, script.driver("calient", shape="1x2x2", **account), *OPENING)


def order(verb, tag, payload, ends=b"1.1.1,1.1.2"):
    return b"%s::%s:%d::%s;" % (verb, ends, tag, payload)


ENTER = order(b"ENT-CRS", 5, b"SYSTEM,1WAY")
ACTIVATE = order(b"ACT-CRS", 6, b"1.1.1>1.1.2,SYSTEM")


class TestCalient:
    def test_opening_logs_in_reads_the_identity_and_records_no_password(self, script, calient):
        switch, _ = calient
        assert (switch.capabilities.ingress, switch.capabilities.egress) == (
            {1, 2, 3, 4},
            {5, 6, 7, 8},
        )
        assert ("send", b"ACT-USER::lab:1::***;") in script.trace
        assert not any(b"secret" in data for _, data in script.trace)

    def test_a_circuit_is_defined_then_put_in_service_then_read_back(self, calient):
        switch, line = calient
        line.then(
            listing(4),
            (ENTER, done(5)),
            (ACTIVATE, done(6)),
            listing(7, row(A, B, b"AS=IS,OS=RDY,OC=OK")),
            listing(8, row(A, B, b"AS=IS,OS=RDY,OC=OK")),
            listing(9, row(A, B, b"AS=IS,OS=RDY,OC=FAIL")),
            listing(10, row(A, B)),
        )
        assert switch.apply(Change({}, {1: 6}), soon()).state == {1: 6}
        assert switch.unsteady(soon()) == {1: "IS/RDY/OK"}
        assert switch.unsteady(soon()) == {1: "failed (IS/RDY/FAIL)"}
        assert switch.unsteady(soon()) == {}

    def test_a_circuit_is_taken_out_of_service_and_deleted_by_its_name(self, calient):
        switch, line = calient
        named = row(A, B).replace(b"CONNNAME=1.1.1>1.1.2", b"CONNNAME=patch 7")
        line.then(
            listing(4, named),
            (order(b"CANC-CRS", 5, b",SYSTEM,patch 7"), done(5)),
            (order(b"DLT-CRS", 6, b",SYSTEM,patch 7"), done(6)),
            listing(7),
        )
        assert switch.apply(Change({1: 6}, {}), soon()).state == {}

    def test_an_existing_circuit_is_not_ordered_and_an_absent_one_not_deleted(self, calient):
        switch, line = calient
        line.then(listing(4, row(A, B)), listing(5, row(A, B)))
        assert switch.apply(Change({2: 7}, {1: 6}), soon()).state == {1: 6}

    def test_several_circuits_are_sent_together_and_each_has_its_own_reply(self, calient):
        switch, line = calient
        ends = {5: b"1.1.1,1.1.1", 6: b"1.1.2,1.1.2"}
        enter = b"".join(order(b"ENT-CRS", tag, b"SYSTEM,1WAY", ends[tag]) for tag in ends)
        activate = order(b"ACT-CRS", 7, b"1.1.2>1.1.2,SYSTEM", ends[6])
        line.then(
            listing(4),
            (enter, done(6) + ALARM + denied(5)),  # not in the order of the commands
            (activate, done(7)),
            listing(8, row(B, B)),
            listing(9, row(B, B)),
        )
        applied = switch.apply(Change({}, {1: 5, 2: 6}), soon())
        assert applied.state == {2: 6}
        assert applied.refused == {1: "exists already or is in use (DENY IEAE Invalid Connection)"}

    def test_a_circuit_that_cannot_be_put_in_service_is_deleted_again(self, calient):
        switch, line = calient
        line.then(
            listing(4),
            (ENTER, done(5)),
            (ACTIVATE, denied(6, b"SROF", b"No light")),
            (order(b"DLT-CRS", 7, b",SYSTEM,1.1.1>1.1.2"), done(7)),
            listing(8),
        )
        with pytest.raises(Rejected, match=r"refused \+1→6: the operation failed \(DENY SROF"):
            switch.apply(Change({}, {1: 6}), soon())

    def test_no_circuit_is_made_on_a_port_that_was_not_freed(self, calient):
        switch, line = calient
        cancel = order(b"CANC-CRS", 5, b",SYSTEM,1.1.1>1.1.2")
        cancel += order(b"CANC-CRS", 6, b",SYSTEM,1.1.2>1.1.1", b"1.1.2,1.1.1")
        line.then(
            listing(4, row(A, B), row(B, A)),
            (cancel, denied(5, b"SARB", b"busy") + done(6)),
            (order(b"DLT-CRS", 7, b",SYSTEM,1.1.2>1.1.1", b"1.1.2,1.1.1"), done(7)),
            listing(8, row(A, B)),
            listing(9, row(A, B)),
        )
        applied = switch.apply(Change({1: 6, 2: 5}, {1: 5, 2: 6}), soon())
        assert applied.state == {1: 6}
        assert applied.refused == {
            1: "busy (DENY SARB busy)",
            2: "not tried: 1→6 is in the way",
        }

    def test_a_circuit_left_defined_by_an_interrupted_change_is_deleted_first(self, calient):
        switch, line = calient
        defined = b"AS=UMA,OS=RDY,OC=OK"
        line.then(
            listing(4, row(A, C, defined), row(B, C, defined, group=b"OTHERS")),
            (order(b"DLT-CRS", 5, b",SYSTEM,1.1.1>1.2.1", b"1.1.1,1.2.1"), done(5)),
            (ENTER.replace(b":5:", b":6:"), done(6)),
            (ACTIVATE.replace(b":6:", b":7:"), done(7)),
            listing(8, row(A, B)),
        )
        assert switch.apply(Change({}, {1: 6}), soon()).state == {1: 6}

    def test_circuits_with_another_label_are_never_deleted(self, calient):
        switch, line = calient
        line.then(listing(4, row(A, B, group=b"EXP7")))
        with pytest.raises(
            UsageError, match="a circuit of the group EXP7; only circuits of SYSTEM are removed"
        ):
            switch.apply(Change({1: 6}, {}), soon())

    def test_a_bidirectional_circuit_reads_as_two_pairs_and_is_deleted_as_a_whole(self, calient):
        switch, line = calient
        both = row(A, B, kind=b"2WAY")
        line.then(
            listing(4, both),
            listing(5, both),
            (order(b"CANC-CRS", 6, b",SYSTEM,1.1.1-1.1.2"), done(6)),
            (order(b"DLT-CRS", 7, b",SYSTEM,1.1.1-1.1.2"), done(7)),
            listing(8),
        )
        with pytest.raises(UsageError, match=r"1\.1\.1-1\.1\.2 is a circuit in both directions"):
            switch.apply(Change({1: 6}, {}), soon())
        assert switch.apply(Change({1: 6, 2: 5}, {}), soon()).state == {}

    def test_a_port_side_without_a_level_reads_as_not_measured(self, calient):
        switch, line = calient
        line.then((b"RTRV-PORT::1.1.1:4;", done(4, b"1.1.1:ALIAS=,INPWR=,OUTPWR=-4.5")))
        assert switch.power([1, 5], soon()) == {1: NOT_MEASURED, 5: measured(-4.5)}

    def test_power_is_read_port_by_port_and_a_missing_level_means_no_light(self, calient):
        switch, line = calient
        ask = b"RTRV-PORT::1.1.1:4;RTRV-PORT::1.2.2:5;"
        first = b"1.1.1:ALIAS=,INPWR=-3.1,OUTPWR=NONE,CONNNAME1=1.1.1>1.1.2"
        line.then((ask, done(4, first) + done(5, b"1.2.2:ALIAS=x,INPWR=NONE,OUTPWR=-4.5")))
        assert switch.power([1, 5, 8, 99], soon()) == {
            1: measured(-3.1),
            5: DARK,
            8: measured(-4.5),
            99: NOT_MEASURED,
        }

    @pytest.mark.parametrize(
        "answer",
        [
            done(4, row(A, b"5.8.8")),
            done(4, row(A, B), row(A, C)),
            done(4, b"1.1.1>1.1.2:SRCPORT=1.1.1"),
            done(4, b"nonsense"),
        ],
    )
    def test_a_listing_with_impossible_rows_is_requested_once_more(self, script, calient, answer):
        switch, line = calient
        line.then((listing(4)[0], answer))
        script.line(*login(5), listing(7, row(A, B)))
        assert switch.state(soon()) == {1: 6}

    def test_a_size_is_given_as_shelves_slots_and_ports(self, script, account):
        with pytest.raises(ValueError, match="shape '8x8' is not shelves, slots and ports"):
            script.driver("calient", shape="8x8", **account)


class TestEveryReply:
    """Of the dialect, whichever switch speaks it."""

    def test_alarms_are_noted_and_not_taken_for_the_reply(self, script, calient):
        switch, line = calient
        line.then((listing(4)[0], ALARM + ALARM + listing(4, row(A, B))[1]))
        assert switch.state(soon()) == {1: 6}
        assert script.trace.count(("note", b'alarm A: 57 REPT EVT EQPT "1.1.1>2.1.1:LOS,TC;"')) == 2

    def test_alarms_on_an_idle_connection_do_not_close_it(self, script, calient):
        switch, line = calient
        line.then(listing(4, row(A, B)))
        line.say(ALARM + ALARM)
        assert switch.state(soon()) == {1: 6}
        assert len(script.opened) == 1

    def test_an_unrequested_reply_makes_an_idle_connection_be_replaced(self, script, calient):
        switch, line = calient
        line.say(ALARM + done(2, b"late"))
        script.line(*login(4), listing(6, row(A, B)))
        assert switch.state(soon()) == {1: 6}
        assert line.closed

    def test_a_reply_with_another_tag_is_skipped(self, script, calient):
        switch, line = calient
        line.then((listing(4)[0], done(3, b"late") + listing(4, row(A, B))[1]))
        assert switch.state(soon()) == {1: 6}
        assert ("note", b"no command waits for the tag 3") in script.trace

    def test_a_reply_in_blocks_is_joined_despite_alarms_between_them(self, calient):
        switch, line = calient
        blocks = [done(4, row(A, B), end=b">"), ALARM, done(4, row(B, C)), ALARM]
        line.then((listing(4)[0], b"".join(blocks)))
        assert switch.state(soon()) == {1: 6, 2: 7}

    def test_an_acknowledgement_is_not_taken_for_the_reply_of_a_slow_command(self, calient):
        switch, line = calient
        line.then((listing(4)[0], b"\r\nIP 4\r\n<" + listing(4, row(A, B))[1]))
        assert switch.state(soon()) == {1: 6}

    def test_a_banner_before_a_reply_is_noted_in_the_transcript(self, script, calient):
        switch, line = calient
        line.then((listing(4)[0], b"*** maintenance at 22:00 ***\r\n" + listing(4)[1]))
        assert switch.state(soon()) == {}
        assert ("note", b"passed over: *** maintenance at 22:00 ***") in script.trace

    @pytest.mark.parametrize(
        "answer",
        [
            None,
            LinkLost("ocs", "hung up"),
            listing(4)[1].replace(b"COMPLD", b"COMPL\xc4"),
            listing(4)[1][:-1] + ALARM,  # the end of the answer was lost
            b"M  4 COMPLD;",
            b"who?<",
            HEADER + b"M  4 COMPLD\r\n   unquoted\r\n;",
        ],
    )
    def test_a_failed_read_is_repeated_once_on_a_new_connection(self, script, calient, answer):
        switch, line = calient
        line.then((listing(4)[0], answer))
        script.line(*login(5), listing(7, row(A, B)))
        assert switch.state(soon()) == {1: 6}
        assert line.closed

    def test_a_read_that_fails_twice_is_an_error(self, script, calient):
        switch, line = calient
        line.then((listing(4)[0], b"hello;"))
        script.line(*login(5), (listing(7)[0], b"hello;"))
        with pytest.raises(
            Garbled, match="sent a message that is not valid TL1: 'hello' has no header"
        ):
            switch.state(soon())

    def test_a_command_without_a_reply_is_not_resent(self, script, calient):
        switch, line = calient
        line.then(listing(4), (ENTER, None))
        script.line(*login(6), listing(8))
        with pytest.raises(NoReply, match=r"did not answer ENT-CRS 1\.1\.1,1\.1\.2 in time"):
            switch.apply(Change({}, {1: 6}), soon())
        assert switch.state(soon()) == {}

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (done(5, status=b"DELAY"), "answered ENT-CRS 1.1.1,1.1.2 with DELAY"),
            (b"\r\nNA 5\r\n<", "with NA: its outcome is unknown"),
        ],
    )
    def test_an_ambiguous_reply_closes_the_connection(self, calient, answer, words):
        switch, line = calient
        line.then(listing(4), (ENTER, answer))
        with pytest.raises(InstrumentError, match=words):
            switch.apply(Change({}, {1: 6}), soon())
        assert line.closed

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (denied(5, b"SARB"), "busy"),
            (b"\r\nRL 5\r\n<", "repeat later"),
            (done(5, status=b"PRTL"), "in part"),
            (HEADER + b"M  5 DENY\r\n;", "no reason given"),
        ],
    )
    def test_a_refusal_is_reported_with_its_meaning_and_keeps_the_connection(
        self, calient, answer, words
    ):
        switch, line = calient
        line.then(listing(4), (ENTER, answer), listing(6), listing(7))
        with pytest.raises(Rejected, match=words) as caught:
            switch.apply(Change({}, {1: 6}), soon())
        assert caught.value.reply
        assert switch.state(soon()) == {}

    def test_a_refused_query_is_an_error_and_not_repeated(self, calient):
        switch, line = calient
        line.then((listing(4)[0], denied(4, b"PIUC", b"no privilege")))
        with pytest.raises(Rejected, match="refused RTRV-CRS: that user may not do this"):
            switch.state(soon())


class TestLogin:
    def test_a_query_after_the_login_expired_is_repeated_after_a_new_login(self, script, calient):
        switch, line = calient
        line.then((listing(4)[0], denied(4, b"PLNA", b"Login Not Active")))
        script.line(*login(5), listing(7, row(A, B)))
        assert switch.state(soon()) == {1: 6}

    def test_only_commands_refused_for_an_expired_login_are_resent(self, script, calient):
        switch, line = calient
        first = order(b"ENT-CRS", 5, b"SYSTEM,1WAY", b"1.1.1,1.1.1")
        second = order(b"ENT-CRS", 6, b"SYSTEM,1WAY", b"1.1.2,1.1.2")
        line.then(listing(4), (first + second, done(5) + denied(6, b"PLNA")))
        activate = order(b"ACT-CRS", 10, b"1.1.1>1.1.1,SYSTEM", b"1.1.1,1.1.1")
        activate += order(b"ACT-CRS", 11, b"1.1.2>1.1.2,SYSTEM", b"1.1.2,1.1.2")
        script.line(
            *login(7),
            (second.replace(b":6:", b":9:"), done(9)),
            (activate, done(10) + done(11)),
            listing(12, row(A, A), row(B, B)),
        )
        assert switch.apply(Change({}, {1: 5, 2: 6}), soon()).state == {1: 5, 2: 6}
        assert line.closed

    def test_a_login_that_is_refused_is_not_tried_again(self, script, account):
        script.line((LOGIN % 1, denied(1, b"PIUI", b"Invalid User Identity")))
        with pytest.raises(Rejected, match="refused the login of 'lab': wrong user") as caught:
            script.driver("calient", **account).open(soon())
        assert "secret" not in str(caught.value)
        assert caught.value.hint == "check 'user' and 'password' in the lab file"

    def test_without_a_user_in_the_lab_file_no_login_is_sent(self, script):
        script.line()
        with pytest.raises(UsageError, match="has no 'user' in the lab file"):
            script.driver("calient").open(soon())

    def test_a_password_with_a_separator_is_refused_without_repeating_it(self, script, tmp_path):
        (tmp_path / "word").write_text("a;b")
        script.line()
        secret = Secret(file=str(tmp_path / "word"))
        with pytest.raises(UsageError, match="TL1 cannot transmit this password") as caught:
            script.driver("calient", user="lab", password=secret).open(soon())
        assert "a;b" not in str(caught.value)

    def test_another_serial_number_is_refused(self, script, account):
        script.line(*login(1))
        with pytest.raises(InstrumentError, match="S1 instead of S2"):
            script.driver("calient", identity="S2", **account).open(soon())


@pytest.mark.parametrize(
    "request_",
    [
        Request("DLT-CRS-ALL"),
        Request("DLT-PATCH", "ALL"),
        Request("DLT-PATCH", "1&all"),
        Request("CANC-CRS", "", ("", "ALL")),
        Request("DLT-CRS", "", ("", ",SYSTEM,all")),
        Request("ENT-PATCH", "1,17", ("FRCD",)),
        Request("OPR-PORT-SHUTTER", "ALL", ("",)),
        Request("INIT-SYS"),
    ],
    ids=str,
)
def test_commands_that_could_remove_circuits_of_other_clients_are_never_sent(script, request_):
    options = Tl1Options(user="lab")
    where = "tcp://192.0.2.10:3082"
    endpoint = Endpoint("ocs", where, None, options, lambda way, data: None, script.dial)
    tl1 = Tl1(endpoint, options, [], lambda answers: pytest.fail("no identity is asked for"))
    with pytest.raises(UsageError, match="is never sent"):
        tl1.execute([request_], soon())
    with pytest.raises(UsageError, match="is never sent"):
        tl1.query([request_], len, soon())


KIND, INVENTORY = b"Polatis,VST-16x16-LU1-DMHNS,OCS,6.5.2.18", b"OCS:PN=1,SN=S1,HW=2"


def identity_query(tag):
    asked = b"RTRV-NETYPE:::%d:;RTRV-INV::OCS:%d:;" % (tag, tag + 1)
    return asked, done(tag, KIND) + done(tag + 1, INVENTORY)


def polatis_of(script, account, *asked, **options):
    """Open a switch of 16 × 16 ports, which is asked for its monitors."""
    size = b"RTRV-EQPT::SYSTEM:6:::PARAMETER=SIZE;", done(6, b"SYSTEM:SIZE=16x16")
    opening = [(LOGIN % 1, done(1, b"lab:lab,1")), identity_query(2), identity_query(4), size]
    return opened(script, script.driver("polatis-tl1", **account, **options), *opening, *asked)


@pytest.fixture
def polatis(script, account):
    return polatis_of(script, account, monitors=False)


def powers(tag, *ports, level=b"-3.25"):
    """Return the question for the light of ports, and its answer."""
    asked = "&".join(map(str, ports)).encode()
    rows = [b"%d:%s" % (port, level) for port in ports]
    return b"RTRV-PORT-POWER::%s:%d:;" % (asked, tag), done(tag, *rows)


@pytest.fixture
def monitored(script, account):
    sides = powers(7, *range(1, 17)), powers(8, *range(17, 33))
    return polatis_of(script, account, *sides)


def patches(tag, *rows):
    return b"RTRV-PATCH:::%d:;" % tag, done(tag, *rows)


class TestPolatis:
    def test_opening_reads_the_identity_and_the_capabilities(self, polatis):
        can = polatis[0].capabilities
        assert (can.ingress, can.egress) == (set(range(1, 17)), set(range(17, 33)))
        assert can.monitored == frozenset()

    def test_monitors_are_queried_port_by_port(self, script, account):
        refused = [
            (powers(tag, *ports)[0], denied(tag, b"IIAC", b"No monitor"))
            for tag, ports in ((7, range(1, 17)), *((7 + n, [n]) for n in range(1, 16)))
        ]
        last, outputs = powers(23, 16), powers(24, *range(17, 33))
        switch, _ = polatis_of(script, account, *refused, last, outputs)
        assert switch.capabilities.monitored == set(range(16, 33))

    def test_a_side_without_monitors_in_the_lab_file_is_not_read(self, script, account):
        outputs = powers(7, *range(17, 33))
        switch, _ = polatis_of(script, account, outputs, monitors="outputs")
        assert switch.capabilities.monitored == set(range(17, 33))

    def test_a_move_sends_a_query_two_commands_and_a_read_back(self, polatis):
        switch, line = polatis
        line.then(
            patches(7, b"1,17", b"18,2", b"3,19"),
            (b"DLT-PATCH::1&2:8:;", done(8)),
            (b"ENT-PATCH::1&2,18&17:9:;", done(9)),
            patches(10, b"1,18", b"2,17", b"3,19"),
        )
        applied = switch.apply(Change({1: 17, 2: 18}, {1: 18, 2: 17}), soon())
        assert applied.state == {1: 18, 2: 17, 3: 19}
        assert applied.commanded <= applied.answered <= applied.read_back

    def test_a_circuit_moved_by_another_client_is_not_deleted(self, polatis):
        switch, line = polatis
        line.then(patches(7, b"1,20"), patches(8, b"1,20"))
        assert switch.apply(Change({1: 17}, {}), soon()).state == {1: 20}

    def test_after_a_partly_executed_list_of_circuits_the_state_is_read_back(self, polatis):
        switch, line = polatis
        line.then(
            patches(7),
            (b"ENT-PATCH::1&2,17&18:8:;", done(8, status=b"PRTL")),
            patches(9, b"1,17"),
            patches(10, b"1,17"),
        )
        applied = switch.apply(Change({}, {1: 17, 2: 18}), soon())
        assert (applied.state, applied.refused) == ({1: 17}, {2: "in part (PRTL)"})

    def test_a_refusal_repeats_the_message_of_the_switch(self, polatis):
        switch, line = polatis
        line.then(
            patches(7),
            (b"ENT-PATCH::1,17:8:;", denied(8, b"IEAE", b"Port 17 is in use")),
            patches(9, b"2,17"),
        )
        with pytest.raises(Rejected, match="Port 17 is in use"):
            switch.apply(Change({}, {1: 17}), soon())

    def test_power_levels_at_the_noise_floor_read_as_no_light(self, monitored):
        switch, line = monitored
        rows = b"1:-3.25", b"17:-60.00"
        line.then((b"RTRV-PORT-POWER::1&17:9:;", done(9, *rows)))
        assert switch.power([17, 1], soon()) == {1: measured(-3.25), 17: DARK}

    @pytest.mark.parametrize("rows", [(b"1:-3.25",), (b"1:-3.25", b"2:-3.25"), (b"1:x", b"17:0")])
    def test_a_reply_with_power_levels_of_other_ports_is_rejected(self, script, monitored, rows):
        switch, line = monitored
        line.then((b"RTRV-PORT-POWER::1&17:9:;", done(9, *rows)))
        script.line(
            (LOGIN % 10, done(10)),
            identity_query(11),
            (b"RTRV-PORT-POWER::1&17:13:;", done(13, b"1:-1", b"17:-2")),
        )
        assert switch.power([1, 17], soon()) == {1: measured(-1.0), 17: measured(-2.0)}
