"""Storage of lease claims: a file on this machine, or a PostgreSQL server for several ones.

Both use the same few SQL statements. A transaction locks the whole store, so the rules in
`lease_rules` see one state after the other; and the primary key of the database refuses a second
owner of a resource. A connection lasts for one transaction: so a store that was removed or
restarted meanwhile is noticed.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from testbed.clock import Deadline, bounded, disconnected_at, utc
from testbed.commands import installing
from testbed.errors import LabError, UsageError
from testbed.files import parse_json
from testbed.record.lease_rules import Claim, Claims, Holder, Resource
from testbed.record.locks import SHARED, make_shared, make_shared_file
from testbed.secret import conceal

_TABLES = (
    """CREATE TABLE IF NOT EXISTS testbed_claims (
         token TEXT PRIMARY KEY, expires DOUBLE PRECISION NOT NULL, holder TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS testbed_leases (
         box TEXT, part TEXT, name TEXT NOT NULL,
         token TEXT NOT NULL REFERENCES testbed_claims (token), PRIMARY KEY (box, part))""",
    """CREATE TABLE IF NOT EXISTS testbed_forced (
         token TEXT NOT NULL, at TEXT NOT NULL, by_whom TEXT NOT NULL, what TEXT NOT NULL)""",
)
_BATCH = 200
"""Rows in one statement: SQLite before 3.32 takes 999 values, and a row has up to four."""

_LIMIT = 10
"""Seconds that a transaction may wait for others, and the most that one on a server may take."""


class Ledger:
    """The rows of a lease store within one transaction."""

    def __init__(self, connection: sqlite3.Connection | _QmarkConnection, now: float) -> None:
        self._connection = connection
        self.now = now
        """The store's own time: the one clock that decides expiry for all who share it."""

    def claims(self, token: str = "") -> Claims:
        """Return every claim by its token, or that of one `token` alone."""
        resources: dict[str, set[Resource]] = {}
        select = "SELECT box, part, name, token FROM testbed_leases WHERE ? IN ('', token)"
        for box, part, name, owner in self._connection.execute(select, (token,)).fetchall():
            resources.setdefault(owner, set()).add(Resource(box, part, name))
        select = "SELECT token, expires, holder FROM testbed_claims WHERE ? IN ('', token)"
        return {
            owner: Claim(owner, _holder(holder), frozenset(resources.get(owner, ())), expires)
            for owner, expires, holder in self._connection.execute(select, (token,)).fetchall()
        }

    def write(self, before: Claims, after: Claims) -> None:
        """Change the rows from one set of claims to another; a renewal takes one statement."""
        changed = sorted(t for t in {*before, *after} if before.get(t) != after.get(t))
        renewed = {t for t in changed if _is_renewal(before.get(t), after.get(t))}
        for token in sorted(renewed):
            statement = "UPDATE testbed_claims SET expires = ? WHERE token = ?"
            self.execute(statement, after[token].expires, token)
        replaced = [token for token in changed if token not in renewed]
        removed = [(token,) for token in replaced if token in before]
        self._run_on_rows("DELETE FROM testbed_leases WHERE token IN (VALUES {})", removed)
        self._run_on_rows("DELETE FROM testbed_claims WHERE token IN (VALUES {})", removed)
        added = [after[token] for token in replaced if token in after]
        self._run_on_rows(
            "INSERT INTO testbed_claims (token, expires, holder) VALUES {}",
            [(claim.token, claim.expires, json.dumps(asdict(claim.holder))) for claim in added],
        )
        self._run_on_rows(
            "INSERT INTO testbed_leases (box, part, name, token) VALUES {}",
            [(r.box, r.part, r.name, claim.token) for claim in added for r in claim.resources],
        )

    def log_revocation(self, token: str, by: str, what: str) -> None:
        """Record permanently which user removed which resources from a claim."""
        self.execute(
            "INSERT INTO testbed_forced (token, at, by_whom, what) VALUES (?, ?, ?, ?)",
            *(token, utc(), by, what),
        )

    def revocations(self, token: str) -> str:
        """Return a sentence on the user who removed resources from a claim; empty if none did."""
        statement = "SELECT by_whom, at, what FROM testbed_forced WHERE token = ? ORDER BY at"
        rows = self._connection.execute(statement, (token,)).fetchall()
        return "; ".join(f"{by} took {what} at {at}" for by, at, what in rows)

    def execute(self, statement: str, *values: Any) -> Any:
        """Execute a statement with a `?` for each value; return what has its rows."""
        return self._connection.execute(statement, values)

    def _run_on_rows(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement that takes rows where it has `{}`, for many of them at once."""
        for first in range(0, len(rows), _BATCH):
            batch = rows[first : first + _BATCH]
            row = f"({', '.join('?' * len(batch[0]))})"
            marks = ", ".join([row] * len(batch))
            self.execute(statement.replace("{}", marks), *chain.from_iterable(batch))


class LeaseStore(Protocol):
    """The interface of lease stores."""

    def open(self) -> Any:
        """Begin a transaction that excludes all others; return its Ledger, or raise LabError."""


class FileStore:
    """Claims in an SQLite file that every user of this machine may change."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        """Keep claims in `path`; by default where the lock files of this machine are."""
        self._path = path or SHARED / "leases" / "leases.sqlite"
        self._clock = clock

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        """Begin a transaction that excludes all others; it is rolled back where its body raises."""
        try:
            if self._path.is_symlink():  # every user may put one there
                raise OSError("it is a link")
            if not self._path.exists():
                self._make()
            uri = f"{self._path.resolve().as_uri()}?mode=rw"
            found = sqlite3.connect(uri, uri=True, timeout=_LIMIT, isolation_level=None)
            with closing(found) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield Ledger(connection, self._clock())
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise LabError(
                f"the leases in {self._path} cannot be used: {error}",
                hint="check that this user may write there, and that the disk has space",
            ) from error

    def _make(self) -> None:
        """Write the file aside and link it into place: several processes may start at once."""
        make_shared(SHARED)
        make_shared(self._path.parent, sticky=False)
        draft = self._path.with_name(f".{secrets.token_hex(8)}.sqlite")
        try:
            # Sticky as well: `systemd-tmpfiles` never removes such a file for its age.
            with os.fdopen(make_shared_file(draft, 0o1666), "wb") as file:
                file.write(_empty_store())
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(draft, self._path)
        finally:
            draft.unlink(missing_ok=True)


def _empty_store() -> bytes:
    """Return a database without claims, made where no other user can plant a link."""
    with tempfile.TemporaryDirectory() as private:
        path = Path(private) / "leases.sqlite"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            for statement in _TABLES:
                connection.execute(statement)
        return path.read_bytes()


class PostgresStore:
    """Claims on a PostgreSQL server; times are those of the server's clock."""

    def __init__(self, url: str, limit: float = _LIMIT) -> None:
        """Take the server's URL, not opened before it is needed, and how long it may take."""
        parts = urlsplit(url)
        pairs = (pair.partition("=") for pair in parts.query.split("&"))
        given = [value for name, _, value in pairs if name in ("password", "sslpassword")]
        for password in (parts.password or "", *given):
            for spelling in (password, unquote(password), *password.split("@")):
                conceal(spelling)
        self._url = url
        self._limit = limit

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        """Begin a transaction that excludes all others; it is rolled back where its body raises."""
        try:
            import psycopg
        except ImportError as error:
            raise UsageError(
                "leases on a PostgreSQL server need the package psycopg, which is not installed",
                hint=f"install it with: {installing('postgres')}",
            ) from error
        # The last is for us: a controller that stops in a transaction must not block all others.
        kinds = ("lock", "statement", "idle_in_transaction_session")
        settings = " ".join(f"-c {kind}_timeout={self._limit * 1000:.0f}" for kind in kinds)
        deadline = Deadline.after(self._limit)

        def connect() -> psycopg.Connection:
            return psycopg.connect(self._url, connect_timeout=_LIMIT, options=settings)

        try:
            connection = bounded(connect, deadline, psycopg.Connection.close)
            # Each statement sees what was there when it began: so the first after the wait for
            # the others sees all that they did, whatever the server's own default is.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            # libpq itself waits for ever for a frozen server
            line = socket.socket(fileno=os.dup(connection.fileno()))
            with line, disconnected_at(deadline, line), connection:
                connection.execute("SELECT pg_advisory_xact_lock(hashtext('testbed leases'))")
                for statement in _TABLES:
                    connection.execute(statement)
                row = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
                assert row is not None
                yield Ledger(_QmarkConnection(connection), float(row[0]))
        except (psycopg.Error, TimeoutError) as error:
            late = f"it did not answer within {self._limit:g} s"
            raise LabError(
                f"the leases on {_named(self._url)} cannot be used: "
                f"{late if deadline.passed else str(error).strip()}",
                hint="check that the server is up, and that this user may log in and create tables",
            ) from error


class _QmarkConnection:
    """A psycopg connection that takes `?` as a placeholder, as SQLite does."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        return self._connection.execute(statement.replace("?", "%s"), values)


def _is_renewal(before: Claim | None, after: Claim | None) -> bool:
    """Tell whether nothing of a claim changed but its expiry."""
    return before is not None and after == replace(before, expires=after.expires if after else 0.0)


def _holder(text: str) -> Holder:
    """Return a holder from its JSON, in which other users may have written anything."""
    kinds: dict[str, type] = {field.name: str for field in fields(Holder)} | {"pid": int}
    try:
        data = parse_json(text)
        known: Any = {k: value for k, value in data.items() if isinstance(value, kinds.get(k, ()))}
        return Holder(**known)
    except (ValueError, TypeError, AttributeError):
        return Holder("unknown holder", "an unknown host", 0)


def _named(url: str) -> str:
    """Return a server's address without user and password."""
    parts = urlsplit(url)
    return f"{parts.hostname or 'this machine'}{parts.path}"
