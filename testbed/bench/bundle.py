"""Pack the Python sources that run on hosts into one archive in memory.

The same sources give the same bytes, so its digest names the code that ran on the hosts. A package
whose jobs have a half of their own there registers it under `testbed.onhost`: the name of the entry
point is its name on the hosts, and its value the package here.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import chain

from testbed.errors import TestbedError
from testbed.plugins import named

_MAIN = b"import sys\nfrom onhost.jobs.rank import main\nsys.exit(main())\n"

# Runs on the host before any of our files are there: take the archive from standard input into
# memory, so that nothing of it is ever on the host's disk, and let it be the agent. Its client may
# be lost before the first byte: then the alarm, which the agent's hello ends, kills it.
_BOOTSTRAP = """
import os, signal, sys
signal.alarm(60)
fd, left = os.memfd_create("testbed"), int(sys.argv[1])
while left:
    piece = os.read(0, left)
    if not piece:
        sys.exit("the archive ended early")
    left -= os.write(fd, piece)
sys.path.insert(0, "/proc/self/fd/%d" % fd)
from onhost.agent.server import main
sys.exit(main(fd))
"""


OWN = "onhost"
"""The name on the host of the testbed's own package that travels."""


@cache
def bundle() -> bytes:
    """Return the archive: `__main__.py` runs a rank, `onhost.agent.server` the agent.

    Raise TestbedError for the half of a plug-in that cannot travel.
    """
    buffer = io.BytesIO()
    packages = [(OWN, files("testbed.onhost")), *_of_plugins()]
    every = (_sources(folder, name) for name, folder in packages)
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, source in chain([("__main__.py", _MAIN)], *every):
            # The date of a ZipInfo is the epoch of the format, whenever the file was changed.
            archive.writestr(zipfile.ZipInfo(path), source, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _of_plugins() -> Iterator[tuple[str, Traversable]]:
    """Yield the packages that plug-ins send along, by their names on the host."""
    for name, package in named("onhost").items():
        try:
            if name == OWN or not name.isidentifier():
                raise ImportError(f"{name!r} cannot be its name there")
            yield name, files(package)
        except ImportError as error:
            raise TestbedError(
                f"{package}, which is registered in testbed.onhost, cannot travel: {error}",
                hint="reinstall or uninstall the package that registers it",
            ) from error


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the sources of a package and of those in it, by their paths in the archive."""
    for found in sorted(folder.iterdir(), key=lambda found: found.name):
        inside = f"{path}/{found.name}"
        if found.is_dir():
            yield from _sources(found, inside)
        elif found.name.endswith(".py"):
            yield inside, found.read_bytes()


def digest() -> str:
    """Return the SHA-256 of the archive, in hexadecimal."""
    return hashlib.sha256(bundle()).hexdigest()


def agent_command(python: str) -> str:
    """Return the shell command that reads the archive from standard input and runs the agent."""
    return f"exec {shlex.quote(python)} -c {shlex.quote(_BOOTSTRAP)} {len(bundle())}"
