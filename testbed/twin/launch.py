"""Enter a twin: `python -m testbed.twin.launch new|run|join|enter …`, run by `sandbox`.

This process stays outside, receives signals and is waited for; its child is the first process
inside. When it is killed, the kernel ends everything inside.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from testbed.errors import EXIT_BUG, EXIT_LAB, EXIT_USAGE, TestbedError
from testbed.twin import clock_rate, machine, namespaces
from testbed.twin.control_socket import ask
from testbed.twin.precedence import take_precedence

_NO_NAMESPACES = (
    "allow user namespaces on this machine (sysctl kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces above 0)"
)


def new(name: str, ready: int, lab_file: str, overrides: list[str]) -> int:
    """Build the twin of a lab and keep it running; report on the file descriptor `ready`."""

    def report(**said: object) -> None:
        try:
            os.write(ready, json.dumps(said).encode() + b"\n")
        except BrokenPipeError:  # the process that started this has ended, and no other knows of it
            os._exit(EXIT_LAB)

    take_precedence()
    try:
        namespaces.become_root_of_new_user_namespace()
        namespaces.unshare(namespaces.MACHINE)
        namespaces.only_receive_mounts()
    except OSError as error:
        report(error=str(error), hint=_NO_NAMESPACES, exit=EXIT_LAB)
        return EXIT_LAB
    return namespaces.run_as_init(
        lambda: _serve(name, lab_file, overrides, report),
        announce=lambda pid: report(pid=pid),
    )


def _serve(name: str, lab_file: str, overrides: list[str], report: Callable[..., None]) -> int:
    from testbed.schema import load_lab
    from testbed.twin.server import serve

    try:
        return serve(load_lab(Path(lab_file), overrides), name, lambda: report(ready=True))
    except TestbedError as error:
        report(error=str(error.args[0]), hint=error.hint, exit=error.exit_code)
        return error.exit_code
    except (OSError, ValueError) as error:
        report(error=str(error), hint="run `testbed doctor`", exit=EXIT_LAB)
        return EXIT_LAB
    except Exception:
        report(error=traceback.format_exc(), hint="this is a bug of the testbed", exit=EXIT_BUG)
        return EXIT_BUG


def join(server: int, directory: str, command: list[str]) -> int:
    """Run a command in the twin whose first process is `server`, and return its exit code.

    It gets a PID namespace of its own, so nothing that it starts outlives it.
    """
    if unseen := _first_below(_mounts("self") - _mounts(str(server)), directory, command):
        text = f"{unseen} is on a file system that was mounted after this twin was started"
        print(f"testbed: {text}; take the twin down and up again", file=sys.stderr)
        return EXIT_USAGE
    _go_into(server, "user", "net", "uts", "ipc", "mnt")
    namespaces.unshare(namespaces.NEWPID | namespaces.NEWNS)
    namespaces.keep_mounts_private()
    if machine.PROCESSES.is_dir():  # a twin of an older version has none
        namespaces.bind("/proc", machine.PROCESSES)
    os.chdir(directory)
    return namespaces.run_as_init(lambda: _become(command))


def enter(server: int, host: str, directory: str, command: list[str]) -> int:
    """Run a command in all namespaces of a virtual host of the twin; return its exit code."""
    _go_into(server, "user", "pid", "mnt", "net")

    def inside() -> NoReturn:
        hosts = ask({"do": "describe"})["hosts"]
        if host not in hosts:
            there = ", ".join(hosts) or "none"
            print(f"testbed: no host {host!r} is on; those that are: {there}", file=sys.stderr)
            os._exit(EXIT_USAGE)
        _go_into(hosts[host], "net", "uts", "ipc", "time", "pid", "mnt")
        os.chdir(directory)
        os.environ["PYTHONPATH"] = clock_rate.DIRECTORY
        os._exit(_in_child(lambda: _become(command)))

    return _in_child(inside)


def _mounts(process: str) -> set[tuple[str, str]]:
    """Return the mount points that a process sees, each with its device."""
    rows = [row.split() for row in Path(f"/proc/{process}/mountinfo").read_text().splitlines()]
    return {(row[4], row[2]) for row in rows}


def _first_below(mounts: set[tuple[str, str]], directory: str, command: list[str]) -> str:
    """Return the first path that a command may use on one of some mounts, or nothing."""
    points = {Path(point) for point, _ in mounts}
    for word in ("", "results", *command):
        path = Path(directory, word.rpartition("=")[2])
        if points & {path, *path.parents}:
            return str(path)
    return ""


def _in_child(action: Callable[[], NoReturn]) -> int:
    """Do something in a child, which alone is inside the PID namespace that was entered."""
    child = os.fork()
    if child == 0:
        action()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _go_into(process: int, *kinds: str) -> None:
    opened = [os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for descriptor in opened:
        namespaces.setns(descriptor)
        os.close(descriptor)


def _become(command: list[str]) -> NoReturn:
    os.execvpe(command[0], command, machine.environment())  # noqa: S606 - the caller's own command


def main(arguments: list[str]) -> int:
    """Create, join or enter a twin, as the first argument says."""
    match arguments:
        case ["new", parent, name, ready, lab_file, *overrides]:
            _follow(int(parent))
            return new(name, int(ready), lab_file, overrides)
        case ["run" | "join" as how, parent, server, directory, *command]:
            _follow(int(parent))
            if how == "run":
                take_precedence()
            return join(int(server), directory, command)
        case ["enter", parent, server, host, directory, *command]:
            _follow(int(parent))
            return enter(int(server), host, directory, command)
    raise SystemExit(f"unknown arguments: {arguments}")


def _follow(parent: int) -> None:
    """Die with the process that started this one, unless it is to be left alone (parent 0)."""
    if parent == 0:
        return
    namespaces.die_with_parent()
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
