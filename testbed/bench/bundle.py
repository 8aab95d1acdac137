"""Pack the Python sources that run on hosts into one archive in memory.

The digest of the sources names the code that ran on the hosts. Beside each is its bytecode, for
hosts with this version of Python: to compile is a fifth of what a rank needs to start. Others
compile the sources, for Python itself looks at the version (`zipimport`).

A package whose jobs have a half of their own there registers it under `testbed.onhost`: the name of
the entry point is its name on the hosts, and its value the package here.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import MAGIC_NUMBER, source_hash
from threading import Lock

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


_TRUSTED = 1
"""Flags of bytecode that is used without a look at its source (PEP 552, unchecked hash)."""


_packing = Lock()
"""Held while the archive is packed: hosts are opened side by side, and each would pack its own."""


def bundle() -> bytes:
    """Return the archive: `__main__.py` runs a rank, `onhost.agent.server` the agent.

    Raise TestbedError for the half of a plug-in that cannot travel.
    """
    with _packing:
        return _packed()


@cache
def _packed() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, "__main__.py", _MAIN)
        for path, found in _sources().items():
            source = found.read_bytes()
            _add(archive, path, source)
            _add(archive, f"{path}c", _bytecode(path, source))
    return buffer.getvalue()


def digest() -> str:
    """Return the SHA-256 of all sources in the archive and their paths there, in hexadecimal."""
    found = hashlib.sha256(_MAIN)
    for path, source in _sources().items():
        found.update(f"\0{path}\0".encode() + source.read_bytes())
    return found.hexdigest()


def _add(archive: zipfile.ZipFile, path: str, content: bytes) -> None:
    # The date of a ZipInfo is the epoch of the format, whenever the file was changed.
    archive.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED)


def _bytecode(path: str, source: bytes) -> bytes:
    """Return a module as Python keeps it on the disk; raise TestbedError where it is not Python."""
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise TestbedError(
            f"{path}, which goes to hosts, cannot be compiled: {error}",
            hint="correct it, or uninstall the package that registers it in testbed.onhost",
        ) from error
    header = MAGIC_NUMBER + _TRUSTED.to_bytes(4, "little") + source_hash(source)
    return header + marshal.dumps(code)


def _sources() -> Mapping[str, Traversable]:
    """Return the files that travel by their paths in the archive."""
    packages = [(OWN, files("testbed.onhost")), *_of_plugins()]
    return {path: file for name, folder in packages for path, file in _modules(folder, name)}


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


def _modules(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the sources of a package and of those in it, with their paths in the archive."""
    for found in sorted(folder.iterdir(), key=lambda found: found.name):
        inside = f"{path}/{found.name}"
        if found.is_dir():
            yield from _modules(found, inside)
        elif found.name.endswith(".py"):
            yield inside, found


def agent_command(python: str) -> str:
    """Return the shell command that reads the archive from standard input and runs the agent."""
    return f"exec {shlex.quote(python)} -c {shlex.quote(_BOOTSTRAP)} {len(bundle())}"
