"""A process that writes one checkpoint after the other and says when each is durable."""

import sys
from pathlib import Path

from testbed.onhost.jobs.checkpoint_files import CheckpointFiles

KEPT = 3
HISTORY = "a"


def content(step: int) -> bytes:
    return step.to_bytes(8, "big") * (32 << 10)


if __name__ == "__main__":
    files, step = CheckpointFiles(Path(sys.argv[1]), HISTORY, KEPT), int(sys.argv[2])
    while True:
        files.write(step, content(step))
        print(step, flush=True)
        step += 1
