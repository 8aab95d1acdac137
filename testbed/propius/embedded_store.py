"""The embedded store: records in a file of SQLite, which managers on one machine share."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.propius.records import client_fields, client_of, job_fields, job_of
from testbed.propius.store import ClientAct, JobAct
from testbed.tenancy.binding import accept
from testbed.tenancy.clients import Client
from testbed.tenancy.jobs import Job
from testbed.tenancy.replies import Reply

_TURN_S = 20.0
"""How long a transaction waits for those of other processes."""
_AGAIN_S = 0.01
"""From one try to set write-ahead logging to the next."""

_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (
    job TEXT, client TEXT, PRIMARY KEY (job, client)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clients (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS offers (id INTEGER PRIMARY KEY CHECK (id = 0), text TEXT NOT NULL);
"""


class EmbeddedStore:
    """Records in one file; what a transaction wrote survives the end of its process.

    After a power failure the last transactions may be missing, as whole ones.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = Lock()
        try:
            self._base = sqlite3.connect(
                path, timeout=_TURN_S, isolation_level=None, check_same_thread=False
            )
            _log_ahead(self._base)
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.executescript(_TABLES)
        except sqlite3.Error as error:
            raise LabError(
                f"the store {path} cannot be opened: {error}",
                hint="name a file that can be written",
            ) from error

    def jobs(self) -> list[Job]:
        with self._transaction("DEFERRED"):
            rows = self._base.execute("SELECT id, record FROM jobs").fetchall()
            return [job_of(json.loads(record), self._members(job)) for job, record in rows]

    def clients(self) -> list[Client]:
        with self._transaction("DEFERRED"):
            rows = self._base.execute("SELECT record FROM clients").fetchall()
        return [client_of(json.loads(record)) for (record,) in rows]

    def change_job(self, job: str, act: JobAct) -> tuple[Reply, Job | None]:
        with self._transaction():
            before = self._job(job)
            reply, after = act(before)
            self._write_job(job, before, after)
        return reply, after

    def change_client(self, client: str, act: ClientAct) -> tuple[Reply, Client | None]:
        with self._transaction():
            before = self._client(client)
            reply, after = act(before)
            self._write_client(client, before, after)
        return reply, after

    def bind(self, job: str, client: str, round: int, now: float) -> Reply:
        with self._transaction():
            job_before, client_before = self._job(job), self._client(client)
            reply, job_after, client_after = accept(job_before, client_before, round, now)
            self._write_job(job, job_before, job_after)
            self._write_client(client, client_before, client_after)
        return reply

    def publish(self, offers: str) -> None:
        with self._transaction():
            self._base.execute("INSERT OR REPLACE INTO offers VALUES (0, ?)", (offers,))

    def published(self) -> str:
        with self._transaction("DEFERRED"):
            row = self._base.execute("SELECT text FROM offers").fetchone()
        return str(row[0]) if row else ""

    def close(self) -> None:
        with self._lock:
            self._base.close()

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """Hold the store for one transaction, which is undone if anything in it fails."""
        with self._lock:
            try:
                self._base.execute(f"BEGIN {kind}")
                try:
                    yield
                except BaseException:
                    self._base.execute("ROLLBACK")
                    raise
                self._base.execute("COMMIT")
            except sqlite3.Error as error:
                raise LabError(
                    f"a transaction in the store {self._path} failed: {error}",
                    hint="is the file system full, or held by a process that was stopped?",
                ) from error

    def _members(self, job: str) -> list[str]:
        rows = self._base.execute("SELECT client FROM members WHERE job = ?", (job,))
        return [client for (client,) in rows]

    def _job(self, job: str) -> Job | None:
        row = self._base.execute("SELECT record FROM jobs WHERE id = ?", (job,)).fetchone()
        return None if row is None else job_of(json.loads(row[0]), self._members(job))

    def _client(self, client: str) -> Client | None:
        row = self._base.execute("SELECT record FROM clients WHERE id = ?", (client,)).fetchone()
        return None if row is None else client_of(json.loads(row[0]))

    def _write_job(self, job: str, before: Job | None, after: Job | None) -> None:
        if after == before:
            return
        had, has = (record.members if record else frozenset() for record in (before, after))
        remove = "DELETE FROM members WHERE job = ? AND client = ?"
        add = "INSERT INTO members VALUES (?, ?)"
        self._base.executemany(remove, [(job, client) for client in had - has])
        self._base.executemany(add, [(job, client) for client in has - had])
        if after is None:
            self._base.execute("DELETE FROM jobs WHERE id = ?", (job,))
        else:
            record = json.dumps(job_fields(after))
            self._base.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?)", (job, record))

    def _write_client(self, client: str, before: Client | None, after: Client | None) -> None:
        if after == before:
            return
        if after is None:
            self._base.execute("DELETE FROM clients WHERE id = ?", (client,))
        else:
            record = json.dumps(client_fields(after))
            self._base.execute("INSERT OR REPLACE INTO clients VALUES (?, ?)", (client, record))


def _log_ahead(base: sqlite3.Connection) -> None:
    """Set write-ahead logging, which readers need so that they do not wait for writers.

    Of processes that do so at once on a new file some are refused without a wait, whatever the
    time-out, where each holds a lock that another one needs (sqlite.org/c3ref/busy_handler.html).
    """
    deadline = Deadline.after(_TURN_S)
    while True:
        try:
            base.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or deadline.passed:
                raise
            time.sleep(_AGAIN_S)
