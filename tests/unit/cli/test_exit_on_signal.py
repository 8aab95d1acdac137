"""Signals and the command: the exit code is 128 + n, from whatever it was doing."""

import fcntl
import signal
import subprocess
import sys
import termios
import time

import pytest

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

BUSY = """
import sys
import testbed.cli

def busy(arguments):
    import concurrent.futures, threading
    threading.Thread(target=threading.Event().wait).start()  # a worker that waits for a dead lab
    busy = lambda: print("busy", flush=True)
    {inside}

testbed.cli.run = busy
testbed.cli.main()
"""
WAIT = "busy(); threading.Event().wait()"
FLOOD = "busy(); print('x' * 10_000_000)"
CALLED_BACK = """
    import weakref
    class Thing:
        pass
    thing = Thing()
    ref = weakref.ref(thing, lambda _: (busy(), threading.Event().wait()))
    del thing
    threading.Event().wait()
"""
SLOWLY_IGNORED = f"""
    import signal
    setitimer = signal.setitimer
    def slowly(*timer):
        signal.setitimer = setitimer
        print("here", flush=True)
        sys.stdin.readline()
        setitimer(*timer)
    signal.setitimer = slowly
{CALLED_BACK}"""
CRITICAL = """
    from testbed.cli.exit_on_signal import defer_signals
    with defer_signals(lambda: True):
        busy()
        sys.stdin.readline()
        print("finished", flush=True)
    threading.Event().wait()
"""
NOT_YET_CRITICAL = """
    from testbed.cli.exit_on_signal import defer_signals
    with defer_signals(lambda: False):
        busy()
        threading.Event().wait()
"""


class Command:
    """A command that is busy, and everything it says."""

    def __init__(self, inside=WAIT, before=None):
        program = BUSY.format(inside=inside)
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=before,
        )
        assert self._process.stdout.readline() == "busy\n"

    def signal(self, number):
        self._process.send_signal(number)

    def await_unread(self, count):
        while True:
            waiting = fcntl.ioctl(self._process.stdout, termios.FIONREAD, b"\0" * 4)
            if int.from_bytes(waiting, sys.byteorder) >= count:
                return
            time.sleep(0.01)

    def end_unread(self):
        code = self._process.wait(timeout=30)
        self.end()
        return code

    def end(self, said=""):
        out, err = self._process.communicate(said, timeout=30)
        return self._process.returncode, out, err


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_a_command_at_once_although_its_threads_are_blocked(number):
    command = Command()
    command.signal(number)
    assert command.end() == (128 + number, "", f"testbed: ended by {number.name}\n")


def test_a_signal_during_code_that_ignores_exceptions_ends_the_command():
    command = Command(CALLED_BACK)
    command.signal(signal.SIGTERM)
    code, _, err = command.end()
    assert (code, err) == (128 + signal.SIGTERM, "testbed: ended by SIGTERM\n")


def test_a_second_signal_during_code_that_ignores_exceptions_ends_the_command():
    command = Command(SLOWLY_IGNORED)
    command.signal(signal.SIGTERM)
    command.await_unread(1)
    command.signal(signal.SIGHUP)
    code, _, err = command.end()
    assert code in (128 + signal.SIGTERM, 128 + signal.SIGHUP)
    assert err == f"testbed: ended by {signal.Signals(code - 128).name}\n"


@pytest.mark.parametrize("numbers", [ENDING[:1], ENDING[:2]])
def test_signals_end_a_command_whose_output_is_not_read(numbers):
    command = Command(FLOOD)
    command.await_unread(50_000)
    for number in numbers:
        command.signal(number)
    assert command.end_unread() in [128 + number for number in numbers]


def test_code_that_defers_signals_is_finished_before_the_exit():
    command = Command(CRITICAL)
    command.signal(signal.SIGTERM)
    command.signal(signal.SIGINT)
    code, out, _ = command.end("go on\n")
    assert out == "finished\n" and code in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def test_code_that_defers_signals_is_not_started_after_a_signal():
    command = Command(NOT_YET_CRITICAL)
    command.signal(signal.SIGINT)
    assert command.end() == (130, "", "testbed: ended by SIGINT\nnothing was changed\n")


def test_a_signal_before_its_handler_was_installed_ends_the_command():
    def hold():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        signal.raise_signal(signal.SIGTERM)

    process = subprocess.Popen(
        [sys.executable, "-m", "testbed.cli", "schema", "lab"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hold,
    )
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM and out == b""


def test_a_command_under_nohup_ignores_sighup():
    command = Command(CRITICAL, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    command.signal(signal.SIGHUP)
    command.signal(signal.SIGTERM)
    assert command.end("go on\n")[0] == 128 + signal.SIGTERM
