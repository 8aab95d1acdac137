"""Where far ends answer: TCP ports, device names, web services and SSH servers of this machine."""

from __future__ import annotations

import atexit
import shutil
import ssl
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol

from testbed.twin.far_end_ssh import SshServer
from testbed.twin.far_end_tcp_pty import serve_pty, serve_tcp
from testbed.twin.keys import write_certificate, write_ssh_key


class Wire(Protocol):
    """A line on which a far end answers until it is closed."""

    def close(self) -> None:
        """End it."""


class Place(Protocol):
    """An address at which far ends answer, one after the other."""

    resource: Any
    """How a lab file names this place."""

    def serve(self, far_end: Any) -> Wire:
        """Let a far end answer here until the wire returned is closed."""


class TcpPlace:
    """A TCP port that far ends answer on, one after the other."""

    tls: ssl.SSLContext | None = None
    port = 0

    def __init__(self, directory: Path, transport: str) -> None:
        self._form = "TCPIP::127.0.0.1::{}::SOCKET" if transport == "visa" else "tcp://127.0.0.1:{}"

    def serve(self, far_end: Any) -> Wire:
        """Let a far end answer here until the wire returned is closed."""
        wire = serve_tcp(far_end, port=self.port, tls=self.tls)
        self.port = wire.port
        return wire

    @property
    def resource(self) -> str:
        """Return how a lab file names this place."""
        return self._form.format(self.port)


class HttpPlace(TcpPlace):
    """A TCP port of a web service."""

    def __init__(self, directory: Path, transport: str) -> None:
        self._form = "http://127.0.0.1:{}"


class HttpsPlace(TcpPlace):
    """The same, encrypted; its certificate is trusted by the driver only."""

    def __init__(self, directory: Path, transport: str) -> None:
        self._form = "https://127.0.0.1:{}"
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(*certificate())


class PtyPlace:
    """A device name that far ends answer on."""

    _number = 0

    def __init__(self, directory: Path, transport: str) -> None:
        PtyPlace._number += 1
        self._path = Path(directory) / f"tty{PtyPlace._number}"
        self.resource = f"ASRL{self._path}::INSTR"

    def serve(self, far_end: Any) -> Wire:
        """Let a far end answer here until the wire returned is closed."""
        return serve_pty(far_end, self._path)


class SshPlace:
    """An SSH server whose host key is known, and that knows the key of the tests' user."""

    port = 0

    def __init__(self, directory: Path, transport: str) -> None:
        self._home = Path(directory) / ".ssh"
        self._home.mkdir(exist_ok=True)
        public = self._home / "id_ed25519.pub"
        if not public.exists():
            public.write_text(write_ssh_key(self._home / "id_ed25519"))
        self._client_key = public.read_text()
        self._key = self._home / f"server{len(list(self._home.iterdir()))}"
        self._known = write_ssh_key(self._key)

    def serve(self, far_end: Any) -> Wire:
        """Let a far end answer here until the wire returned is closed."""
        wire = SshServer(far_end, port=self.port, host_key=self._key, client_key=self._client_key)
        self.port = wire.port
        with (self._home / "known_hosts").open("a") as known:
            known.write(f"[127.0.0.1]:{self.port} {self._known}\n")
        return wire

    @property
    def resource(self) -> str:
        """Return how a lab file names this place."""
        return f"ssh://admin@127.0.0.1:{self.port}"


PLACES: dict[str, Any] = {
    "tcp": TcpPlace,
    "pty": PtyPlace,
    "http": HttpPlace,
    "https": HttpsPlace,
    "ssh": SshPlace,
}


@cache
def certificate() -> tuple[Path, Path]:
    """Return chain and key of a certificate for 127.0.0.1."""
    place = Path(mkdtemp(prefix="testbed-tls-"))
    atexit.register(shutil.rmtree, place)
    return write_certificate(place, ["127.0.0.1"])
