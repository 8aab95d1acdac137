"""A rank that commits steps without computing any, to be faster than every disk.

Run in the place of `testbed.onhost.jobs.rank`. After three steps it goes back by one, if it is told
`--back`, and then waits for its end.
"""

from __future__ import annotations

import socket
import sys

from testbed.onhost.communication.control import Control
from testbed.onhost.jobs.checkpoints import Checkpoints
from testbed.onhost.jobs.state import State

SIZE = 4 << 20


def main() -> None:
    control = Control(socket.socket(fileno=int(sys.argv[-1])))
    configuration = control.next()
    state = State(SIZE)
    checkpoints = Checkpoints(configuration, state, control)
    state.on_commit = checkpoints.offer
    control.emit("ready")
    checkpoints.begin(0, 1)
    if "--back" in sys.argv:
        state.commit()
        state.rewind(0)
        checkpoints.begin(0, 2)
    else:
        for _ in range(3):
            state.commit()
    control.next()


if __name__ == "__main__":
    main()
