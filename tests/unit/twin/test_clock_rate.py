"""The clock of a virtual host's Python, beside the kernel's, which C code reads."""

import json
import os
import subprocess
import sys
import time

import pytest

from testbed.errors import TestbedError
from testbed.schema import load_lab
from testbed.twin.host import write_clock
from testbed.twin.layout import lay_out

LOOK = """
import ctypes, json, time, threading, subprocess
class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]
libc, space = ctypes.CDLL(None), Timespec()
def kernel(clock):
    libc.clock_gettime(clock, ctypes.byref(space))
    return space.seconds * 10**9 + space.nanoseconds
readings = {
    "monotonic": (lambda: time.monotonic() * 1e9, 1),
    "monotonic_ns": (time.monotonic_ns, 1),
    "perf_counter": (lambda: time.perf_counter() * 1e9, 1),
    "perf_counter_ns": (time.perf_counter_ns, 1),
    "clock_gettime": (lambda: time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9, 1),
    "raw": (lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), 4),
    "boottime": (lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME), 7),
    "real": (lambda: time.clock_gettime_ns(time.CLOCK_REALTIME), 0),
    "threading": (lambda: threading._time() * 1e9, 1),
    "subprocess": (lambda: subprocess._time() * 1e9, 1),
}
print(json.dumps({name: (kernel(c), read(), kernel(c)) for name, (read, c) in readings.items()}))
"""
"""Reads each clock between two readings of the kernel's."""

GAIN = 100_000


def looked(tmp_path, gain):
    write_clock(tmp_path / "clock", gain)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "clock")}
    done = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("gain", [GAIN, -GAIN, 0])
def test_every_monotonic_clock_of_a_host_has_the_same_rate(tmp_path, gain):
    for name, (before, read, after) in looked(tmp_path, gain).items():
        rate = 1 if name == "real" else 1 + gain / 1e9
        assert before * rate - 1e3 <= read <= after * rate + 1e3, name


def test_the_test_distinguishes_a_scaled_clock_from_an_unscaled_one(tmp_path):
    """What the test above rests on: the gain since the machine's start is more than it allows."""
    before, read, after = looked(tmp_path, GAIN)["monotonic_ns"]
    assert read - after > 10 * (after - before) or time.monotonic() < 60


LAB = """\
lab: two
hosts:
  h0: {{ssh: h0, env: {env}, ports: {{p0: {{interface: e0, address: 10.0.0.1/24, packet: tor.1}}}}}}
  h1: {{ssh: h1, ports: {{p0: {{interface: e0, address: 10.0.0.2/24, packet: tor.2}}}}}}
packet_switches: {{tor: {{ports: [1-2]}}}}
twin: {twin}
"""


def lab_with(tmp_path, twin="{}", env="{}"):
    file = tmp_path / "two.yaml"
    file.write_text(LAB.format(twin=twin, env=env))
    return load_lab(file)


def gains(lab):
    return [host.clock_drift for host in lay_out(lab).hosts.values()]


def test_clock_rates_of_hosts_are_drawn_from_the_seed_within_the_limit_of_the_lab(tmp_path):
    found = gains(lab_with(tmp_path))
    assert len(set(found)) == 2 and all(abs(gain) <= GAIN for gain in found)
    assert gains(lab_with(tmp_path)) == found
    assert gains(lab_with(tmp_path, "{seed: 1}")) != found
    wide = gains(lab_with(tmp_path, "{clock_drift: 500 ppm}"))
    assert wide == pytest.approx([5 * gain for gain in found], abs=5)
    assert gains(lab_with(tmp_path, "{clock_drift: 0 ppm}")) == [0, 0]


def test_a_clock_rate_out_of_range_is_refused(tmp_path):
    with pytest.raises(TestbedError, match="clock_drift"):
        lab_with(tmp_path, "{clock_drift: 0.06 %}")


def test_an_environment_that_would_disable_the_clock_rate_is_refused(tmp_path):
    with pytest.raises(ValueError, match="h0: its env sets PYTHONPATH"):
        lay_out(lab_with(tmp_path, env="{PYTHONPATH: /somewhere}"))
    lay_out(lab_with(tmp_path, "{clock_drift: 0 ppm}", "{PYTHONPATH: /somewhere}"))
