"""A rank that from some step on gives another value than it says: element 5 is off by one.

Run in the place of `testbed.onhost.jobs.rank`. It comes to the same wrong sum on every rank, as a
ring does that adds wrongly on the way.
"""

import sys

from testbed.onhost.communication import ring
from testbed.onhost.jobs.rank import main

at = sys.argv.index("--step")
FROM = int(sys.argv[at + 1])
del sys.argv[at : at + 2]
sums = 0
add_up = ring.Ring.all_reduce


def add_wrongly(self: ring.Ring, vector: ring.Vector) -> ring.ScheduleRecord:
    global sums
    if sums >= FROM:
        vector[5] += 1
    sums += 1
    return add_up(self, vector)


if __name__ == "__main__":
    ring.Ring.all_reduce = add_wrongly  # type: ignore[method-assign]
    main()
