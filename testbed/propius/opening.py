"""Open the store of a control plane by its URL."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from testbed.errors import LabError, UsageError
from testbed.propius.store import Store


def own_store() -> str:
    """Return the embedded store that this user's services on this machine share by default.

    It has the machine's name, as SQLite's locks do not hold between machines that share a home.
    Make its directory, for this user only; raise LabError if that cannot be.
    """
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    directory = named if named.is_absolute() else Path("~/.local/state").expanduser()
    directory /= "testbed"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"the directory {directory} for a store cannot be made: {error}",
            hint="name a store by --store, or set XDG_STATE_HOME",
        ) from error
    return str(directory / f"propius-{socket.gethostname()}.db")


def open_store(url: str) -> Store:
    """Open the store that a URL names: `redis://…`, or else a file of the embedded store.

    The file is made if it is not there. Raise UsageError where the client of Redis is missing, and
    LabError if its server does not answer.
    """
    if url.startswith(("redis://", "rediss://", "unix://")):
        try:
            from testbed.propius.redis_store import RedisStore
        except ImportError as error:
            raise UsageError(
                f"the store {url} needs a client of Redis that is not installed: {error}",
                hint="pip install 'optical-testbed[propius]'",
            ) from error
        return RedisStore(url)
    from testbed.propius.embedded_store import EmbeddedStore

    return EmbeddedStore(url)
