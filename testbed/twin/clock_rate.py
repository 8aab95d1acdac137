"""Give each virtual host a clock rate, by scaling Python's monotonic clocks at start-up.

All hosts of a twin have one kernel, and a time namespace can move a clock but not speed it up. So
what counts from start-up here counts at another rate, alike for all processes of a host, however
often it starts: agent, ranks and ordinary programs alike. Time stamps of the kernel, its timers, C
code and the calendar are not scaled; they are never compared with the scaled clocks.

This file is read by the hosts' Python, 3.9 or newer, as its `sitecustomize`.
"""

import time

DIRECTORY = "/run/testbed-clock"
"""Where it is on a host, in PYTHONPATH."""


def run_at(ppb: int) -> None:
    """Make this process's monotonic clocks gain `ppb` parts per billion on the kernel's."""
    read = time.clock_gettime_ns
    changed = {time.CLOCK_MONOTONIC, time.CLOCK_MONOTONIC_RAW, time.CLOCK_BOOTTIME}

    def clock_gettime_ns(clock: int) -> int:
        true = read(clock)
        return true + true * ppb // 10**9 if clock in changed else true

    def monotonic_ns() -> int:
        return clock_gettime_ns(time.CLOCK_MONOTONIC)

    def monotonic() -> float:
        return monotonic_ns() / 1e9

    time.clock_gettime_ns = clock_gettime_ns
    time.clock_gettime = lambda clock: clock_gettime_ns(clock) / 1e9
    time.monotonic_ns = time.perf_counter_ns = monotonic_ns
    time.monotonic = time.perf_counter = monotonic
