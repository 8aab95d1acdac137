"""The private machine of a twin: its devices, host names and directories."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

from testbed.record.locks import SHARED, make_shared
from testbed.twin.namespaces import bind, mount

RUNTIME_DIRECTORY = Path("/run/testbed")
"""The files of the twin, on a file system in memory."""

HOME = RUNTIME_DIRECTORY / "home"
"""The home directory of commands in the twin: an SSH key, known hosts and nothing else."""

SOCKET = RUNTIME_DIRECTORY / "twin.sock"
CERTIFICATES = RUNTIME_DIRECTORY / "tls"
PROCESSES = RUNTIME_DIRECTORY / "proc"
"""The processes of the twin and of all its hosts, for commands inside it: their own /proc shows
the processes of the command alone."""

TWIN_VARIABLE = "TESTBED_TWIN"
"""Set for processes inside a twin, to its name."""

IDENTITY_VARIABLE = "TESTBED_TWIN_IDENTITY"
"""Set for commands that are run inside a twin, to what no other twin ever has."""

_DEVICES = ("null", "zero", "full", "random", "urandom")


def process_start(pid: int) -> str | None:
    """Return a process's start time in clock ticks since boot, or None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def kill(pid: int, limit: float) -> None:
    """Kill a process and wait for its end, for at most `limit` seconds."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], limit)
    finally:
        os.close(descriptor)


def reap() -> bool:
    """Collect the child processes that have ended; return whether others still run."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def mount_private_filesystems(names: dict[str, str]) -> None:
    """Mount private /run, /dev, /etc/hosts and leases, which hides real instruments."""
    mount("tmpfs", "/run", "tmpfs", "mode=0755")
    for directory in (RUNTIME_DIRECTORY, HOME, HOME / ".ssh", CERTIFICATES, PROCESSES):
        directory.mkdir(mode=0o700)
    make_shared(SHARED)  # on the machine around us, where it stays: a mount must lie on something
    mount("tmpfs", SHARED, "tmpfs", "mode=1777")
    _make_devices(RUNTIME_DIRECTORY / "dev")
    hosts = RUNTIME_DIRECTORY / "hosts"
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
    hosts.write_text("\n".join(lines) + "\n")
    bind(hosts, "/etc/hosts")


def host_key(name: str) -> Path:
    """Return the path of a virtual host's SSH key."""
    return RUNTIME_DIRECTORY / f"host-key-{name}"


def instrument_key(name: str) -> Path:
    """Return the path of an instrument's SSH key."""
    return RUNTIME_DIRECTORY / f"instrument-key-{name}"


def _make_devices(root: Path) -> None:
    root.mkdir()
    mount("tmpfs", root, "tmpfs", "mode=0755")
    for name in _DEVICES:
        (root / name).touch()
        bind(f"/dev/{name}", root / name)
    for directory in ("pts", "shm"):
        (root / directory).mkdir(mode=0o1777)
    mount("devpts", root / "pts", "devpts", "newinstance,ptmxmode=0666,mode=0620")
    (root / "ptmx").symlink_to("pts/ptmx")
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1")):
        (root / name).symlink_to(target)
    bind(root, "/dev")


def environment() -> dict[str, str]:
    """Return the environment of a process that runs inside this twin.

    Caches stay where the user's are: a home that is new each time would have matplotlib look at
    every font of the machine again for each report.
    """
    home = os.environ.get("HOME", "")
    caches = {"XDG_CACHE_HOME": f"{home}/.cache"} if home else {}
    inside = {"HOME": str(HOME), "SSL_CERT_FILE": str(CERTIFICATES / "cert.pem")}
    return {**caches, **os.environ, **inside}
