"""Twins that outlive the command that started them, by name."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from signal import SIGTERM
from stat import S_ISDIR

from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed.files import parse_json, read_file, replace_file
from testbed.plugins import nearest
from testbed.twin import NEW_TWIN
from testbed.twin.machine import process_start
from testbed.twin.sandbox import Sandbox, pid_space

_END_LIMIT = 60.0
_PAUSE = 0.2

_LARGEST = 64 << 10
"""Bytes of the file of a twin."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class RegisteredTwin:
    """A named twin: its processes, the start time of the first one, and its lab file."""

    name: str
    launcher: int
    server: int
    born: str
    """The launcher's start time as the kernel has it, so that a reused id is not taken for it."""
    lab_file: str
    lab: str = ""
    """The name of its lab."""
    space: str = ""
    """Where its process ids count; elsewhere, as inside another twin, nothing is known of it."""

    @property
    def sandbox(self) -> Sandbox:
        """Return the sandbox of the twin."""
        return Sandbox(self.name, self.launcher, self.server)


def check_name(name: str) -> None:
    """Raise UsageError unless a new twin may have this name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name of a twin", hint="use letters, digits, - and _"
        )
    if name == NEW_TWIN:
        message = f"{name!r} is reserved for a twin that a command starts for itself"
        raise UsageError(message, hint="give it another name")
    if any(twin.name == name for twin in standing()):
        raise UsageError(
            f"a twin called {name!r} is up already",
            hint=f"end it with `testbed twin down {name}`, or give this one a --name",
        )


def register(sandbox: Sandbox, lab_file: Path, lab: str) -> None:
    """Write the registry file of a twin, which is valid until the twin ends."""
    start = process_start(sandbox.launcher) or ""
    file = str(lab_file.resolve())
    twin = RegisteredTwin(
        sandbox.name, sandbox.launcher, sandbox.server, start, file, lab, pid_space()
    )
    replace_file(_directory() / f"{twin.name}.json", json.dumps(asdict(twin)).encode())


def standing() -> Iterator[RegisteredTwin]:
    """Yield the twins that are running, as far as visible; delete the files of dead ones."""
    for path in sorted(_place().glob("*.json")):
        twin = _read(path)
        if twin is None or twin.space != pid_space():
            continue
        if process_start(twin.launcher) == twin.born:
            yield twin
        else:
            path.unlink(missing_ok=True)


def _read(path: Path) -> RegisteredTwin | None:
    """Return the twin that a file describes; None when it is gone or describes none."""
    try:
        said = parse_json(read_file(path, _LARGEST))  # perhaps another version of us wrote it
        return RegisteredTwin(
            **{one.name: said.get(one.name, "") for one in fields(RegisteredTwin)}
        )
    except (OSError, ValueError, AttributeError):
        return None


def find(name: str) -> RegisteredTwin:
    """Return a running twin; raise UsageError when there is none of that name."""
    twins = {twin.name: twin for twin in standing()}
    if name not in twins:
        raise UsageError(f"no twin called {name!r} is up", hint=nearest(name, list(twins)))
    return twins[name]


def take_down(name: str, told: Callable[[str], object]) -> None:
    """Stop a twin and everything in it; commands in it end first, of which `told` is told.

    Blocks for as long as they take to put back what they changed, for a minute at most.
    """
    sandbox = find(name).sandbox
    under_way = sandbox.commands()
    for pid, command in under_way.items():
        told(f"in twin {name} runs `{command}`; it ends first, within {_END_LIMIT:.0f} s")
        with suppress(ProcessLookupError):
            os.kill(pid, SIGTERM)
    deadline = Deadline.after(_END_LIMIT)
    while under_way.keys() & sandbox.commands().keys() and not deadline.passed:
        time.sleep(min(_PAUSE, deadline.left))
    sandbox.end()
    for ending in ("json", "log"):
        (_place() / f"{name}.{ending}").unlink(missing_ok=True)
    with suppress(OSError):  # other twins are up
        _place().rmdir()


def name_of(identity: str) -> str:
    """Return the name of the running twin with this identity; empty where none is up or visible."""
    return next((twin.name for twin in standing() if twin.sandbox.identity == identity), "")


def log_file(name: str) -> Path:
    """Return the log file of a detached twin."""
    return _directory() / f"{name}.log"


def _place() -> Path:
    """Return where this user's own directory for twins is, or would be.

    Raise UsageError where another user made it, or may write there: processes are ended by what
    its files say.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(runtime) if runtime and os.access(runtime, os.W_OK) else Path(tempfile.gettempdir())
    place = root / f"testbed-twins-{_user()}"
    with suppress(FileNotFoundError):
        found = place.lstat()
        if found.st_uid != os.getuid() or not S_ISDIR(found.st_mode) or found.st_mode & 0o022:
            raise UsageError(
                f"{place} is not a directory that only you may write to",
                hint="remove it, or set XDG_RUNTIME_DIR to a directory of your own",
            )
    return place


def _user() -> int:
    """Return this user's id as it is outside: within a twin every user has the id 0."""
    with suppress(OSError):
        return outside(os.getuid(), Path("/proc/self/uid_map").read_text())
    return os.getuid()


def outside(uid: int, uid_map: str) -> int:
    """Return a user's id in the parent user namespace (user_namespaces(7), `uid_map`)."""
    for line in uid_map.splitlines():
        first, parent, count = map(int, line.split())
        if first <= uid < first + count:
            return parent + uid - first
    return uid


def _directory() -> Path:
    """Return this user's own directory for twins, made when needed."""
    with suppress(FileExistsError):
        _place().mkdir(mode=0o700)
    return _place()
