"""Files of one JSON value a line, as a crash may have left them."""

from __future__ import annotations

import json
import os
from pathlib import Path


def mend(path: Path) -> None:
    """Bring a file that a crash cut short to the end of a line, so that it can be appended to.

    A last line that lacks only its end gets it; a piece of one is cut off, as nothing was done
    that it was to tell of.
    """
    if not path.exists():
        return
    with path.open("r+b") as file:
        whole, end, tail = file.read().rpartition(b"\n")
        if not tail:
            return
        try:
            json.loads(tail)
        except ValueError:
            file.truncate(len(whole + end))
        else:
            file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())
