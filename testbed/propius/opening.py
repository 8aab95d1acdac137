"""Open the store of a control plane by its URL."""

from __future__ import annotations

from testbed.errors import UsageError
from testbed.propius.store import Store


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
