"""What a command is at, while somebody waits for it."""

from __future__ import annotations

import io
import re
import threading

import pytest

from testbed.report import waiting_message as module
from testbed.report.waiting_message import waiting


class Stream(io.StringIO):
    """A stream that is a terminal or none, and lets a test wait for a text."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self._news = threading.Condition()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        with self._news:
            written = super().write(text)
            self._news.notify_all()
        return written

    def wait_for(self, text: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: text in self.getvalue(), timeout=20)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    return Stream(terminal=True)


@pytest.fixture
def pipe():
    return Stream(terminal=False)


def test_on_a_terminal_the_message_is_shown_at_once_with_a_counter_and_removed_at_the_end(terminal):
    with waiting("computing", terminal):
        assert terminal.getvalue() == "computing…"
        terminal.wait_for("computing… 1 s")
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("name", ["terminal", "pipe"])
def test_a_permanent_message_is_shown_at_once_and_gets_its_duration(name, request):
    stream = request.getfixturevalue(name)
    with waiting("building the twin of rack", stream, stays=True):
        assert "building the twin of rack…" in stream.getvalue()
    assert re.search(r"building the twin of rack: \d+\.\d s\n$", stream.getvalue())


@pytest.mark.parametrize("name", ["terminal", "pipe"])
def test_an_interrupted_wait_shows_no_duration(name, request):
    stream = request.getfixturevalue(name)
    with pytest.raises(SystemExit), waiting("building", stream, stays=True):
        raise SystemExit(130)
    assert stream.getvalue().endswith("building: not finished\n")


def test_without_a_terminal_a_short_wait_prints_nothing(pipe, monkeypatch):
    with waiting("computing", pipe):
        pass
    assert pipe.getvalue() == ""
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    with waiting("computing", pipe):
        pipe.wait_for("computing…\n")
    assert pipe.getvalue() == "computing…\n"
