"""A rank that sums another value than it says, and whose messages change after their checksum.

Run in the place of `testbed.onhost.jobs.rank`.
"""

from typing import Any

from testbed.onhost.communication import group, messages
from testbed.onhost.jobs.rank import main

run, send_all = group.Group.run, messages.send_all


def run_wrongly(self: group.Group, schedule: Any, vector: group.Vector) -> group.ScheduleRecord:
    vector[5] += 1
    return run(self, schedule, vector)


def send_wrongly(connections: Any, peer: Any, data: Any) -> Any:
    changed = bytearray(data)
    if len(changed) > 64:  # not an opening
        changed[40] ^= 1
    return send_all(connections, peer, bytes(changed))


if __name__ == "__main__":
    group.Group.run = run_wrongly  # type: ignore[method-assign]
    messages.send_all = send_wrongly
    main()
