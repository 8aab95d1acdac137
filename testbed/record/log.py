"""The event log: any thread may append; each event is flushed and passed to subscribers."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from testbed.clock import now
from testbed.concealed import conceals
from testbed.errors import LabError, UsageError
from testbed.events import NAMES, Event, Subscriber
from testbed.events.origin import current_origin
from testbed.files import open_file, read_lines
from testbed.record.event_kinds import is_registered
from testbed.record.lines import MAX_LOG, repair_torn_line
from testbed.secret import masked_data


class EventLog:
    """Writes events to a file and passes each to every subscriber, in order.

    `trial` is put on every event until it is changed. A subscriber must be quick: it runs in the
    thread that appends.
    """

    def __init__(self, path: Path, past: Sequence[Event] | None = None) -> None:
        """Begin the log of a run, or append to one whose `past` events are known."""
        self.started = now() - _age(past or ())
        """The monotonic instant that every event's `t` counts from."""
        self.required = past is None
        """Whether it is an error that an event cannot be written, or a subscriber fails.

        To clean up, no record and no subscriber is needed.
        """
        self.trial: int | None = None
        if past is not None and path.exists():
            self._file = open_file(path, MAX_LOG, "ab")
        else:
            self._file = path.open("xb")
        self._lock = Lock()
        self._seq = past[-1].seq + 1 if past else 0
        self._subscribers: list[Subscriber] = []

    @classmethod
    def resume(cls, path: Path) -> EventLog:
        """Append to the log of a run that has ended, as far as that log can be read.

        Its monotonic clock may be gone, so later events are timed by the wall clock from its start.
        A log that cannot be written is no error, as the clean-up must continue.
        """
        events: list[Event] = []
        with suppress(UsageError):  # a line that is broken stops no clean-up
            repair_torn_line(path)
            events.extend(read_events(path))
        return cls(path, events)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Pass every later event to `subscriber`."""
        self._subscribers.append(subscriber)

    def at(self, instant: float) -> float:
        """Convert a monotonic instant of this machine to seconds of the log."""
        return round(instant - self.started, 6)

    def append(
        self, kind: str, subject: str = "", *, at: float | None = None, **data: Any
    ) -> Event:
        """Write one event, with secrets masked; `at` is a monotonic instant, now unless given.

        Its origin is that of the context (`events.origin.attributed`). Raise ValueError for a kind
        that is not registered, and LabError when the log cannot be written, unless it is not
        `required`.
        """
        return self._append(kind, subject, at, masked_data(data, NAMES))

    def append_data(
        self, kind: str, subject: str, at: float | None, data: Mapping[str, Any]
    ) -> Event:
        """Write one event as `append` does, from the data of a report: those are many.

        It is plain data, as JSON has it, and nobody changes it afterwards.
        """
        return self._append(kind, subject, at, _masked(data))

    def _append(self, kind: str, subject: str, at: float | None, data: Mapping[str, Any]) -> Event:
        with self._lock:
            event = self._event(self._seq, kind, subject, at, data)
            self._seq += 1
            try:
                # Half a surrogate pair, which UTF-8 has not, is written as JSON's own \udc80.
                self._file.write(f"{event.to_json()}\n".encode(errors="backslashreplace"))
                self._file.flush()
            except OSError as error:
                if self.required:
                    raise _failed(error) from error
            self._pass_on(event)
        return event

    def unwritten(self, kind: str, subject: str, at: float, data: Mapping[str, Any]) -> Event:
        """Pass an event to every subscriber only; its `seq` is -1. Raise as `append`."""
        with self._lock:
            event = self._event(-1, kind, subject, at, _masked(data))
            self._pass_on(event)
        return event

    def _event(
        self, seq: int, kind: str, subject: str, at: float | None, data: Mapping[str, Any]
    ) -> Event:
        if not is_registered(kind):
            raise ValueError(f"{kind!r} is not a kind of event")
        t = (now() if at is None else at) - self.started
        return Event(seq, t, kind, subject, self.trial, data, current_origin())

    def _pass_on(self, event: Event) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:
                if self.required:
                    raise

    def close(self) -> None:
        """Sync the file to disk and close it; raise LabError when that fails."""
        with self._lock:
            if self._file.closed:
                return
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
            except OSError as error:
                raise _failed(error) from error
            finally:
                with suppress(OSError):
                    self._file.close()


def _masked(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return masked_data(data, NAMES) if conceals() else data


def _age(events: Sequence[Event]) -> float:
    """Return how many seconds ago a run began; no less than its last event was after that."""
    if not events:
        return 0.0
    try:
        began = datetime.fromisoformat(events[0].data["started"])
    except (KeyError, ValueError):
        return events[-1].t
    return max(events[-1].t, (datetime.now(UTC) - began).total_seconds())


def _failed(error: OSError) -> LabError:
    return LabError(f"writing the event log failed: {error}", hint="free space on the disk")


def read_events(
    path: Path, *, without: Collection[str] = (), frequent: Collection[str] = ()
) -> Iterator[Event]:
    """Yield the events of a log; a last line that a crash truncated is left out.

    Raise UsageError for any other line that is no event. Where a line begins as `EventLog` writes
    it, those of the kinds `without` are not even parsed, and those of the kinds `frequent` by
    `Event.from_frequent`.
    """
    broken: ValueError | None = None
    try:
        # As bytes: a cut may go through a character, and text has more ends of line than one.
        for number, line in enumerate(read_lines(path, MAX_LOG), start=1):
            if broken is not None:  # it was not the last line
                raise UsageError(f"{path}:{number - 1}: {broken}") from broken
            begun = _BEGINNING.match(line)
            kind = begun[1].decode() if begun else ""
            if kind in without:
                continue
            try:
                event = _event(line, kind if kind in frequent else "")
            except ValueError as error:
                broken = error
            else:
                yield event
    except OSError as error:
        raise UsageError(f"reading {path} failed: {error.strerror}") from error


_BEGINNING = re.compile(rb'\{"seq": ?[0-9]+, ?"t": ?[^,]+, ?"kind": ?"([a-z.-]+)",')
"""The beginning of a line up to its kind; logs of earlier versions have spaces there."""


def _event(line: bytes, frequent: str) -> Event:
    """Return the event in a line, of a `frequent` kind or not; raise ValueError for other lines."""
    if frequent:
        try:
            event = Event.from_frequent(line)
        except ValueError:
            pass  # such as half a surrogate pair, which orjson does not read
        else:
            if event.kind == frequent:  # a line may name two
                return event
    return Event.from_json(line.decode())
