"""What the SONiC driver says, command by command, and what it makes of every kind of answer."""

import pytest

from testbed.clock import Deadline
from testbed.errors import Garbled, InstrumentError, NoReply, Rejected, UsageError
from testbed.fabric.change import Change
from testbed_drivers.switches.sonic_ocs_far_end import CIRCUIT_COLUMNS, STATUS_COLUMNS, table

VERSION = """
SONiC Software Version: SONiC.202511.7
Distribution: Debian 13

HwSKU: OCS-4x4
Serial Number: S1
Uptime: 02:20:22 up 2 min,  1 user
"""
PORTS = "id    label     state\n----  --------  -------\n" + "".join(
    f"{number}{side}    name {number}  normal\n" for number in range(1, 5) for side in "AB"
)


def soon():
    return Deadline.after(5)


def pair(command, text, status=0):
    return f"{command}\n".encode(), text.encode() + b"\0%d\n" % status


def configured(*names):
    rows = [(name, *name.split("-")) for name in names]
    return pair("show ocs cross-connect config", table(CIRCUIT_COLUMNS, rows))


def present(*names, a="tuned", b="tuned"):
    rows = [(name, *name.split("-"), a, b) for name in names]
    return pair("show ocs cross-connect status", table(STATUS_COLUMNS, rows))


def config(rest, text="cross-connect succeeded\n", status=0):
    return pair(f"sudo config ocs cross-connect {rest}", text, status)


IDENTITY = pair("show version", VERSION)
OPENING = [IDENTITY, IDENTITY, pair("show ocs port config", PORTS)]


@pytest.fixture
def driver(script):
    """Return an opened driver of a 4×4 switch."""
    script.line(*OPENING)
    driver = script.driver("sonic-ocs", resource="ssh://admin@192.0.2.10", settle_max=0.1)
    driver.open(soon())
    return driver


@pytest.fixture
def then(script, driver):
    """Return what adds to the conversation."""
    return lambda *pairs: script.opened[-1].then(*pairs)


def test_opening_reads_the_identity_and_the_ports(driver, then):
    assert driver.capabilities.ingress == {1, 2, 3, 4}
    assert driver.capabilities.egress == {5, 6, 7, 8}
    then(IDENTITY)
    assert str(driver.identify(soon())) == ("SONiC OCS-4x4, serial S1, firmware SONiC.202511.7")


def test_the_state_is_read_from_the_hardware_table(driver, then):
    then(present("1A-2B", "3A-1B"))
    assert driver.state(soon()) == {1: 6, 3: 5}
    then(present())
    assert driver.state(soon()) == {}


def test_a_move_deletes_old_circuits_before_it_adds_new_ones(driver, then):
    then(configured("1A-1B", "4A-4B"), present("1A-1B", "4A-4B"))
    then(config("delete 1A-1B"), config("add 1A-2B,2A-1B safe"))
    then(present("1A-2B", "2A-1B", "4A-4B"), present("1A-2B", "2A-1B", "4A-4B"))
    applied = driver.apply(Change({1: 5}, {1: 6, 2: 5}), soon())
    assert applied.state == {1: 6, 2: 5, 4: 8}
    assert not applied.refused
    assert applied.commanded <= applied.answered <= applied.read_back


def test_an_existing_circuit_is_not_ordered_again(driver, then):
    then(configured("1A-1B"), present("1A-1B"), present("1A-1B"), present("1A-1B"))
    assert driver.apply(Change({2: 6}, {1: 5}), soon()).state == {1: 5}


def test_the_hardware_table_is_polled_until_it_matches_the_configuration(driver, then):
    then(configured(), present(), config("add 1A-1B safe"))
    then(present(), present(), present("1A-1B", a="tuning"), present("1A-1B"))
    assert driver.apply(Change({}, {1: 5}), soon()).state == {1: 5}


def test_a_hardware_table_that_differs_from_the_configuration_shows_in_the_state(script):
    script.line(*OPENING)
    driver = script.driver(
        "sonic-ocs", resource="ssh://admin@192.0.2.10", settle=1e-9, settle_max=1e-9
    )
    driver.open(soon())
    script.opened[-1].then(configured(), present(), config("add 1A-1B safe"), present())
    assert driver.apply(Change({}, {1: 5}), soon()).state == {}


def test_a_stale_circuit_is_removed_by_adding_and_deleting_it(driver, then):
    then(configured(), present("1A-1B"))
    then(config("add 1A-1B update"), config("delete 1A-1B"), config("add 1A-2B safe"))
    then(present("1A-2B"), present("1A-2B"))
    assert driver.apply(Change({1: 5}, {1: 6}), soon()).state == {1: 6}


def test_a_stale_circuit_that_is_wanted_is_only_configured(driver, then):
    then(configured(), present("1A-1B"), config("add 1A-1B update"))
    then(present("1A-1B"), present("1A-1B"))
    assert driver.apply(Change({}, {1: 5}), soon()).state == {1: 5}


def test_a_stale_circuit_is_never_added_over_one_that_is_configured(driver, then):
    """Mode `update` would end the other one, of any client."""
    then(configured("1A-3B"), present("1A-1B"))
    with pytest.raises(
        InstrumentError, match="has 1A-3B configured, but its hardware has another circuit"
    ):
        driver.apply(Change({1: 5}, {}), soon())


def test_a_configured_circuit_missing_in_the_hardware_is_deleted_and_ordered_again(driver, then):
    then(configured("1A-1B"), present(), config("delete 1A-1B"), config("add 1A-1B safe"))
    then(present("1A-1B"), present("1A-1B"))
    assert driver.apply(Change({}, {1: 5}), soon()).state == {1: 5}


def test_the_first_refusal_ends_the_change_and_names_the_circuits_not_tried(driver, then):
    error = "Error: a port is in use by 3A-2B\n"
    then(configured("1A-1B"), present("1A-1B"), config("delete 1A-1B"))
    then(config("add 1A-2B safe", error, 1), configured(), present("3A-2B"), present("3A-2B"))
    applied = driver.apply(Change({1: 5}, {1: 6}), soon())
    assert applied.state == {3: 6}
    assert applied.refused == {1: "Error: a port is in use by 3A-2B"}


def test_a_change_refused_as_a_whole_repeats_the_message_of_the_switch(driver, then):
    error = "Usage: config\nError: Invalid cross-connect\n"
    then(configured("1A-1B"), present("1A-1B"), config("delete 1A-1B", error, 2))
    then(configured("1A-1B"), present("1A-1B"))
    with pytest.raises(Rejected, match=r"refused -1→5 \+2→6: Error: Invalid") as caught:
        driver.apply(Change({1: 5}, {2: 6}), soon())
    assert caught.value.reply == "Error: Invalid cross-connect"


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("", 1, "exit status 1"),
        ("sudo: a password is required\n", 1, "sudo: a password is required"),
        ("add 1A-1B failed\n", 0, "add 1A-1B failed"),
    ],
)
def test_a_refusal_is_an_exit_status_or_an_error_message(driver, then, text, status, words):
    then(configured(), present(), config("add 1A-1B safe", text, status), configured(), present())
    with pytest.raises(Rejected) as caught:
        driver.apply(Change({}, {1: 5}), soon())
    assert caught.value.reply == words


def test_an_order_that_neither_succeeds_nor_fails_is_garbled_and_not_repeated(script, driver, then):
    then(configured(), present(), config("add 1A-1B safe", "?\n"))
    with pytest.raises(Garbled, match="add 1A-1B safe"):
        driver.apply(Change({}, {1: 5}), soon())
    assert script.opened[0].closed


def test_an_order_without_an_answer_is_not_repeated(script, driver, then):
    order, _ = config("add 1A-1B safe")
    then(configured(), present(), (order, None))
    with pytest.raises(NoReply, match="did not finish sudo config") as caught:
        driver.apply(Change({}, {1: 5}), soon())
    assert "shows only in a read-back" in caught.value.hint
    script.line(IDENTITY, present("1A-1B"))
    assert driver.state(soon()) == {1: 5}


def test_long_lists_are_sent_in_portions(script):
    ports = "".join(f"{number}{side}  normal\n" for number in range(1, 71) for side in "AB")
    script.line(*OPENING[:2], pair("show ocs port config", ports))
    driver = script.driver(
        "sonic-ocs", resource="ssh://192.0.2.10", ports=range(1, 141), settle_max=0.1
    )
    driver.open(soon())
    names = [f"{number}A-{number}B" for number in range(1, 71)]
    script.opened[-1].then(
        configured(),
        present(),
        config(f"add {','.join(names[:64])} safe"),
        config(f"add {','.join(names[64:])} safe"),
        present(*names),
        present(*names),
    )
    wanted = {number: number + 70 for number in range(1, 71)}
    assert driver.apply(Change({}, wanted), soon()).state == wanted


def test_differences_between_configuration_and_status_are_reported(driver, then):
    rows = [("1A-1B", "1A", "1B", "tuned", "tuned"), ("2A-2B", "2A", "2B", "tuning", "failed")]
    rows += [("3A-3B", "3A", "3B", "tuned", "tuned")]
    status = pair("show ocs cross-connect status", table(STATUS_COLUMNS, rows))
    then(configured("1A-1B", "2A-2B", "4A-4B"), status)
    assert driver.unsteady(soon()) == {
        2: "tuning, failed",
        3: "stale: in the hardware, not configured",
        4: "configured, but not in the hardware",
    }


@pytest.mark.parametrize(
    "text",
    [
        "id  a_side  b_side\n",
        table(STATUS_COLUMNS, [("1A-1B", "1A", "2B", "tuned", "tuned")]),
        table(STATUS_COLUMNS, [("1B-1A", "1B", "1A", "tuned", "tuned")]),
        table(STATUS_COLUMNS, [("1A-9B", "1A", "9B", "tuned", "tuned")]),
        table(
            STATUS_COLUMNS,
            [("1A-1B", "1A", "1B", "tuned", "tuned"), ("2A-1B", "2A", "1B", "tuned", "tuned")],
        ),
        table(STATUS_COLUMNS, []) + "1A-1B  1A  1B  tuned\n",
        table(STATUS_COLUMNS, []) + "*** maintenance at 22:00 ***\n",
        "1A-1B  1A  1B  tuned  tuned\n",
    ],
)
def test_an_invalid_table_is_requested_once_more(script, driver, then, text):
    then(pair("show ocs cross-connect status", text))
    script.line(IDENTITY, present("1A-1B"))
    assert driver.state(soon()) == {1: 5}


WARNING = "sudo: unable to resolve host ocs: Name or service not known: it failed\n"
DEPRECATED = "/usr/lib/a.py:3: DeprecationWarning: invalid escape sequence\n  x = 1\n"


@pytest.mark.parametrize("noise", [WARNING, DEPRECATED])
def test_warnings_of_other_programs_beside_an_answer_change_nothing(driver, then, noise):
    order, done = config("add 1A-1B safe")
    then(configured(), present(), (order, noise.encode() + done), present("1A-1B"))
    command, listing = present("1A-1B")
    then((command, noise.encode() + listing))
    assert driver.apply(Change({}, {1: 5}), soon()).state == {1: 5}


def test_an_empty_table_means_no_circuits(driver, then):
    then(pair("show ocs cross-connect status", ""))
    assert driver.state(soon()) == {}


def test_output_with_both_a_refusal_and_a_success_counts_as_a_refusal(driver, then):
    text = "add 1A-1B succeeded\nadd 2A-2B failed\n"
    then(configured(), present(), config("add 1A-1B,2A-2B safe", text))
    then(configured("1A-1B"), present("1A-1B"), present("1A-1B"))
    applied = driver.apply(Change({}, {1: 5, 2: 6}), soon())
    assert applied.refused == {2: "add 2A-2B failed"}


def test_undecodable_output_is_garbled(script, driver, then):
    order, _ = present()
    then((order, b"id \xe1_side\n\0000\n"))
    script.line(IDENTITY, (order, b"id \xe1_side\n\0000\n"))
    with pytest.raises(Garbled, match="show ocs cross-connect status"):
        driver.state(soon())


def test_a_query_with_a_failing_exit_status_raises_rejected(driver, then):
    then(pair("show ocs cross-connect status", "Error: No such command\n", 2))
    with pytest.raises(Rejected, match="No such command"):
        driver.state(soon())


def test_another_serial_number_is_refused(script):
    script.line(pair("show version", VERSION.replace("S1", "S2")))
    with pytest.raises(InstrumentError, match="S2 instead of S1"):
        script.driver("sonic-ocs", resource="ssh://192.0.2.10").open(soon())


def test_a_device_that_does_not_answer_as_sonic_is_refused(script):
    for _ in range(2):
        script.line(pair("show version", "Debian 13\n"))
    with pytest.raises(Garbled, match="names no HwSKU"):
        script.driver("sonic-ocs", resource="ssh://192.0.2.10").open(soon())


@pytest.mark.parametrize("ports", ["", "1A  normal\n", "1A normal\n3A normal\n1B normal\n"])
def test_ports_that_are_not_numbered_on_both_sides_are_garbled(script, ports):
    script.line(*OPENING[:2], pair("show ocs port config", ports))
    script.line(IDENTITY, pair("show ocs port config", ports))
    with pytest.raises(Garbled, match="ports"):
        script.driver("sonic-ocs", resource="ssh://192.0.2.10").open(soon())


def test_a_resource_without_an_ssh_url_is_refused(script):
    with pytest.raises(UsageError, match="not the URL of an SSH server"):
        script.driver("sonic-ocs", resource="tcp://192.0.2.10:22")
