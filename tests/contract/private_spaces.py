"""Namespaces of a test's own, where this machine gives them to this user."""

import shutil
import subprocess
from collections.abc import Sequence


def can_be_private(command: Sequence[str]) -> bool:
    """Tell whether `unshare` and `ip` are there and a command that starts with `unshare` works."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run(command, capture_output=True).returncode == 0
