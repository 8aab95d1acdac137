"""What the Polatis driver says, word by word, and what it makes of every kind of answer."""

import pytest

from testbed.clock import Deadline
from testbed.errors import Garbled, InstrumentError, LinkLost, NoReply, Rejected, UsageError
from testbed.fabric.change import Change
from testbed.fabric.reading import DARK, NOT_MEASURED, measured
from tests.contract.scripted import DRAINED, GREETING, IDENTITY, NO_ERROR, OPENING

SUB_ADD = (
    b":SYST:ERR?;:OXC:SWIT:CONN:SUB (@1,2),(@17,18);:OXC:SWIT:CONN:ADD (@1,2),(@18,17);:SYST:ERR?;"
    b":OXC:SWIT:CONN:STAT?;:OXC:SWIT:PORT:STAT? (@1,18,2,17)\n"
)
MOVE = Change({1: 17, 2: 18}, {1: 18, 2: 17})
NONE, MOVED, ENABLED = '0, "No error"', "(@1,2),(@18,17)", "(E,E,E,E)"


def answer(*parts):
    return f"{';'.join(parts)}\n".encode()


DONE = answer(NONE, NONE, MOVED, ENABLED)


def soon():
    return Deadline.after(5)


def test_opening_reads_the_identity_empties_the_error_queue_and_reads_the_ports(script):
    stale = (b":SYST:ERR?\n", b'-113, "Undefined header"\n')
    script.line(IDENTITY, stale, *GREETING[1:], *OPENING[2:])
    driver = script.polatis()
    assert str(driver.open(soon())).startswith("Polatis I-OST-16x16-LU1-DMHNS, serial S1")
    assert driver.capabilities.ingress == frozenset(range(1, 17))
    assert driver.capabilities.egress == frozenset(range(17, 33))
    assert ("note", b"error in the queue: -113, Undefined header") in script.trace


def test_a_size_given_in_the_lab_file_is_not_queried(script):
    script.line(*OPENING[:3])
    driver = script.polatis(size=(2, 3))
    driver.open(soon())
    assert driver.capabilities.egress == {3, 4, 5}


def test_every_command_before_opening_is_refused(script):
    with pytest.raises(LinkLost, match="not been opened"):
        script.polatis().state(soon())


def test_a_change_is_commanded_checked_and_read_back_in_one_line(script):
    script.line(*OPENING, (SUB_ADD, DONE))
    driver = script.polatis()
    driver.open(soon())
    applied = driver.apply(MOVE, soon())
    assert applied.state == {1: 18, 2: 17}
    assert applied.unsteady == {}
    assert applied.commanded <= applied.answered <= applied.read_back


def test_the_line_of_a_change_tells_which_new_circuits_are_not_steady(script):
    script.line(*OPENING, (SUB_ADD, answer(NONE, NONE, MOVED, "(E,E,E,F)")))
    driver = script.polatis()
    driver.open(soon())
    assert driver.apply(MOVE, soon()).unsteady == {2: "failed"}


@pytest.mark.parametrize(
    "reply",
    [
        answer(NONE, NONE, MOVED),
        answer(NONE, NONE, MOVED, ENABLED, ENABLED),
        answer(NONE, NONE, ENABLED, MOVED),
        answer(NONE),
        answer(MOVED, NONE, NONE, ENABLED),
    ],
)
def test_an_answer_to_a_change_that_lacks_a_part_is_not_believed(script, reply):
    script.line(*OPENING, (SUB_ADD, reply))
    driver = script.polatis()
    driver.open(soon())
    with pytest.raises(Garbled):
        driver.apply(MOVE, soon())
    assert script.opened[0].closed


def test_an_empty_change_only_reads_back(script):
    script.line(*OPENING, (b":OXC:SWIT:CONN:STAT?\n", b"(@),(@)\n"))
    driver = script.polatis()
    driver.open(soon())
    assert driver.apply(Change({}, {}), soon()).state == {}


def test_more_than_64_pairs_are_sent_as_several_commands_on_one_line(script):
    def add(first, last):
        ingress = ",".join(map(str, range(first, last + 1)))
        egress = ",".join(map(str, range(first + 100, last + 101)))
        return f":OXC:SWIT:CONN:ADD (@{ingress}),(@{egress})"

    everything = {port: port + 100 for port in range(1, 101)}
    flags = ",".join(f"{port},{port + 100}" for port in range(1, 101))
    asked = f":OXC:SWIT:CONN:STAT?;:OXC:SWIT:PORT:STAT? (@{flags})"
    line = f":SYST:ERR?;{add(1, 64)};{add(65, 100)};:SYST:ERR?;{asked}\n".encode()
    enabled = f"({','.join('E' * 200)})"
    script.line(*OPENING[:3], (line, answer(NONE, NONE, "(@),(@)", enabled)))
    driver = script.polatis(ports=range(1, 201), size=(100, 100))
    driver.open(soon())
    driver.apply(Change({}, everything), soon())


def test_line_terminators_are_those_of_the_lab_file(script):
    script.line(*((sent[:-1] + b"\r", reply[:-1] + b"\r\n") for sent, reply in OPENING))
    script.polatis(write_termination="\r", read_termination="\r\n").open(soon())


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (
            '-221, "Settings conflict; port 3 is in use"',
            "-221, Settings conflict; port 3 is in use",
        ),
        ('112,"Port failed"', "112, Port failed"),
        ("+7, Mirror stuck", "7, Mirror stuck"),
    ],
)
def test_an_error_of_a_refused_command_quotes_the_switch_and_keeps_the_connection(
    script, report, words
):
    read_back = (b":OXC:SWIT:CONN:STAT?\n", b"(@1),(@17)\n")
    said = answer(NONE, report, "(@1),(@17)", ENABLED)
    script.line(*OPENING, (SUB_ADD, said), DRAINED, read_back)
    driver = script.polatis()
    driver.open(soon())
    with pytest.raises(Rejected, match=words) as caught:
        driver.apply(MOVE, soon())
    assert words.endswith(caught.value.reply)
    assert driver.state(soon()) == {1: 17}


THEIRS = '-113, "Undefined header"'


@pytest.mark.parametrize("after", [NONE, THEIRS])
def test_an_error_queued_by_another_client_is_not_attributed_to_our_command(script, after):
    more = () if after == NONE else ((b":SYST:ERR?\n", f"{THEIRS}\n".encode()), DRAINED)
    script.line(*OPENING, (SUB_ADD, answer(THEIRS, after, MOVED, ENABLED)), *more)
    driver = script.polatis()
    driver.open(soon())
    assert driver.apply(MOVE, soon()).state == {1: 18, 2: 17}
    assert ("note", b"error in the queue: -113, Undefined header") in script.trace


def test_a_change_that_is_not_shown_after_errors_of_another_client_counts_as_refused(script):
    script.line(*OPENING, (SUB_ADD, answer(THEIRS, THEIRS, "(@1),(@17)", ENABLED)), DRAINED)
    driver = script.polatis()
    driver.open(soon())
    with pytest.raises(Rejected, match="Undefined header"):
        driver.apply(MOVE, soon())


def test_a_switch_that_refuses_the_queries_with_the_command_has_refused_it(script):
    busy = '-213, "Init ignored; busy"'
    script.line(*OPENING, (SUB_ADD, answer(NONE, busy)), DRAINED)
    driver = script.polatis()
    driver.open(soon())
    with pytest.raises(Rejected, match="busy"):
        driver.apply(MOVE, soon())


def test_a_doubled_error_report_is_not_taken_for_the_reply_to_the_next_query(script):
    refused = answer(NONE, THEIRS, "(@1),(@17)", ENABLED)
    line = script.line(*OPENING, (SUB_ADD, refused), (DRAINED[0], 2 * NO_ERROR))
    script.line(*GREETING, (b":OXC:SWIT:CONN:STAT?\n", b"(@1),(@17)\n"))
    driver = script.polatis()
    driver.open(soon())
    with pytest.raises(Rejected):
        driver.apply(MOVE, soon())
    assert driver.state(soon()) == {1: 17}
    assert line.closed


def test_an_unquoted_no_error_reply_is_accepted(script):
    bare = (b":SYST:ERR?\n", b"0, No error\n")
    script.line(IDENTITY, bare, *OPENING[2:])
    assert script.polatis().open(soon()).serial == "S1"


@pytest.mark.parametrize("size", [b"99999999999,99999999999", b"5000,1", b"0,16", b"-1,16"])
def test_an_impossible_switch_size_is_rejected(script, size):
    script.line(*OPENING[:3], (b":OXC:SWIT:SIZE?\n", size + b"\n"))
    script.line(*GREETING, (b":OXC:SWIT:SIZE?\n", size + b"\n"))
    with pytest.raises(Garbled, match="is not the size of a switch"):
        script.polatis().open(soon())


def test_a_change_without_a_reply_is_not_resent(script):
    script.line(*OPENING, (SUB_ADD, None))
    script.line(*GREETING, (b":OXC:SWIT:CONN:STAT?\n", b"(@1,2),(@18,17)\n"))
    driver = script.polatis()
    driver.open(soon())
    with pytest.raises(NoReply):
        driver.apply(MOVE, soon())
    assert script.opened[0].closed
    assert driver.state(soon()) == {1: 18, 2: 17}


def test_a_connection_with_unread_input_is_replaced_before_a_command(script):
    line = script.line(*OPENING)
    script.line(*GREETING, (SUB_ADD, DONE))
    driver = script.polatis()
    driver.open(soon())
    line.is_quiet = False
    assert driver.apply(MOVE, soon()).state == {1: 18, 2: 17}
    assert line.closed


@pytest.mark.parametrize(
    "trouble",
    [
        None,
        LinkLost("ocs", "hung up"),
        b"(@1),(@17,18)\n",
        b"(@1),(@40)\n",
        b"(@1,1),(@17,18)\n",
        b"(@1,2),(@17,17)\n",
        b'0, "No error"\n',
        b"\xff\n",
    ],
)
def test_a_failed_read_is_repeated_once_on_a_new_connection(script, trouble):
    script.line(*OPENING, (b":OXC:SWIT:CONN:STAT?\n", trouble))
    script.line(*GREETING, (b":OXC:SWIT:CONN:STAT?\n", b"(@),(@)\n"))
    driver = script.polatis()
    driver.open(soon())
    assert driver.state(soon()) == {}


def test_invalid_connections_on_ports_outside_the_lab_are_left_out_of_the_state(script):
    two_inputs_and_beyond = b"(@1,3,7),(@17,5,40)\n"
    script.line(*OPENING, (b":OXC:SWIT:CONN:STAT?\n", two_inputs_and_beyond))
    driver = script.polatis(ports=(1, 17))
    driver.open(soon())
    assert driver.state(soon()) == {1: 17}


def test_an_invalid_connection_on_a_port_of_the_lab_is_an_error(script):
    for greeting in (OPENING, GREETING):
        script.line(*greeting, (b":OXC:SWIT:CONN:STAT?\n", b"(@3),(@5)\n"))
    driver = script.polatis(ports=(3, 17))
    driver.open(soon())
    with pytest.raises(Garbled, match="not from an input to an output"):
        driver.state(soon())


def test_a_read_that_fails_twice_is_an_error(script):
    for greeting in (OPENING, GREETING):
        script.line(*greeting, (b":OXC:SWIT:CONN:STAT?\n", b"what?\n"))
    driver = script.polatis()
    driver.open(soon())
    with pytest.raises(Garbled, match=r"'what\?' is not a list of ports"):
        driver.state(soon())


def test_replies_to_earlier_queries_are_skipped_when_a_line_is_opened(script):
    late = b'(@1,2),(@17,18)\n0, "No error"\n0, "No error";(@1),(@17);(E,E)\n'
    script.line((b"*IDN?\n", late + IDENTITY[1]), *OPENING[1:])
    script.polatis().open(soon())


def test_a_device_that_never_reports_its_identity_is_refused(script):
    script.line((b"*IDN?\n", b"?\n" * 10))
    script.line((b"*IDN?\n", b"?\n" * 10))
    with pytest.raises(Garbled, match="does not report its identity"):
        script.polatis().open(soon())


def test_a_serial_number_other_than_that_of_the_lab_file_is_refused(script):
    script.line(IDENTITY)
    with pytest.raises(InstrumentError, match="S1 instead of S2"):
        script.polatis(identity="S2").open(soon())
    assert script.opened[0].closed


def test_without_a_serial_number_in_the_lab_file_a_changed_one_is_refused(script):
    line = script.line(*OPENING)
    script.line((b"*IDN?\n", IDENTITY[1].replace(b"S1", b"S9")))
    driver = script.polatis(identity=None)
    driver.open(soon())
    line.is_quiet = False
    with pytest.raises(InstrumentError, match="S9 instead of S1"):
        driver.apply(MOVE, soon())


def test_an_error_queue_that_never_empties_is_refused(script):
    endless = [(b":SYST:ERR?\n", b'-350, "Queue overflow"\n')] * 64
    script.line(IDENTITY, *endless)
    script.line(IDENTITY, *endless)
    with pytest.raises(Garbled, match="still reports errors"):
        script.polatis().open(soon())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change({}, {17: 18}), r"no path 17→18; its inputs are 1-16, its outputs 17-32"),
        (Change({}, {1: 33}), "no path 1→33"),
        (Change({4: 20}, {}), "port 4 is not among its ports"),
        (Change({}, {1: 17, 2: 17}), "two inputs are to be connected to one output"),
    ],
)
def test_a_forbidden_change_is_refused_before_the_first_byte(script, change, words):
    script.line(*OPENING)
    driver = script.polatis(ports={1, 2, 17, 18, 20, 33})
    driver.open(soon())
    with pytest.raises(UsageError, match=words):
        driver.apply(change, soon())


def test_closing_a_switch_twice_is_harmless_and_the_next_exchange_reopens_it(script):
    script.line(*OPENING)
    script.line(*GREETING, IDENTITY)
    driver = script.polatis()
    driver.open(soon())
    driver.close()
    driver.close()
    assert driver.identify(soon()).serial == "S1"


def levels(first, last, *reply, error=None):
    """Return the question for the light of ports, and its answer; with the error, as at opening."""
    ports = ",".join(map(str, range(first, last + 1)))
    asked, said = f":PMON:POW? (@{ports})", [f"({','.join(reply)})"] if reply else []
    if error is not None:
        asked, said = f"{asked};:SYST:ERR?", [*said, error]
    return f"{asked}\n".encode(), f"{';'.join(said)}\n".encode()


FINE = '0, "No error"'
MISSING = '-241, "Hardware missing"'


def monitored(script, *pairs, size=(2, 2), **options):
    script.line(*OPENING[:3], *pairs)
    driver = script.polatis(size=size, ports=range(1, sum(size) + 1), **options)
    driver.open(soon())
    return driver


def test_a_model_without_monitors_is_not_queried_for_power(script):
    driver = monitored(script)
    assert driver.capabilities.monitored == frozenset()
    assert driver.power([1, 2], soon()) == {1: NOT_MEASURED, 2: NOT_MEASURED}


def test_monitors_are_queried_port_by_port_where_a_side_cannot_be_read_at_once(script):
    driver = monitored(
        script,
        levels(1, 2, error=MISSING),
        levels(1, 1, error=MISSING),
        levels(2, 2, "-3.1", error=FINE),
        levels(3, 4, "-4.0", "-60.0", error=FINE),
        levels(2, 4, "-3.1", "-4.0", "-60.0"),
        monitors=True,
    )
    assert driver.capabilities.monitored == {2, 3, 4}
    seen = driver.power([1, 2, 3, 4], soon())
    assert seen == {1: NOT_MEASURED, 2: measured(-3.1), 3: measured(-4.0), 4: DARK}


def test_a_side_without_monitors_in_the_lab_file_is_not_read(script):
    driver = monitored(
        script, levels(3, 4, "-4.0", "-60.0", error=FINE), levels(3, 3, "-4.0"), monitors="outputs"
    )
    assert driver.capabilities.monitored == {3, 4}
    assert driver.power([1, 3], soon()) == {1: NOT_MEASURED, 3: measured(-4.0)}


def test_an_error_queued_by_another_client_does_not_disable_a_monitor(script):
    driver = monitored(
        script,
        levels(1, 2, "-3.1", "-3.2", error=MISSING),
        levels(3, 4, error='-113, "Undefined header"'),
        levels(3, 3, error='-113, "Undefined header"'),
        levels(4, 4, error='-113, "Undefined header"'),
        monitors=True,
    )
    assert driver.capabilities.monitored == {1, 2}


def test_a_reply_with_neither_levels_nor_an_error_is_rejected(script):
    nothing = levels(1, 2, error=FINE)
    script.line(*OPENING[:3], nothing)
    script.line(*GREETING, nothing)
    driver = script.polatis(size=(2, 2), ports=range(1, 5), monitors=True)
    with pytest.raises(Garbled, match="instead of power levels"):
        driver.open(soon())


def test_power_of_many_ports_is_queried_in_portions(script):
    readings = ["-3.1", *["-50.0"] * 199], ["-60.2"] * 200
    driver = monitored(
        script,
        levels(1, 200, *readings[0], error=FINE),
        levels(201, 400, *readings[1], error=FINE),
        levels(1, 256, *readings[0], *readings[1][:56]),
        levels(257, 400, *readings[1][56:]),
        size=(200, 200),
        monitors=True,
    )
    seen = driver.power(range(1, 401), soon())
    assert seen[1] == measured(-3.1)
    assert [port for port, reading in seen.items() if reading != DARK] == [1]
    assert len(seen) == 400


@pytest.mark.parametrize("reply", ["(-3.1)", "-3.1,-4.0", "(-3.1,nan)", "(-3.1,x)", "(E,D)"])
def test_invalid_power_levels_are_rejected(script, reply):
    asked = (b":PMON:POW? (@1,2)\n", reply.encode() + b"\n")
    there = levels(1, 2, "-3.1", "-4.0", error=FINE)
    driver = monitored(script, there, asked, monitors="inputs")
    script.line(*GREETING, asked)
    with pytest.raises(Garbled):
        driver.power([1, 2], soon())
