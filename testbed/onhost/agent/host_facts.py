"""The facts that an agent reports of its host at the beginning."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import tempfile
import time
from typing import Any

from .ports import card_addresses, hardware_address


def host_facts(interfaces: dict[str, str]) -> dict[str, Any]:
    """Return names, versions and sizes; `interfaces` maps fabric ports to their interfaces."""
    free = os.statvfs(tempfile.gettempdir())
    return {
        "hostname": platform.node(),
        "address": _own_address(),
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "root": os.geteuid() == 0,
        "pid": os.getpid(),
        "hardware": {port: hardware_address(name) for port, name in interfaces.items()},
        "cards": card_addresses(),
        "time": time.time(),
        "free": free.f_bavail * free.f_frsize,
    }


def _own_address() -> str:
    """Return the address at which the SSH server of this host was reached, if one says so."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else ""


def _version(package: str) -> str:
    """Return a package's version, or an empty string when it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
