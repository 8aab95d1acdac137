"""Errors: who must act, what they read, and what the process exits with."""

import pytest

from testbed import errors
from testbed.concealed import conceal
from testbed.errors import (
    BusyError,
    FileError,
    Garbled,
    HostError,
    HostTimeout,
    InstrumentError,
    LabError,
    LinkLost,
    NoReply,
    Rejected,
    TestbedError,
    UnsafeError,
    UsageError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (FileError("lab.yaml:1:2", "x"), 2),
        (LabError("x"), 4),
        (InstrumentError("ocs", "x"), 4),
        (Rejected("ocs", "x"), 4),
        (NoReply("ocs", "x"), 4),
        (LinkLost("ocs", "x"), 4),
        (Garbled("ocs", "x"), 4),
        (HostError("h0", "x"), 4),
        (HostTimeout("h0", "x"), 4),
        (BusyError("x"), 5),
        (UnsafeError("x"), 6),
    ],
)
def test_every_error_has_its_documented_exit_code(error, code):
    assert isinstance(error, TestbedError)
    assert error.exit_code == code


def test_no_two_outcomes_share_an_exit_code():
    codes = [value for name, value in vars(errors).items() if name.startswith("EXIT_")]
    assert len(set(codes)) == len(codes)


def test_an_error_message_ends_with_its_hint():
    assert str(LabError("it broke")) == "it broke"
    assert str(LabError("it broke", hint="mend it")) == "it broke; mend it"


def test_an_error_message_begins_with_its_place_or_subject():
    assert str(FileError("lab.yaml:3:7", "no", hint="yes")) == "lab.yaml:3:7: no; yes"
    assert str(HostError("h0", "gone", hint="look")) == "h0: gone; look"
    refused = Rejected("ocs", "said no", reply="-221", hint="ask again")
    assert str(refused) == "ocs: said no; ask again"
    assert (refused.instrument, refused.reply) == ("ocs", "-221")


def test_timeouts_and_lost_links_are_python_timeout_and_connection_errors():
    assert isinstance(NoReply("ocs", "x"), TimeoutError)
    assert isinstance(HostTimeout("h0", "x"), TimeoutError)
    assert isinstance(LinkLost("ocs", "x"), ConnectionError)


def test_a_reply_is_quoted_shortened_without_secrets_and_control_characters():
    conceal("sesame-open")
    said = "x" * 990 + "sesame-open" + "\x1b]0;title\x07" + "y" * 10_000_000
    error = Garbled("ocs", f"answered {said}", reply=said, hint=said)
    for text in (str(error), error.reply):
        assert len(text) < 2100
        assert text.isprintable()
        assert "sesame" not in text and "same-open" not in text


def test_the_end_of_a_long_reply_is_kept_in_the_message():
    error = NoReply("ocs", "x" * 5000 + "; the change was rolled back")
    assert str(error).endswith("; the change was rolled back")
