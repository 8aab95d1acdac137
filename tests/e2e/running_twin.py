"""A twin that stays up, looked at and broken from outside: no command of ours has a hand in it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.onhost.agent.processes import MARK
from testbed.twin import machine, registry


@dataclass(frozen=True, slots=True)
class RunningTwin:
    """A twin by its name, seen from the machine that it is on."""

    name: str
    _inits: dict[str, tuple[int, bytes]] = field(default_factory=dict, compare=False)
    """The first process of each host when it was looked up last, and when that was started."""

    @property
    def server(self) -> int:
        """Return the process that all far ends are threads of."""
        return registry.find(self.name).server

    def agents(self, host: str) -> list[int]:
        """Return the agents that run on a host."""
        return [pid for pid in self._processes(host) if b"memfd_create" in _read(pid, "cmdline")]

    def marked(self) -> list[int]:
        """Return the ranks that agents started anywhere in the twin, and all that those did."""
        return [pid for pid in self._processes() if f"{MARK}=".encode() in _read(pid, "environ")]

    def journals(self, host: str) -> list[str]:
        """Return the undo journals on a host."""
        return self.on(host, "find", "/run", "-name", "*.jsonl").split()

    def network(self, host: str) -> str:
        """Return all that agents may change on a host, as `ip` shows it."""
        shown = "ip -4 addr && ip -4 route && ip neigh show nud permanent"
        text = self.on(host, "sh", "-c", shown)
        return re.sub(r" (valid_lft|linkdown|state|NO-CARRIER)\b.*", "", text)

    def on(self, host: str, *command: str) -> str:
        """Run a command on a host, beside everything that could refuse it."""
        return self._enter(self._init(host), "--net", "--mount", "--uts", command=command)

    def start_on(self, host: str, *command: str) -> subprocess.Popen[str]:
        """Start a program on a host's network that runs until its standard input ends."""
        way = ["nsenter", "--target", str(self._init(host)), "--user", "--preserve-credentials"]
        pipe = subprocess.PIPE
        return subprocess.Popen([*way, "--net", *command], stdin=pipe, stdout=pipe, text=True)

    @contextmanager
    def stopped(self, pid: int) -> Iterator[None]:
        """Stop a process for a while."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def black_hole(self, host: str) -> Iterator[None]:
        """Lose every frame to and from a host's management port; its carrier stays.

        Its link-layer address is forgotten, as that of a host which was never reached: a connection
        to it fails when nobody answers for the address, not only when it has been tried for long.
        """
        port = f"m{host.removeprefix('h')}"
        self.inside("ip", "link", "set", port, "nomaster")
        self.inside("ip", "neigh", "flush", "all")
        try:
            yield
        finally:
            self.inside("ip", "link", "set", port, "master", "management")

    @contextmanager
    def faulty(self, instrument: str, fault: str, **scope: object) -> Iterator[None]:
        """Have an instrument do something wrong, from this moment on."""
        self.ask(do="fault", instrument=instrument, fault=fault, scope=scope)
        try:
            yield
        finally:
            self.ask(do="clear", instrument=instrument, fault=fault)

    @contextmanager
    def silent(self, instrument: str) -> Iterator[None]:
        """Have an instrument accept everything and answer nothing, from this moment on."""
        with self.faulty(instrument, "silent"):
            yield

    def ask(self, **request: object) -> Any:
        """Ask the twin itself, without the time that a command takes to start."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(20)
            line.connect(f"/proc/{self.server}/root{machine.SOCKET}")
            line.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(line.makefile().readline())
        assert "ok" in answer, answer
        return answer["ok"]

    def inside(self, *command: str) -> str:
        """Run a command where the orchestrator and the instruments are."""
        return self._enter(self.server, "--net", "--mount", command=command)

    def _enter(self, pid: int, *spaces: str, command: tuple[str, ...]) -> str:
        way = ["nsenter", "--target", str(pid), "--user", "--preserve-credentials", *spaces]
        done = subprocess.run([*way, *command], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def _init(self, host: str) -> int:
        """Return a host's first process."""
        ours = Path(f"/proc/{self.server}/ns/user").readlink()
        pid, started = self._inits.get(host, (0, b""))
        if started and _started(pid) == started and _space(pid) == ours:
            return pid
        for process in Path("/proc").glob("[0-9]*"):
            pid = int(process.name)
            spaces = re.search(rb"^NSpid:\t(.*)$", _read(pid, "status"), re.MULTILINE)
            is_first = bool(spaces) and spaces[1].split()[-1] == b"1" and pid != self.server
            if is_first and _space(pid) == ours and self._name_of(pid) == host:
                self._inits[host] = pid, _started(pid)
                return pid
        raise AssertionError(f"{host} has no power")

    def _name_of(self, pid: int) -> str:
        return self._enter(pid, "--uts", command=("hostname",)).strip()

    def _processes(self, host: str = "") -> list[int]:
        ours = Path(f"/proc/{self.server}/ns/user").readlink()
        pids = (int(process.name) for process in Path("/proc").glob("[0-9]*"))
        wanted = f"HOSTNAME={host}".encode()
        return [p for p in pids if _space(p) == ours and wanted in _read(p, "environ")]


def _space(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/user").readlink()
    except OSError:
        return None


def _started(pid: int) -> bytes:
    """Return when a process was started, in ticks since boot; nothing when it has ended."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return fields[19] if fields else b""


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
