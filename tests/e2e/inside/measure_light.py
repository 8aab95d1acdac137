"""Run inside a twin: what a power meter and the twin itself say while light is taken away."""

from __future__ import annotations

import json
import socket
import time

from testbed.bench.instrument_factory import make_instrument
from testbed.clock import Deadline, now
from testbed.fabric.change import Change
from testbed.schema import load_lab
from testbed.twin.control_socket import ask

SEEN = "h1.p0"
"""The port at the other end of h0.p1, whose fibre runs through channel 1 of the attenuator."""

lab = load_lab("tests/e2e/attenuation/lab.yaml")
ocs, voa, opm = (make_instrument(lab, name, lambda way, data: None) for name in lab.instruments())
found = {}


def soon():
    return Deadline.after(5)


def carrier():
    """Return the last that happened to the port's carrier."""
    said = [what for _, port, what in ask({"do": "light"}) if port == SEEN and "carrier" in what]
    return said[-1] if said else None


def note(name, expected=None):
    """Keep what is measured at the three taps and the carrier, once it is as expected."""
    end = now() + 5
    while expected and carrier() != expected and now() < end:
        time.sleep(0.005)
    time.sleep(0.1)  # the longest way of a filter
    found[name] = [*(opm.power(channel, soon()).dbm for channel in (1, 2, 3)), carrier()]


for instrument in (ocs, voa, opm):
    instrument.open(soon())
note("no circuit")
ocs.apply(Change({}, {2: 11, 1: 12}), soon())
note("circuit", "carrier")
voa.attenuate(1, 10.0, soon())
note("10 dB less")
voa.attenuate(1, 20.0, soon())
note("20 dB less", "carrier-lost")
voa.attenuate(1, 0.0, soon())
note("light again", "carrier")
with socket.create_connection(("192.0.2.12", 5025), 5) as other_client:
    other_client.sendall(b":OUTP1 OFF\n")
    note("shut", "carrier-lost")
    other_client.sendall(b":OUTP1 ON\n")
    note("open", "carrier")
voa.attenuate(2, 12.0, soon())
note("12 dB less at the other receiver")
ask({"do": "power", "host": "h0", "on": False})
note("no power")
for instrument in (ocs, voa, opm):
    instrument.close()
print(json.dumps(found))
