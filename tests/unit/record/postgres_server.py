"""A real PostgreSQL server, started by the test as a user who is not root, gone afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534
PASSWORD = "lease-keeper's secret"
_QUICK = ["-c", "fsync=off", "-c", "shared_buffers=1MB", "-c", "max_connections=20"]


def binaries():
    """Return where PostgreSQL's own programs are, or None."""
    if found := shutil.which("postgres"):
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return places[-1].parent if places else None


class Server:
    """The server, its address, and its death."""

    def __init__(self, directory, as_user):
        self._directory = directory
        self._as_user = as_user
        self.port = _free_port()
        self._start()

    def url(self, password="lease-keeper%27s%20secret"):
        return f"postgresql://keeper:{password}@127.0.0.1:{self.port}/postgres"

    def _start(self):
        where = ["-D", self._directory / "data", "-k", self._directory, "-p", str(self.port)]
        self._process = subprocess.Popen(
            [binaries() / "postgres", *where, "-c", "listen_addresses=127.0.0.1", *_QUICK],
            stderr=subprocess.PIPE,
            text=True,
            **self._as_user,
        )
        said = []
        while "ready to accept connections" not in (line := self._process.stderr.readline()):
            said.append(line)
            assert line, "".join(said)

    def kill(self):
        self._process.kill()
        self._process.communicate()

    @contextmanager
    def frozen(self):
        """Have the process that lets clients in do nothing, although its kernel answers them."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def start_again(self):
        (self._directory / "data" / "postmaster.pid").unlink(missing_ok=True)
        self._start()


@contextmanager
def running_server():
    """Start a server with one user, who has a password."""
    as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "password").write_text(PASSWORD)
        if as_user:
            for path in (directory, directory / "password"):
                os.chown(path, NOBODY, NOBODY)
        login = ["-U", "keeper", "-A", "scram-sha-256", "--pwfile", directory / "password"]
        subprocess.run(
            [binaries() / "initdb", "-D", directory / "data", *login, "--no-sync", "-E", "UTF8"],
            check=True,
            capture_output=True,
            cwd=directory,
            **as_user,
        )
        server = Server(directory, as_user)
        try:
            yield server
        finally:
            server.kill()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
