"""A rank that takes part in AllReduces of groups with another value than it should.

Run in the place of `testbed.onhost.jobs.rank`.
"""

from typing import Any

from testbed.onhost.communication import group
from testbed.onhost.jobs.rank import main

run = group.Group.run


def run_wrongly(self: group.Group, schedule: Any, vector: group.Vector) -> group.ScheduleRecord:
    vector[5:] += 1
    return run(self, schedule, vector)


if __name__ == "__main__":
    group.Group.run = run_wrongly  # type: ignore[method-assign]
    main()
