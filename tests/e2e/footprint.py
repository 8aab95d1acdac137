"""What a run of this user could leave behind on this machine; others may be at work there, too."""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path

from testbed.record.locks import SHARED


def footprint() -> dict[str, set[str]]:
    """Return processes of ours, namespaces, network interfaces, locks and temporary files."""
    return {
        "processes": set(_processes()),
        "namespaces": set(_namespaces()),
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "files": {
            str(file)
            for place, pattern in ((Path(tempfile.gettempdir()), "*testbed*"), (SHARED, "*"))
            for file in place.glob(pattern)
            if _is_ours(file)
        },
    }


def assert_as(before: dict[str, set[str]], limit: float = 5.0) -> None:
    """Compare with what was there; the kernel may take a moment to tear namespaces down."""
    end = time.monotonic() + limit
    while True:
        left = {what: sorted(now - before[what]) for what, now in footprint().items()}
        if not any(left.values()) or time.monotonic() > end:
            break
        time.sleep(0.05)
    assert not any(left.values()), left


def _processes() -> list[str]:
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                words = (directory / "cmdline").read_bytes().split(b"\0")
                status = (directory / "status").read_text()
            except OSError:
                continue
            if (
                not re.search(rf"^Uid:\s{os.getuid()}\s", status, re.MULTILINE)
                or "State:\tZ" in status
            ):
                continue
            known = any(b"testbed.cli" in word or b"testbed.twin" in word for word in words)
            if known or b"memfd:testbed" in b"".join(words):
                found.append(f"{directory.name} {words[:6]}")
    return found


def _is_ours(file: Path) -> bool:
    try:
        return file.lstat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


def _namespaces() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        for kind in ("net", "user", "mnt", "pid"):
            try:
                found.append(f"{kind} {(process / 'ns' / kind).readlink()}")
            except OSError:
                continue  # the process ended meanwhile
    return found
