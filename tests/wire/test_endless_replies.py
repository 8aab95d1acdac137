"""Boxes that never stop talking: whatever they say, a wait ends at its deadline or at Ctrl-C."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import tty
from contextlib import suppress
from datetime import date

import pytest

from testbed.bench.instrument_factory import make_instrument
from testbed.clock import Deadline
from testbed.errors import InstrumentError, NoReply
from testbed.record.journal import has_pending_undo
from testbed.schema import load_lab
from testbed_drivers.transports import serial_port, visa
from tests.wire.endless_boxes import EndlessBox
from tests.wire.endless_replies import PIECE, REPLIES

GUARD = 30
"""Seconds in which anything has ended that ends at all, however busy this machine is."""
CELLS = [(language, way) for language, ways in REPLIES.items() for way in ways]
SAMPLE = random.Random(str(date.today())).sample(CELLS, 6)
LATER = [cell for cell in CELLS if "before" not in cell[0]]
LAB = """\
lab: talking
hosts:
  h0: {{ssh: h0, ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.9}}}}}}
  h1: {{ssh: h1, ports: {{p0: {{interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.10}}}}}}
switches:
  ocs:
    driver: {driver}
    resource: "{resource}"
    ports: [1-16]
    connect_timeout: 1 s
    answer_timeout: 1 s
    settle_max: 50 ms
{login}"""


class Lab:
    """A lab with one switch that talks, and commands to it."""

    def __init__(self, directory, box):
        self.box = box
        self.results = directory / "results"
        self._home = directory
        self._file = directory / "lab.yaml"
        login = "    user: lab\n" if box.driver == "polatis-tl1" else ""
        text = LAB.format(driver=box.driver, resource=box.resource, login=login)
        self._file.write_text(text)

    def opened(self, deadline):
        """Open the switch within this process, and look at it."""
        switch = make_instrument(load_lab(self._file), "ocs", lambda *_: None)
        try:
            switch.open(deadline)
            switch.state(deadline)
        finally:
            switch.close()

    def start(self, *words):
        """Type a command that goes on beside the test."""
        options = ["--results", str(self.results)]
        options += ["--lab", str(self._file)] if words[0] == "switch" else []
        environment = {**os.environ, "HOME": str(self._home)}
        environment.pop("SSH_AUTH_SOCK", None)
        return subprocess.Popen(
            [sys.executable, "-m", "testbed.cli", *words, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def say(self, *words):
        """Type a command; return its exit code and what it said."""
        process = self.start(*words)
        out, err = process.communicate(timeout=3 * GUARD)
        assert "Traceback" not in err, err
        assert max(map(len, (out + err).splitlines() or [""])) < 2500
        return process.returncode, out + err

    @property
    def records(self):
        """The run directories that are there."""
        return list(self.results.iterdir()) if self.results.exists() else []


@pytest.fixture
def talking(tmp_path, monkeypatch):
    """Return what makes a lab with a switch that talks in a given way."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    boxes = []

    def make(language, way, since=""):
        home = tmp_path / str(len(boxes))
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        boxes.append(EndlessBox(language, way, since, home))
        return Lab(home, boxes[-1])

    yield make
    for box in boxes:
        box.close()


def ended(action):
    """Return what an action raised that must end by itself."""
    raised = []

    def act():
        try:
            action()
        except InstrumentError as error:
            raised.append(error)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(GUARD)
    assert not thread.is_alive(), "it did not end"
    return raised


@pytest.mark.parametrize(("language", "way"), SAMPLE)
def test_an_exchange_ends_for_any_reply_that_never_ends(talking, language, way):
    lab = talking(language, way)
    (error,) = ended(lambda: lab.opened(Deadline.after(0.5)))
    assert len(str(error)) < 2500 and str(error).isprintable()


@pytest.mark.soak
@pytest.mark.parametrize(("language", "way"), CELLS)
def test_every_exchange_of_every_driver_ends_for_any_endless_reply(talking, language, way):
    lab = talking(language, way)
    (error,) = ended(lambda: lab.opened(Deadline.after(0.5)))
    assert len(str(error)) < 2500 and str(error).isprintable()


@pytest.mark.parametrize("dial", [serial_port.dial, visa.dial])
def test_reading_from_a_serial_line_that_never_stops_sending_ends_at_the_deadline(dial):
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    ended_it = threading.Event()

    def talk():
        while not ended_it.is_set():
            with suppress(BlockingIOError):
                os.write(master, b"x" * PIECE)

    line = dial("ocs", os.ttyname(slave), baud=38400, deadline=Deadline.after(5))
    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    try:
        (error,) = ended(lambda: line.receive(b"\r", Deadline.after(0.2)))
        assert isinstance(error, NoReply) or "MiB without ending its reply" in str(error)
    finally:
        ended_it.set()
        line.close()
        thread.join()
        os.close(master)
        os.close(slave)


def interrupted(lab, *words):
    """Type a command, and Ctrl-C once it waits; return how it ended, and how soon."""
    process = lab.start(*words)
    assert lab.box.begun.wait(GUARD)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    since = time.monotonic()
    out, err = process.communicate(timeout=3 * GUARD)
    assert "Traceback" not in err, err
    return process.returncode, out + err, time.monotonic() - since


SHOW = ("switch", "ocs", "show")
CONNECT = ("switch", "ocs", "connect", "1", "9")
NOT_CHANGED = "testbed: ended by SIGINT\nnothing was changed\n"


def test_ctrl_c_ends_the_wait_of_show_for_a_silent_switch(talking):
    lab = talking("scpi", "one byte at a time")
    code, said, _ = interrupted(lab, *SHOW)
    assert (code, said) == (130, "testbed: ended by SIGINT\n")


def test_ctrl_c_ends_the_wait_of_connect_before_anything_was_changed(talking):
    lab = talking("tl1", "one byte at a time", "a look")
    code, said, _ = interrupted(lab, *CONNECT)
    assert (code, said) == (130, NOT_CHANGED)
    assert lab.box.lit == {} and not lab.records


@pytest.mark.soak
@pytest.mark.parametrize(("language", "way"), CELLS)
def test_show_ends_at_its_deadline_and_with_ctrl_c_on_an_endless_reply(talking, language, way):
    lab = talking(language, way)
    began = time.monotonic()
    code, said = lab.say(*SHOW)
    took = time.monotonic() - began
    assert code == 4, said
    lab = talking(language, way)  # whose first caller is the one to be interrupted
    code, said, seconds = interrupted(lab, *SHOW)
    assert code in (4, 130), said  # it may have ended by itself before
    ended_by = "itself" if code == 4 else f"Ctrl-C in {seconds:.2f} s"
    print(f"show, {language}, {way}: {took:.1f} s, or ended by {ended_by}")


@pytest.mark.soak
@pytest.mark.parametrize(("language", "way"), LATER)
def test_connect_ends_with_ctrl_c_on_an_endless_reply_before_any_change(talking, language, way):
    lab = talking(language, way, "a look")
    code, said, seconds = interrupted(lab, *CONNECT)
    assert code == 4 or (code, said) == (130, NOT_CHANGED), said
    assert lab.box.lit == {} and (code == 4 or not lab.records)
    ended_by = "itself" if code == 4 else f"Ctrl-C in {seconds:.2f} s"
    print(f"connect, {language}, {way}: ended by {ended_by}")


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("language", "way"), LATER)
def test_connect_and_recover_end_on_an_endless_reply_and_the_undo_stays_open(
    talking, language, way
):
    lab = talking(language, way, "an order")
    began = time.monotonic()
    code, said = lab.say(*CONNECT)
    connecting = time.monotonic() - began
    assert code == 6, said
    (record,) = lab.records
    assert f"recover {record}" in said
    assert has_pending_undo(record / "journal.jsonl")
    began = time.monotonic()
    code, said = recovered(lab, record)
    recovering = time.monotonic() - began
    assert code in (4, 6), said
    assert has_pending_undo(record / "journal.jsonl")
    print(f"{language}, {way}: connect {connecting:.1f} s, recover {recovering:.1f} s")
    lab.box.behave()
    code, said = recovered(lab, record)
    assert code == 0, said
    assert lab.box.lit == {} and not has_pending_undo(record / "journal.jsonl")


def recovered(lab, record):
    """Recover a run; return the exit code and what was said."""
    process = lab.start("recover", str(record))
    out, err = process.communicate(timeout=3 * GUARD)
    assert "Traceback" not in err, err
    return process.returncode, out + err


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("language", "way"), LATER)
def test_ctrl_c_ends_the_wait_of_recover_and_the_undo_stays_open(talking, language, way):
    lab = talking(language, way, "an order")
    lab.say(*CONNECT)
    (record,) = lab.records
    time.sleep(1.0)  # what was said to the command before is over
    lab.box.begun.clear()
    code, said, seconds = interrupted(lab, "recover", str(record))
    by_itself = code in (4, 130)  # before the signal, or just before it
    assert code == 6 or by_itself, said
    assert by_itself or "SIGINT ended the wait for it; nothing of it was touched" in said
    assert has_pending_undo(record / "journal.jsonl")
    ended_by = "itself" if by_itself else f"Ctrl-C in {seconds:.2f} s"
    print(f"recover, {language}, {way}: ended by {ended_by}")
    lab.box.behave()
    code, said = recovered(lab, record)
    assert code == 0, said
