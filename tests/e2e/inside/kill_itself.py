"""Run inside a twin: a command line that kills itself with -9 at a position of its journal.

    kill_itself.py promised|acted NUMBER ARGUMENTS...

`promised`: as soon as NUMBER lines are on the disk. `acted`: as soon as the act that follows them
has happened, or the next line is about to be written. With number 0 it lives, and prints how many
lines it wrote.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import testbed.cli
from testbed.bench.crossbar import Crossbar
from testbed.bench.host import BenchHost
from testbed.record.journal import Journal
from testbed_drivers.power.redfish import Redfish

WHEN, NUMBER, ARGUMENTS = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
ACTS = (
    (BenchHost, "__init__"),
    (BenchHost, "set_up_network"),
    (BenchHost, "start_rank"),
    (BenchHost, "clean_up"),
    (Crossbar, "command"),
    (Redfish, "_order"),
)
written = 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def counting(write: Callable[..., None]) -> Callable[..., None]:
    def counted(self: Journal, *arguments: Any) -> None:
        global written
        if WHEN == "acted" and NUMBER and written == NUMBER:
            die()
        write(self, *arguments)
        written += 1
        if WHEN == "promised" and written == NUMBER:
            die()

    return counted


def watching(act: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*arguments: Any, **named: Any) -> Any:
        result = act(*arguments, **named)
        if WHEN == "acted" and NUMBER and written == NUMBER:
            die()
        return result

    return watched


child = os.fork()  # the first process of a PID namespace cannot be killed from within
if child:
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)
Journal._write = counting(Journal._write)
for where, name in ACTS:
    setattr(where, name, watching(getattr(where, name)))
sys.argv = ["testbed", *ARGUMENTS]
code = testbed.cli.run(ARGUMENTS)
print(f"lines: {written}")
sys.exit(code)
